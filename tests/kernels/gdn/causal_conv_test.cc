#include "kernels/gdn/causal_conv_case.h"

namespace weft::kernels {
namespace {

using testing::ConvShape;
using testing::ConvWorld;
using testing::Matrix;
using testing::Tokens;
using MakeConv = std::function<ConvWorld()>;

const Kernel<CausalConvArgs>& CausalConvContract() { return *CausalConvKernels().back(); }

MakeConv Of(const Kernel<CausalConvArgs>& kernel, const ConvShape& shape, int fill = 0xa5) {
  return [&kernel, shape, fill] { return ConvWorld(kernel, shape, fill); };
}

TEST(CausalConv, EveryVariantAndPartitionEqualsTheContract) {
  for (const ConvShape& shape : testing::ConvShapes()) {
    for (const auto* kernel : testing::Runnable(CausalConvKernels())) {
      for (uint32_t slices : {0u, 5u}) {
        SCOPED_TRACE(std::string(kernel->name) + " " + std::to_string(shape.channels));
        testing::ExpectEqualSteps(Of(CausalConvContract(), shape), Of(*kernel, shape), slices);
      }
    }
  }
}

TEST(CausalConv, InPlaceIsTheSame) {
  ConvShape shape;
  ConvWorld apart(CausalConvContract(), shape);
  shape.in_place = true;
  ConvWorld in_place(CausalConvContract(), shape);
  const auto a = testing::MixedSteps(apart, 0);
  const auto b = testing::MixedSteps(in_place, 0);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].buffer(), b[i].buffer());
  EXPECT_EQ(apart.pool(), in_place.pool());
}

TEST(CausalConv, NeitherCutsNorCompanionsNorGarbageNorRejectionLeaveATrace) {
  for (const ConvShape& shape : testing::ConvShapes()) {
    const MakeConv make = Of(CausalConvContract(), shape);
    testing::ExpectCutsLeaveNoTrace(make, 12);
    testing::ExpectCompanionsLeaveNoTrace(make);
    testing::ExpectGarbageLeavesNoTrace(make, Of(CausalConvContract(), shape, 0xff));
    testing::ExpectRejectionLeavesNoTrace(make, 2);
  }
}

// Negative control: an accepted count off by one is seen.
TEST(CausalConv, AnotherAcceptedCountIsSeenInTheBits) {
  const auto after = [](int replay) {
    ConvWorld world(CausalConvContract(), {});
    world.Step({{.tokens = Tokens(0, 5)}});
    world.Step({{.position = 5, .tokens = Tokens(5, 3), .logged = 2}});
    return testing::RowBytes(
        world.Step({{.position = 6 + replay, .tokens = {77}, .replay = replay}}), 0);
  };
  EXPECT_NE(after(1), after(2));
}

TEST(CausalConv, ColumnsOfAWiderMatrixAreTheSame) {
  const ConvShape shape{.channels = 150};
  ConvWorld whole(CausalConvContract(), shape);
  ConvWorld parts(CausalConvContract(), shape);
  const Matrix expected = whole.Step({{.slot = 1, .tokens = Tokens(0, 6)}});
  const Matrix x(shape.dtype, 6, shape.channels);
  testing::FillByToken(x, Tokens(0, 6), shape.channels, 1);
  const Matrix y(shape.dtype, 6, shape.channels);
  const auto segments = testing::SegmentsOf({{.slot = 1, .tokens = Tokens(0, 6)}});
  ScopedFlushDenormals flush;
  for (const auto* kernel : testing::Runnable(CausalConvKernels())) {
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 37}, {37, 150}}) {
      CausalConvArgs a = parts.ArgsOver(begin, end - begin);
      a.x = x.view();
      a.y = y.view();
      a.x.cols = a.y.cols = end - begin;
      a.x.data = a.x.row<Bf16>(0) + begin;
      a.y.data = a.y.row<Bf16>(0) + begin;
      a.segments = segments.data();
      a.segment_count = 1;
      testing::RunWhole(*kernel, a);
    }
    EXPECT_EQ(y.buffer(), expected.buffer()) << kernel->name;
    EXPECT_EQ(parts.pool(), whole.pool()) << kernel->name;
  }
}

// 4 roundings of partial sums, each below sum |w m|; silu turns an error d of its argument into at
// most 1.1 d, and adds 4 e of its own (exp 2 e, sum, quotient); then the rounding u.
TEST(CausalConv, ContractIsWithinItsBoundOfDouble) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
    const ConvShape shape{.dtype = dtype};
    ConvWorld world(CausalConvContract(), shape);
    const Matrix x(dtype, 9, shape.channels);
    testing::FillByToken(x, Tokens(0, 9), shape.channels, 1);
    const Matrix y = world.Step({{.tokens = Tokens(0, 9)}});
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t c = 0; c < shape.channels; ++c) {
        double sum = 0, magnitude = 0;
        for (int j = 0; j < 4; ++j) {
          if (t - 3 + j < 0) continue;
          const double term = world.w(j, c) * x.Get(t - 3 + j, c);
          sum += term;
          magnitude += std::abs(term);
        }
        const double exact = sum / (1 + std::exp(-sum));
        ASSERT_LE(std::abs(y.Get(t, c) - exact),
                  1.1 * 4 * 0x1p-24 * magnitude + std::abs(exact) * (4 * 0x1p-24 + u));
      }
    }
  }
}

TEST(CausalConv, RefusesWithTheNumber) {
  const ConvShape shape;
  const ConvWorld world(CausalConvContract(), shape);
  for (const auto* kernel : CausalConvKernels()) {
    CausalConvArgs a = world.ArgsOver(0, shape.channels);
    EXPECT_EQ(kernel->refuse(a), "");
    EXPECT_EQ(kernel->units(a), 0);  // no segments
    a.taps = 9;
    EXPECT_EQ(kernel->refuse(a), "9 taps, not 2..8");
    a.taps = 4;
    a.x.dtype = DType::kF16;
    EXPECT_NE(kernel->refuse(a), "");
  }
}

}  // namespace
}  // namespace weft::kernels
