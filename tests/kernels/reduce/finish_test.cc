#include "kernels/reduce/finish.h"

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "kernels/float_env.h"
#include "kernels/matmul/test_matrix.h"
#include "kernels/memory.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::RandomFloat;
using testing::RandomSlices;

const Kernel<FinishArgs>& FinishContract() { return *FinishKernels().back(); }

// The roots of `ranks` ranks over `leaves` leaves, random values, and the plan to finish them.
struct Case {
  Case(int leaves, int ranks, int64_t rows, int64_t cols, std::mt19937& random) {
    const LeafTable table = LeafTable::Make(leaves * 4, 4, leaves);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const LeafRange root : MaximalSubtrees(leaves, table.OwnedBy(rank, ranks))) {
        ranges.push_back(root);
      }
    }
    merges = RootMerges(leaves, ranges);
    for (size_t i = 0; i < ranges.size(); ++i) {
      strides.push_back(cols + static_cast<int64_t>(i));
      values.emplace_back(static_cast<size_t>(rows * strides.back()));
      for (float& v : values.back()) v = RandomFloat(random);
    }
    for (const auto& v : values) roots.push_back(v.data());
    bias.resize(static_cast<size_t>(cols));
    for (float& b : bias) b = RandomFloat(random);
    args.roots = roots.data();
    args.strides = strides.data();
    args.count = static_cast<int>(roots.size());
    args.merges = merges.data();
    args.y = {nullptr, rows, cols, cols + 9, DType::kF32};
  }
  Buffer Run(const Kernel<FinishArgs>& kernel, const std::vector<Slice>& slices) {
    const ScopedFlushDenormals environment;
    Buffer out(args.y.rows * args.y.stride * 4);
    args.y.data = out.data();
    testing::RunSlices(kernel, args, slices);
    return out;
  }
  std::vector<LeafRange> ranges;
  std::vector<uint8_t> merges;
  std::vector<std::vector<float>> values;
  std::vector<const float*> roots;
  std::vector<int64_t> strides;
  std::vector<float> bias;
  FinishArgs args;
};

TEST(Finish, EveryVariantEqualsTheContract) {
  std::mt19937 random(21);
  for (const int leaves : {1, 5, 16}) {
    for (const int ranks : {1, 2, 3, 8}) {
      for (const int64_t rows : {1, 3}) {
        for (const int64_t cols : {1, 7, 8, 100}) {
          for (const DType y : {DType::kF32, DType::kBF16}) {
            Case c(leaves, ranks, rows, cols, random);
            c.args.y.dtype = y;
            if (random() % 2 == 0) c.args.bias = c.bias.data();
            const Buffer expected = c.Run(FinishContract(), {{0, rows}});
            for (const auto* kernel : FinishKernels()) {
              if (kernel->isa > DetectIsa()) continue;
              ASSERT_EQ(c.Run(*kernel, RandomSlices(rows, random)), expected)
                  << kernel->name << " leaves " << leaves << " ranks " << ranks << " cols " << cols;
            }
          }
        }
      }
    }
  }
}

// By hand: three roots of Tree(0, 3) = (0 1) 2, the bias last.
TEST(Finish, AddsByTheTreeThenTheBias) {
  std::mt19937 random(22);
  Case c(3, 3, 1, 1, random);
  c.values[0][0] = 0x1p24f;
  c.values[1][0] = 1.0f;
  c.values[2][0] = -0x1p24f;
  c.bias[0] = 0.5f;
  c.args.bias = c.bias.data();
  // 2^24 + 1 rounds to 2^24; 0 + 0.5. Right first would give 1.5 or 0 by other orders.
  for (const auto* kernel : FinishKernels()) {
    if (kernel->isa > DetectIsa()) continue;
    EXPECT_EQ(c.Run(*kernel, {{0, 1}}).as<float>()[0], 0.5f) << kernel->name;
  }
}

TEST(Finish, TheBestVariantIsTaken) {
  std::mt19937 random(23);
  Case c(1, 1, 1, 8, random);
  EXPECT_EQ(Choose(FinishKernels(), c.args, Isa::kAvx2)->name, "avx2");
  EXPECT_EQ(Choose(FinishKernels(), c.args, Isa::kAvx2, "ref")->name, "ref");
}

}  // namespace
}  // namespace weft::kernels
