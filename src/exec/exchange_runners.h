// Runners of ops that read other ranks' windows. Internal to bind.cc. Thread: as runner.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/method.h"
#include "comm/parts.h"
#include "exec/runner.h"

namespace weft::exec {

using kernels::Slice;
using plan::Split;

// Exchanges: the method's slice of this worker, and the count of what it took from peers. Where every
// worker does all of it for itself, one of them counts for the rank.
template <typename Args>
class ExchangeRunner : public Runner {
 public:
  ExchangeRunner(const BindContext& c, const comm::Method<Args>* method, Split split)
      : fabric_(c.fabric), actor_{0, c.rank, c.worker}, method_(method), each_(split == Split::kEach),
        workers_(c.plan->workers_per_rank) {}

 protected:
  void RunSlice(const Args& args, int phase) {
    const int64_t units = method_->units(args, phase);
    const Slice slice = each_ ? Slice{0, units} : kernels::SliceOf(units, actor_.worker, workers_);
    const int64_t bytes = method_->run(args, phase, slice);
    fabric_->Count(actor_, method_->kind, phase == 0 && actor_.worker == 0 ? 1 : 0,
                   each_ && actor_.worker != 0 ? 0 : bytes);
  }
  comm::Fabric* fabric_;
  comm::Actor actor_;
  const comm::Method<Args>* method_;
  bool each_;
  int workers_;
};

template <typename Args>
const comm::Method<Args>* MethodNamed(std::span<const comm::Method<Args>* const> list, std::string_view name) {
  for (const comm::Method<Args>* method : list) {
    if (method->name == name) return method;
  }
  WEFT_CHECK(false, "no method '{}'", name);
  return nullptr;
}

class AllReduceRunner final : public ExchangeRunner<comm::ReduceArgs> {
 public:
  AllReduceRunner(const BindContext& c, const std::string& method, Split split, comm::ReduceArgs args,
                  std::vector<float*> roots, std::vector<int64_t> strides, std::vector<View> ys, bool head)
      : ExchangeRunner(c, MethodNamed(comm::AllReduceMethods(), method), split), args_(args),
        roots_(std::move(roots)), strides_(std::move(strides)), ys_(std::move(ys)), head_(head) {
    args_.roots = roots_.data();
    args_.strides = strides_.data();
    args_.y = ys_.data();
  }
  int phases() const override { return method_->phases(args_); }
  void Run(const Live& live, int phase) override {
    args_.rows = head_ ? live.head_rows : live.tokens;
    for (View& y : ys_) y.rows = args_.rows;
    RunSlice(args_, phase);
  }

 private:
  comm::ReduceArgs args_;
  std::vector<float*> roots_;
  std::vector<int64_t> strides_;
  std::vector<View> ys_;
  bool head_;
};

class AllGatherRunner final : public ExchangeRunner<comm::MoveArgs> {
 public:
  AllGatherRunner(const BindContext& c, const std::string& method, Split split, std::vector<View> shards, View whole, bool head)
      : ExchangeRunner(c, MethodNamed(comm::AllGatherMethods(), method), split), shards_(std::move(shards)), whole_(whole), head_(head) {
    parts_.resize(shards_.size());
  }
  void Run(const Live& live, int phase) override {
    whole_.rows = head_ ? live.head_rows : live.tokens;
    for (View& s : shards_) s.rows = whole_.rows;
    comm::MoveArgs args;
    args.rank = actor_.rank;
    args.parts = parts_.data();
    args.count = comm::GatherCols(shards_, whole_, parts_);
    RunSlice(args, phase);
  }

 private:
  std::vector<View> shards_;
  View whole_;
  bool head_;
  std::vector<comm::Part> parts_;
};

class PairMaxRunner final : public ExchangeRunner<comm::PairMaxArgs> {
 public:
  PairMaxRunner(const BindContext& c, const std::string& method, Split split, std::vector<const kernels::ValueIndex*> peers, kernels::ValueIndex* out)
      : ExchangeRunner(c, MethodNamed(comm::PairMaxMethods(), method), split), peers_(std::move(peers)) {
    args_.rank = c.rank;
    args_.ranks = static_cast<int>(peers_.size());
    args_.peers = peers_.data();
    args_.out = out;
  }
  void Run(const Live& live, int phase) override {
    args_.rows = live.head_rows;
    RunSlice(args_, phase);
  }

 private:
  std::vector<const kernels::ValueIndex*> peers_;
  comm::PairMaxArgs args_;
};

}  // namespace weft::exec
