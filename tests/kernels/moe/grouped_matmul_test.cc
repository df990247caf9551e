#include "kernels/moe/grouped_matmul.h"

#include <memory>

#include "kernels/matmul/matmul_case.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::MatmulCase;
using testing::MatmulShape;
using testing::RandomSlices;
using testing::TestLeaves;
using testing::TestMatrix;

// A matrix for each expert and rows for all of them; the counts of rows are the experts'.
class GroupedCase {
 public:
  GroupedCase(MatmulShape shape, const std::vector<int>& counts) : case_(WithRows(shape, counts)) {
    for (const int count : counts) {
      begin_.push_back(begin_.back() + count);
      matrices_.push_back(std::make_unique<TestMatrix>(
          shape.weight,
          TestMatrix::RandomRows(shape.weight, shape.n_starts.back(), shape.leaves.size(),
                                 case_.random()),
          shape.n_starts, shape.leaves.starts(), shape.range.begin, shape.range.end));
      experts_.push_back(matrices_.back()->packed());
    }
  }
  GroupedMatmulArgs Args(const Kernel<MatmulArgs>& kernel, const Buffer& out) const {
    GroupedMatmulArgs a{.matmul = case_.Into(out),
                        .rows_max = case_.shape().m,
                        .count = static_cast<int>(experts_.size()),
                        .experts = experts_.data(),
                        .begin = begin_.data(),
                        .kernel = &kernel};
    a.matmul.w.data = nullptr;
    return a;
  }
  Buffer Run(const Kernel<MatmulArgs>& kernel, bool cut) {
    const ScopedFlushDenormals environment;
    Buffer out(case_.OutputBytes());
    const GroupedMatmulArgs a = Args(kernel, out);
    const Kernel<GroupedMatmulArgs>& grouped = *GroupedMatmulKernels().back();
    EXPECT_EQ(grouped.refuse(a), "");
    const int64_t units = grouped.units(a);
    testing::RunSlices(grouped, a,
                       cut ? RandomSlices(units, case_.random()) : std::vector<Slice>{{0, units}});
    return out;
  }
  // The contract, every row alone.
  Buffer Expected() const {
    const ScopedFlushDenormals environment;
    Buffer out(case_.OutputBytes());
    for (size_t e = 0; e < experts_.size(); ++e) {
      for (int64_t row = begin_[e]; row < begin_[e + 1]; ++row) {
        MatmulArgs one = OfRows(case_.Into(out), row, row + 1);
        one.w = experts_[e];
        testing::RunWhole(*MatmulKernels().back(), one);
      }
    }
    return out;
  }
  MatmulCase& dense() { return case_; }

 private:
  static MatmulShape WithRows(MatmulShape shape, const std::vector<int>& counts) {
    shape.m = 0;
    for (const int count : counts) shape.m += count;
    return shape;
  }

  MatmulCase case_;
  std::vector<int32_t> begin_{0};
  std::vector<std::unique_ptr<TestMatrix>> matrices_;
  std::vector<PackedMatrix> experts_;
};

struct Format {
  DType weight;
  bool int8;
};
constexpr Format kFormats[] = {{DType::kBF16, false}, {DType::kF32, false},  {DType::kF16, false},
                               {DType::kQ8_0, true},  {DType::kQ8_0, false}, {DType::kQ4_K, true},
                               {DType::kQ4_K, false}, {DType::kQ6_K, true}};

// gate | up by one leaf, down by its own tree; rounded, in fp32 and as roots.
std::vector<MatmulShape> Shapes(const Format& format) {
  MatmulShape gate_up{
      .weight = format.weight, .int8 = format.int8, .n_starts = {0, 40, 84}, .y = DType::kBF16};
  gate_up.leaves = TestLeaves(format.weight, 1);
  gate_up.range = {0, 1};
  MatmulShape down = gate_up;
  down.n_starts = {0, 100};
  down.leaves = TestLeaves(format.weight, 5);
  down.range = {0, 5};
  down.y = DType::kF32;
  MatmulShape roots = down;
  roots.range = {1, 5};
  roots.finish = false;
  return {gate_up, down, roots};
}

TEST(GroupedMatmul, ARowIsThatOfTheDenseContractHoweverManyItsExpertHas) {
  const std::vector<int> counts[] = {{1, 1, 1, 1}, {0, 3, 0, 1, 2, 0}, {50, 0, 1, 3}, {0, 0, 1}};
  for (const Format& format : kFormats) {
    for (const MatmulShape& shape : Shapes(format)) {
      for (const auto& rows : counts) {
        GroupedCase c(shape, rows);
        const Buffer expected = c.Expected();
        int compared = 0;
        for (const Kernel<MatmulArgs>* kernel : MatmulKernels()) {
          const MatmulArgs& args = c.dense().args();
          if (kernel->isa > DetectIsa() ||
              ChooseForExperts(args, DetectIsa(), kernel->name) == nullptr)
            continue;
          ASSERT_EQ(c.Run(*kernel, false), expected)
              << kernel->name << ": " << c.dense().Describe();
          ASSERT_EQ(c.Run(*kernel, true), expected)
              << kernel->name << " in slices: " << c.dense().Describe();
          ++compared;
        }
        ASSERT_GT(compared, 1);
      }
    }
  }
}

