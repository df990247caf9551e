// Every matmul variant that this CPU can run, against the contract, by memory.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/matmul/matmul_case.h"
#include "tensor/quant_format.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::kBlockTypes;
using testing::kPlainTypes;
using testing::MatmulCase;
using testing::MatmulShape;
using testing::RandomSlices;
using testing::TestLeaves;

const Kernel<MatmulArgs>& MatmulContract() { return *MatmulKernels().back(); }

std::vector<const Kernel<MatmulArgs>*> VariantsFor(const MatmulArgs& args) {
  std::vector<const Kernel<MatmulArgs>*> out;
  for (const Kernel<MatmulArgs>* kernel : MatmulKernels()) {
    if (kernel != &MatmulContract() && kernel->isa <= DetectIsa() && kernel->refuse(args).empty()) {
      out.push_back(kernel);
    }
  }
  return out;
}

void SweepShapes(DType weight, bool int8) {
  testing::ForEachShape(weight, int8, [](const MatmulShape& shape) {
    MatmulCase c(shape);
    const Buffer expected = c.Run(MatmulContract());
    const auto variants = VariantsFor(c.args());
    ASSERT_TRUE(!variants.empty() || DetectIsa() < Isa::kAvx2);
    for (const Kernel<MatmulArgs>* kernel : variants) {
      ASSERT_EQ(c.Run(*kernel), expected) << kernel->name << ": " << c.Describe();
      const auto slices = RandomSlices(kernel->units(c.args()), c.random());
      ASSERT_EQ(c.Run(*kernel, slices), expected)
          << kernel->name << " in " << slices.size() << " slices: " << c.Describe();
    }
  });
}

// What a worker fetches before its units are the weights of the outputs that they write.
void PanelsAreThoseOfTheirOutputs(DType weight, bool int8) {
  testing::ForEachShape(weight, int8, [](const MatmulShape& shape) {
    if (shape.m > 16 || !shape.finish || shape.y != DType::kF32) return;
    MatmulCase c(shape);
    auto variants = VariantsFor(c.args());
    variants.push_back(&MatmulContract());
    for (const Kernel<MatmulArgs>* kernel : variants) {
      Buffer untouched(c.OutputBytes());
      const int64_t units = kernel->units(c.args());
      for (const Slice slice : {kernels::SliceOf(units, 0, 3), kernels::SliceOf(units, 1, 3),
                                kernels::SliceOf(units, 2, 3)}) {
        const Buffer out = c.Run(*kernel, {slice});
        const Slice panels = kernel->panels(c.args(), slice);
        const PackedMatrix& w = c.args().w;
        ASSERT_LE(panels.end, w.panels);
        for (int64_t p = 0; p < w.panels; ++p) {
          const bool inside = p >= panels.begin && p < panels.end;
          const auto* before = untouched.as<float>() + w.panel_begin[p];
          const auto* after = out.as<float>() + w.panel_begin[p];
          const size_t bytes = static_cast<size_t>(w.panel_begin[p + 1] - w.panel_begin[p]) * 4;
          ASSERT_EQ(std::memcmp(before, after, bytes) != 0, inside)
              << kernel->name << " panel " << p << ": " << c.Describe();
        }
      }
    }
  });
}

TEST(Matmul, PanelsAreThoseOfTheirOutputs) {
  PanelsAreThoseOfTheirOutputs(DType::kBF16, false);
  PanelsAreThoseOfTheirOutputs(DType::kQ8_0, true);
  PanelsAreThoseOfTheirOutputs(DType::kQ4_1, false);
}

TEST(Matmul, PlainVariantsEqualTheContract) {
  for (const DType weight : kPlainTypes) SweepShapes(weight, false);
}

TEST(Matmul, BlockVariantsByInt8EqualTheContract) {
  for (const DType weight : kBlockTypes) SweepShapes(weight, true);
}

TEST(Matmul, BlockVariantsByBf16EqualTheContract) {
  for (const DType weight : kBlockTypes) SweepShapes(weight, false);
}

// Long K: several pieces per leaf, and row blocks that are smaller than M.
TEST(Matmul, LongLeavesAndManyRowsEqualTheContract) {
  for (const DType weight : {DType::kBF16, DType::kF32, DType::kQ8_0, DType::kQ6_K}) {
    for (const bool int8 : {false, true}) {
      if (int8 && !IsQuantised(weight)) continue;
      for (const int64_t k : {1280, 2560}) {
        MatmulShape shape{.weight = weight, .int8 = int8, .m = 131, .n_starts = {0, 20}};
        shape.leaves = LeafTable::Make(k, 256, 2);
        shape.range = {0, 2};
        MatmulCase c(shape);
        const Buffer expected = c.Run(MatmulContract());
        for (const Kernel<MatmulArgs>* kernel : VariantsFor(c.args())) {
          ASSERT_EQ(c.Run(*kernel), expected) << kernel->name << ": " << c.Describe();
        }
      }
    }
  }
}

