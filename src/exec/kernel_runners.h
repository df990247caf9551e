// Runners of ops that stay on a rank: a kernel, its frozen arguments, and what is live. Internal to
// bind.cc. Thread: as runner.h.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "base/hash.h"
#include "exec/runner.h"
#include "kernels/kernel.h"
#include "kernels/reduce/finish.h"

namespace weft::exec {

using kernels::Kernel;
using kernels::Slice;
using plan::Split;

// Finds a kernel of a family by the name that the plan has frozen.
template <typename Args>
const Kernel<Args>* Named(std::span<const Kernel<Args>* const> list, const std::string& name) {
  for (const Kernel<Args>* kernel : list) {
    if (kernel->name == name) return kernel;
  }
  WEFT_CHECK(false, "no kernel '{}'", name);
  return nullptr;
}

// The part of a step's units that is a worker's: [begin, end) of `of` equal parts.
struct Share {
  int64_t begin = 0, end = 1, of = 1;
  Slice Of(int64_t units) const { return {units * begin / of, units * end / of}; }
};
inline Share ShareOf(Split split, int worker, int workers) {
  return split == Split::kUnits ? Share{worker, worker + 1, workers} : Share{};
}

// A kernel with its arguments; `patch` sets the live rows of this rank and live pointers.
template <typename Args>
class KernelRunner final : public Runner {
 public:
  using Patch = void (*)(Args&, const Live&, const LiveRows&);
  KernelRunner(Args args, const Kernel<Args>* kernel, Patch patch, LiveRows rows, Share share,
               std::byte* scratch, int64_t* done)
      : args_(args),
        kernel_(kernel),
        patch_(patch),
        rows_(std::move(rows)),
        share_(share),
        scratch_(scratch),
        done_(done) {}

  void Run(const Live& live, int) override {
    Args args = args_;
    patch_(args, live, rows_);
    const Slice slice = share_.Of(kernel_->units(args));
    if (slice.begin >= slice.end) return;
    kernel_->run(args, slice, scratch_);
    *done_ += slice.end - slice.begin;
  }

 private:
  Args args_;
  const Kernel<Args>* kernel_;
  Patch patch_;
  LiveRows rows_;
  Share share_;
  std::byte* scratch_;
  int64_t* done_;  // units of this worker at this op
};

class NothingRunner final : public Runner {
 public:
  void Run(const Live&, int) override {}
};

// ExecFaults::bf16_partials.
class RoundedPartialsRunner final : public Runner {
 public:
  RoundedPartialsRunner(std::unique_ptr<Runner> matmul, float* partials, int64_t count)
      : matmul_(std::move(matmul)), partials_(partials, static_cast<size_t>(count)) {}
  void Run(const Live& live, int phase) override {
    matmul_->Run(live, phase);
    for (float& x : partials_) x = ToFloat(ToBf16(x));
  }

 private:
  std::unique_ptr<Runner> matmul_;
  std::span<float> partials_;
};

// add_rms_norm updates the residual where it stands; if the plan moved it, the rows are moved
// first.
class MovedNormRunner final : public Runner {
 public:
  MovedNormRunner(std::unique_ptr<Runner> norm, View from, View to, LiveRows rows, bool all,
                  int worker, int workers)
      : norm_(std::move(norm)),
        from_(from),
        to_(to),
        rows_(std::move(rows)),
        all_(all),
        worker_(worker),
        workers_(workers) {}
  void Run(const Live& live, int phase) override {
    const int64_t rows = rows_.Count(live);
    // A norm's units are its rows, so this worker's share of both is the same.
    const Slice s = all_ ? Slice{0, rows} : kernels::SliceOf(rows, worker_, workers_);
    const int64_t bytes = from_.cols * FactsOf(from_.dtype).block_bytes;
    for (int64_t r = s.begin; r < s.end; ++r) {
      const int64_t e = FactsOf(from_.dtype).block_bytes;
      std::copy_n(static_cast<const std::byte*>(from_.data) + r * from_.stride * e, bytes,
                  static_cast<std::byte*>(to_.data) + r * to_.stride * e);
    }
    norm_->Run(live, phase);
  }

 private:
  std::unique_ptr<Runner> norm_;
  View from_, to_;
  LiveRows rows_;
  bool all_;
  int worker_, workers_;
};

// XXH64 over the hashes of the vocabulary leaves in order (docs/numerics.md 12).
class HashLogitsRunner final : public Runner {
 public:
  HashLogitsRunner(View logits, LeafTable leaves, bool works)
      : logits_(logits), leaves_(std::move(leaves)), works_(works) {}
  void Run(const Live& live, int) override {
    if (!works_) return;
    for (int32_t r = 0; r < live.head_rows; ++r) {
      const float* row = logits_.row<const float>(r);
      uint64_t hashes[kLeavesMax];
      for (int l = 0; l < leaves_.count(); ++l) {
        hashes[l] =
            Hash64(row + leaves_.start(l), static_cast<size_t>(leaves_.width(l)) * sizeof(float));
      }
      live.logits_hash[r] = Hash64(hashes, static_cast<size_t>(leaves_.count()) * sizeof(uint64_t));
    }
  }

 private:
  View logits_;
  LeafTable leaves_;
  bool works_;
};

// One rank: its roots are all there are.
class FinishRunner final : public Runner {
 public:
  FinishRunner(kernels::FinishArgs args, std::vector<const float*> roots)
      : roots_(std::move(roots)), strides_(roots_.size(), args.y.cols) {
    args.count = static_cast<int>(roots_.size());
    args.roots = roots_.data();
    args.strides = strides_.data();
    args_ = args;
  }
  void Bind(const Kernel<kernels::FinishArgs>* kernel, LiveRows rows, Share share,
            std::byte* scratch, int64_t* done) {
    runner_ = std::make_unique<KernelRunner<kernels::FinishArgs>>(
        args_, kernel,
        [](kernels::FinishArgs& a, const Live& live, const LiveRows& rows) {
          a.y.rows = rows.Count(live);
        },
        rows, share, scratch, done);
  }
  void Run(const Live& live, int phase) override { runner_->Run(live, phase); }

 private:
  std::vector<const float*> roots_;
  std::vector<int64_t> strides_;
  kernels::FinishArgs args_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace weft::exec