TEST(GroupedMatmul, NoRowsAreNoUnits) {
  const MatmulShape shape{.weight = DType::kBF16};
  GroupedCase c(shape, {0, 0, 0});
  EXPECT_EQ(c.Run(*MatmulKernels().back(), false), c.Expected());
  const Buffer out(0);
  EXPECT_EQ(GroupedMatmulKernels().back()->units(c.Args(*MatmulKernels().back(), out)), 0);
}

// Decode: 8 experts of one row are 8 times the same cost, so workers get kernel units that differ
// by one per expert.
TEST(GroupedMatmul, ExpertsOfOneRowDivideEvenly) {
  MatmulShape shape{.weight = DType::kBF16, .n_starts = {0, 1024}};
  GroupedCase c(shape, {1, 0, 1, 1, 1, 1, 0, 1, 1, 1});
  const Buffer out(c.dense().OutputBytes());
  static int64_t done;
  static Kernel<MatmulArgs> counting;
  counting = *MatmulKernels().back();
  counting.run = [](const MatmulArgs&, Slice slice, std::byte*) {
    done += slice.end - slice.begin;
  };
  const GroupedMatmulArgs a = c.Args(counting, out);
  const Kernel<GroupedMatmulArgs>& grouped = *GroupedMatmulKernels().back();
  for (const int workers : {2, 3, 8, 16}) {
    int64_t total = 0;
    for (int w = 0; w < workers; ++w) {
      done = 0;
      grouped.run(a, SliceOf(grouped.units(a), w, workers), nullptr);
      EXPECT_LE(std::abs(done - 8 * 64 / workers), 1) << w << " of " << workers;
      total += done;
    }
    EXPECT_EQ(total, 8 * 64);
  }
}

// What scratch a step needs must hold for every count of rows that it can meet.
TEST(GroupedMatmul, ScratchIsThatOfTheHungriestCount) {
  for (const Format& format : kFormats) {
    MatmulShape shape{.weight = format.weight, .int8 = format.int8, .n_starts = {0, 100}};
    shape.leaves = TestLeaves(format.weight, 5);
    shape.range = {0, 5};
    GroupedCase c(shape, {7});
    const Buffer out(c.dense().OutputBytes());
    const Kernel<MatmulArgs>* kernel = ChooseForExperts(c.dense().args(), DetectIsa());
    ASSERT_NE(kernel, nullptr);
    const GroupedMatmulArgs a = c.Args(*kernel, out);
    for (int64_t rows = 1; rows <= 7; ++rows) {
      MatmulArgs args = a.matmul;
      args.rows = rows;
      EXPECT_GE(GroupedMatmulKernels().back()->scratch_bytes(a), kernel->scratch_bytes(args))
          << rows;
    }
  }
}

// A kernel for many rows alone is not taken, whatever the count.
TEST(GroupedMatmul, TheKernelIsThatOfASingleRow) {
  MatmulShape shape{.weight = DType::kQ8_0, .int8 = true, .m = 64};
  MatmulCase c(shape);
  const auto* chosen = ChooseForExperts(c.args(), kIsaMax);
  ASSERT_NE(chosen, nullptr);
  MatmulArgs one = c.args();
  one.rows = 1;
  EXPECT_EQ(chosen->refuse(one), "");
  EXPECT_EQ(ChooseForExperts(c.args(), Isa::kPortable)->name, "ref");
  EXPECT_EQ(ChooseForExperts(c.args(), Isa::kAvx2, "none"), nullptr);
}

TEST(GroupedMatmul, RefusalsSayWhy) {
  GroupedCase c(MatmulShape{}, {1});
  const Buffer out(c.dense().OutputBytes());
  GroupedMatmulArgs a = c.Args(*MatmulKernels().back(), out);
  const Kernel<GroupedMatmulArgs>& grouped = *GroupedMatmulKernels().back();
  a.matmul.w.k_leaves = 17;
  EXPECT_EQ(grouped.refuse(a), "ref: 17 K-leaves, at most 16");
  a = c.Args(*MatmulKernels().back(), out);
  const float bias[16] = {};
  a.matmul.bias = bias;
  EXPECT_EQ(grouped.refuse(a), "a bias, which would be every expert's");
  a.kernel = nullptr;
  EXPECT_EQ(grouped.refuse(a), "no matmul kernel for the experts");
}

}  // namespace
}  // namespace weft::kernels
