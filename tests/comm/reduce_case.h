// A made-up reduction: leaves with values whose sum depends on the order, spread over ranks, with
// rows that are padded and pointers that are off their alignment. Shared by tests of comm.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/bf16.h"
#include "base/rng.h"
#include "comm/mesh.h"
#include "comm/method.h"
#include "comm/roots.h"
#include "kernels/float_env.h"

namespace weft::comm {

struct ReduceShape {
  int ranks = 1;
  int leaves = 1;
  int64_t rows = 1;
  int64_t cols = 1;
  DType dtype = DType::kBF16;
  bool bias = true;
  int offset = 0;  // elements between a 64-byte line and the first element, and padding of rows
  std::vector<int64_t> starts;  // [ranks + 1] of a reduce-scatter; empty: OwnedBegin()
  uint64_t seed = 1;
};

class ReduceCase {
 public:
  explicit ReduceCase(const ReduceShape& shape)
      : shape_(shape), layout_(MakeRootLayout(LeafTable::Make(shape.leaves, 1), shape.ranks)) {
    Rng rng(shape.seed);
    leaves_.resize(shape.leaves);
    for (auto& leaf : leaves_) {
      leaf.resize(shape.rows * shape.cols);
      // Magnitudes over 2^12: close sums would hide a wrong order behind the rounding.
      for (float& x : leaf)
        x = rng.Uniform(-1, 1) * std::ldexp(1.0f, static_cast<int>(rng.Below(12)));
    }
    if (shape.bias) {
      for (int64_t i = 0; i < shape.cols; ++i) bias_.push_back(rng.Uniform(-4, 4));
    }
    stride_ = shape.cols + shape.offset;
    for (LeafRange root : layout_.roots) {
      root_memory_.emplace_back(shape.rows * stride_ + shape.offset + 16, 0.0f);
      float* const base = root_memory_.back().data() + shape.offset;
      roots_.push_back(base);
      strides_.push_back(stride_);
      for (int64_t r = 0; r < shape.rows; ++r) {
        for (int64_t c = 0; c < shape.cols; ++c) {
          base[r * stride_ + c] = Tree(root.begin, root.end, r, c);
        }
      }
    }
    pristine_ = root_memory_;
    // The best that this machine has and the contract, by turns.
    finish_ = shape.seed % 2 == 0
                  ? kernels::FinishKernels().back()
                  : kernels::Choose(
                        kernels::FinishKernels(),
                        kernels::FinishArgs{.count = layout_.count(), .y = {.dtype = shape.dtype}},
                        kernels::DetectIsa());
    for (int rank = 0; rank < shape.ranks; ++rank) {
      y_memory_.emplace_back((shape.rows * stride_ + shape.offset + 16) * 4);
    }
  }

  const ReduceShape& shape() const { return shape_; }
  const RootLayout& layout() const { return layout_; }
  std::vector<std::vector<float>>& root_memory() { return root_memory_; }

  int64_t FirstRowOf(int i) const {
    return shape_.starts.empty() ? OwnedBegin(shape_.rows, i, shape_.ranks) : shape_.starts[i];
  }

  // Roots as they were, results full of a pattern that no result has everywhere.
  void Reset() {
    for (size_t i = 0; i < pristine_.size(); ++i) {
      std::copy(pristine_[i].begin(), pristine_[i].end(), root_memory_[i].begin());
    }
    for (auto& y : y_memory_) std::memset(y.data(), 0xEE, y.size());
  }

  std::vector<ReduceArgs> Args(Collective kind) {
    y_.clear();
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const int64_t rows = kind == Collective::kReduceScatter
                               ? FirstRowOf(rank + 1) - FirstRowOf(rank)
                               : shape_.rows;
      y_.push_back({.data = y_memory_[rank].data() + BytesOf(shape_.dtype, shape_.offset),
                    .rows = rows,
                    .cols = shape_.cols,
                    .stride = stride_,
                    .dtype = shape_.dtype});
    }
    std::vector<ReduceArgs> out;
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      out.push_back({.rank = rank,
                     .ranks = shape_.ranks,
                     .rows = shape_.rows,
                     .cols = shape_.cols,
                     .root_count = layout_.count(),
                     .root_ranks = layout_.root_ranks.data(),
                     .merges = layout_.merges.data(),
                     .dtype = shape_.dtype,
                     .starts = shape_.starts.empty() ? nullptr : shape_.starts.data(),
                     .roots = roots_.data(),
                     .strides = strides_.data(),
                     .bias = bias_.empty() ? nullptr : bias_.data(),
                     .y = y_.data(),
                     .finish = finish_});
    }
    return out;
  }

  // All ranks' results, padding included.
  std::vector<std::vector<std::byte>> Results() const { return y_memory_; }

  // What rank's buffer must be, from the leaves alone: one tree over all leaves, bias, rounding.
  std::vector<std::byte> Expected(Collective kind, int rank) const {
    std::vector<std::byte> out(y_memory_[rank].size(), std::byte{0xEE});
    const bool scatter = kind == Collective::kReduceScatter;
    const int64_t begin = scatter ? FirstRowOf(rank) : 0;
    const int64_t end = scatter ? FirstRowOf(rank + 1) : shape_.rows;
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < shape_.cols; ++c) {
        float y = Tree(0, shape_.leaves, r, c);
        if (!bias_.empty()) y += bias_[c];
        const int64_t at = shape_.offset + (r - begin) * stride_ + c;
        if (shape_.dtype == DType::kF32) {
          std::memcpy(out.data() + at * 4, &y, 4);
        } else {
          const Bf16 rounded = ToBf16(y);
          std::memcpy(out.data() + at * 2, &rounded, 2);
        }
      }
    }
    return out;
  }

 private:
  float Tree(int lo, int hi, int64_t r, int64_t c) const {
    if (hi - lo == 1) return leaves_[lo][r * shape_.cols + c];
    const int middle = TreeSplit(lo, hi);
    return Tree(lo, middle, r, c) + Tree(middle, hi, r, c);
  }

  const kernels::ScopedFlushDenormals flush_;
  const kernels::Kernel<kernels::FinishArgs>* finish_ = nullptr;
  ReduceShape shape_;
  RootLayout layout_;
  int64_t stride_ = 0;
  std::vector<std::vector<float>> leaves_;
  std::vector<float> bias_;
  std::vector<std::vector<float>> root_memory_, pristine_;
  std::vector<float*> roots_;
  std::vector<int64_t> strides_;
  std::vector<std::vector<std::byte>> y_memory_;
  std::vector<View> y_;
};

// Runs a collective for all members, phase by phase; within a phase members come in a random order
// and the units of each are cut at random places and run in a random order, as free workers would.
// Returns the bytes each member took.
template <typename Args>
std::vector<int64_t> RunShuffled(const Method<Args>& method, const std::vector<Args>& members,
                                 Rng* rng) {
  std::vector<int64_t> bytes(members.size(), 0);
  for (int phase = 0; phase < method.phases(members[0]); ++phase) {
    struct Piece {
      size_t member;
      Slice slice;
    };
    std::vector<Piece> pieces;
    for (size_t m = 0; m < members.size(); ++m) {
      const int64_t units = method.units(members[m], phase);
      for (int64_t at = 0; at < units;) {
        const int64_t size = 1 + static_cast<int64_t>(rng->Below(units - at));
        pieces.push_back({m, {at, at + size}});
        at += size;
      }
    }
    for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[rng->Below(i)]);
    for (const Piece& piece : pieces) {
      bytes[piece.member] += method.run(members[piece.member], phase, piece.slice);
    }
  }
  return bytes;
}

}  // namespace weft::comm