TEST(Matmul, ARowIsTheSameAloneAndAmongOthers) {
  for (const DType weight : {DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_K}) {
    MatmulShape shape{.weight = weight, .int8 = IsQuantised(weight), .m = 40, .n_starts = {0, 100}};
    shape.leaves = TestLeaves(weight, 5);
    shape.range = {0, 5};
    MatmulCase c(shape);
    for (const Kernel<MatmulArgs>* kernel : VariantsFor(c.args())) {
      const Buffer all = c.Run(*kernel);
      for (const int64_t row : {0, 17, 39}) {
        MatmulCase alone(shape);
        MatmulArgs& args = alone.args();
        args.x.data = args.x.row<Bf16>(row);
        if (shape.int8) {
          args.xq.q += row * args.xq.k;
          args.xq.d += row * args.xq.k / kQuantBlock;
          args.xq.sum += row * args.xq.k / kQuantBlock;
        }
        args.rows = 1;
        const Buffer one = alone.Run(*kernel);
        const int64_t row_bytes = one.bytes();
        ASSERT_EQ(
            std::memcmp(one.data(), all.data() + row * row_bytes, static_cast<size_t>(row_bytes)),
            0)
            << kernel->name << " row " << row << ": " << c.Describe();
      }
    }
  }
}

// A rank's partials, finished by the tree, are what one rank computes alone.
TEST(Matmul, PartialsOfTwoRanksAddUpToTheWhole) {
  MatmulShape shape{.weight = DType::kBF16, .m = 3, .n_starts = {0, 40}};
  shape.leaves = TestLeaves(shape.weight, 5);
  shape.range = {0, 5};
  MatmulCase whole(shape);
  const Buffer expected = whole.Run(MatmulContract());
  // Tree(0, 5) = ((0 1)(2 3)) 4, so the cut at 4 leaves one root on each side.
  Buffer sides[2] = {Buffer(0), Buffer(0)};
  for (int side = 0; side < 2; ++side) {
    MatmulShape part = shape;
    part.range = side == 0 ? LeafRange{0, 4} : LeafRange{4, 5};
    part.finish = false;
    MatmulCase c(part);
    ASSERT_EQ(c.args().roots, 1);
    // The same rows of x, from the side's first input.
    c.args().x = whole.args().x;
    c.args().x.data = whole.args().x.row<Bf16>(0) + shape.leaves.start(part.range.begin);
    sides[side] = c.Run(MatmulContract());
  }
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t n = 0; n < 40; ++n) {
      const float sum = sides[0].as<float>()[row * 40 + n] + sides[1].as<float>()[row * 40 + n];
      ASSERT_EQ(sum, expected.as<float>()[row * (40 + MatmulCase::kGuard) + n]) << row << " " << n;
    }
  }
}

// Negative controls: if these breaks gave equal memory, the tests above could not see them.
TEST(Matmul, LeavesAddedInPlainOrderAreSeen) {
  MatmulShape shape{.weight = DType::kBF16, .m = 8, .n_starts = {0, 100}};
  shape.leaves = TestLeaves(shape.weight, 16);
  shape.range = {0, 16};
  MatmulCase c(shape);
  std::vector<uint8_t> plain(16, 1);
  plain[0] = 0;
  for (const Kernel<MatmulArgs>* kernel : MatmulKernels()) {
    if (kernel->isa > DetectIsa() || !kernel->refuse(c.args()).empty()) continue;
    MatmulCase broken(shape);
    broken.args().merges = plain.data();
    EXPECT_FALSE(broken.Run(*kernel) == c.Run(MatmulContract())) << kernel->name;
  }
}

TEST(Matmul, LeafBoundariesThatAreIgnoredAreSeen) {
  MatmulShape shape{.weight = DType::kQ8_0, .int8 = true, .m = 2, .n_starts = {0, 100}};
  shape.leaves = LeafTable::Make(512, 32, 4);
  shape.range = {0, 4};
  MatmulShape whole = shape;
  whole.leaves = LeafTable::Whole(512);
  whole.range = {0, 1};
  EXPECT_FALSE(MatmulCase(shape).Run(MatmulContract()) == MatmulCase(whole).Run(MatmulContract()));
}

TEST(Matmul, TheBestVariantOfThisCpuIsTakenAndCanBeForced) {
  if (DetectIsa() < Isa::kAvx2) GTEST_SKIP() << "no AVX2";
  const struct {
    DType weight;
    bool int8;
    std::string_view name;
  } expected[] = {{DType::kBF16, false, "avx2"},
                  {DType::kF16, false, "avx2"},
                  {DType::kQ8_0, true, "avx2:int8"},
                  {DType::kQ4_K, false, "avx2:blocks"}};
  for (const auto& e : expected) {
    MatmulShape shape{.weight = e.weight, .int8 = e.int8};
    shape.leaves = LeafTable::Whole(256);
    MatmulCase c(shape);
    const auto* chosen = Choose(MatmulKernels(), c.args(), Isa::kAvx2);
    ASSERT_NE(chosen, nullptr);
    EXPECT_EQ(chosen->name, e.name);
    EXPECT_EQ(Choose(MatmulKernels(), c.args(), DetectIsa(), e.name)->name, e.name);
    EXPECT_EQ(Choose(MatmulKernels(), c.args(), DetectIsa(), "ref")->name, "ref");
    EXPECT_EQ(Choose(MatmulKernels(), c.args(), Isa::kPortable)->name, "ref");
    EXPECT_EQ(Choose(MatmulKernels(), c.args(), DetectIsa(), "none"), nullptr);
  }
}

TEST(Matmul, RefusalsNameTheNumber) {
  MatmulCase c(MatmulShape{});
  MatmulArgs args = c.args();
  args.int8_activations = true;
  EXPECT_EQ(MatmulContract().refuse(args), "int8 activations with bfloat16 weights");
  args = c.args();
  args.roots = 3;
  EXPECT_EQ(MatmulContract().refuse(args), "cannot finish 3 roots, only 1");
  args = c.args();
  args.w.k_leaves = 17;
  EXPECT_EQ(MatmulContract().refuse(args), "17 K-leaves, at most 16");
}

}  // namespace
}  // namespace weft::kernels
