// Routes, rows and weights of one combine, with everything that it points to.
#pragma once

#include <string>

#include "kernels/moe/combine.h"
#include "kernels/moe/group_routes.h"
#include "kernels/moe/routes.h"
#include "kernels/variants.h"
#include "tensor/leaf_table.h"

namespace weft::kernels::testing {

struct CombineShape {
  DType dtype = DType::kBF16;
  int64_t tokens = 3;
  int64_t cols = 300;
  int experts = 60;
  int top_k = 6;
  LeafRange range{0, 16};  // the leaves that are here
  uint32_t seed = 1;
};

class CombineCase {
 public:
  explicit CombineCase(const CombineShape& shape)
      : shape_(shape),
        random_(shape.seed),
        table_(LeafTable::Make(shape.experts, 1)),
        ids_(RandomIds(shape.tokens, shape.experts, shape.top_k, random_)),
        begin_(static_cast<size_t>(shape.experts + 1)),
        token_(ids_.size()),
        place_(ids_.size()),
        merges_(TreeMerges(table_.count(), shape.range)),
        rows_(shape.dtype, shape.tokens * shape.top_k, shape.cols) {
    for (int l = shape.range.begin; l <= shape.range.end; ++l)
      leaf_begin_.push_back(static_cast<int32_t>(table_.start(l)));
    GroupRoutesArgs group{.ids = ids_.data(),
                          .rows = shape.tokens,
                          .top_k = shape.top_k,
                          .first = leaf_begin_.front(),
                          .count = leaf_begin_.back() - leaf_begin_.front(),
                          .begin = begin_.data(),
                          .token = token_.data(),
                          .place = place_.data()};
    RunWhole(*GroupRoutesKernels().back(), group);
    rows_.Fill(shape.seed);
    for (size_t i = 0; i < ids_.size(); ++i)
      weights_.push_back(static_cast<float>(random_() % 1000) / 1000);
    args_ = {.rows = rows_.view(),
             .tokens = shape.tokens,
             .top_k = shape.top_k,
             .ids = ids_.data(),
             .place = place_.data(),
             .weights = weights_.data(),
             .leaf_begin = leaf_begin_.data(),
             .leaves = shape.range.size(),
             .merges = merges_.data(),
             .roots = static_cast<int>(MaximalSubtrees(table_.count(), shape.range).size())};
    args_.rows.rows = begin_[static_cast<size_t>(group.count)];
    args_.partials_stride = shape.tokens * shape.cols + 9;
  }

  CombineArgs& args() { return args_; }
  const Matrix& rows() const { return rows_; }
  std::vector<float>& weights() { return weights_; }
  std::mt19937& random() { return random_; }
  Buffer Run(const Kernel<CombineArgs>& kernel, const std::vector<Slice>& slices = {}) const {
    const ScopedFlushDenormals environment;
    Buffer out((args_.roots * args_.partials_stride + 9) * 4);
    CombineArgs a = args_;
    a.partials = out.as<float>();
    EXPECT_EQ(kernel.refuse(a), "");
    if (slices.empty()) {
      RunWhole(kernel, a);
    } else {
      RunSlices(kernel, a, slices);
    }
    return out;
  }
  std::string Describe() const {
    return std::string(NameOf(shape_.dtype)) + ", " + std::to_string(shape_.tokens) + " x " +
           std::to_string(shape_.cols) + ", " + std::to_string(shape_.top_k) + " of " +
           std::to_string(shape_.experts) + ", leaves [" + std::to_string(shape_.range.begin) +
           ", " + std::to_string(shape_.range.end) + ")";
  }

 private:
  CombineShape shape_;
  std::mt19937 random_;
  LeafTable table_;
  std::vector<int32_t> ids_, begin_, token_, place_, leaf_begin_;
  std::vector<uint8_t> merges_;
  std::vector<float> weights_;
  Matrix rows_;
  CombineArgs args_;
};

template <typename Visit>
void ForEachCombine(const Visit& visit) {
  uint32_t seed = 1;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t cols : {1, 7, 72, 300, 515}) {
      for (const auto& [experts, top_k] : {std::pair{1, 1}, {4, 2}, {60, 6}, {256, 8}, {64, 64}}) {
        const int leaves = experts < kLeavesMax ? experts : kLeavesMax;
        for (const LeafRange range : {LeafRange{0, leaves},
                                      {0, leaves / 2},
                                      {leaves / 3, leaves},
                                      {leaves / 3, leaves - leaves / 4}}) {
          if (range.empty()) continue;
          CombineCase c({.dtype = dtype,
                         .tokens = 1 + seed % 3,
                         .cols = cols,
                         .experts = experts,
                         .top_k = top_k,
                         .range = range,
                         .seed = seed});
          ++seed;
          visit(c);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace weft::kernels::testing
