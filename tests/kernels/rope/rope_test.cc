#include "kernels/rope/rope.h"

#include <cmath>

#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Matrix;

Matrix Rotate(const Kernel<RopeArgs>& kernel, DType dtype, int heads, int head_dim, int rot,
              uint32_t slices = 0) {
  ScopedFlushDenormals flush;
  constexpr int64_t kRows = 6;
  const std::vector<int32_t> positions{0, 1, 5, 77, 1, 99};
  const std::vector<double> freq = RopeInverseFrequencies(10000, rot);
  std::vector<float> cos(100 * rot / 2), sin(100 * rot / 2);
  FillRopeTable(freq, 100, cos.data(), sin.data());
  Matrix x(dtype, kRows, int64_t{heads} * head_dim);
  x.Fill(7);
  RopeArgs a{.x = x.view(),
             .positions = positions.data(),
             .cos = cos.data(),
             .sin = sin.data(),
             .heads = heads,
             .head_dim = head_dim,
             .rot = rot};
  EXPECT_EQ(kernel.refuse(a), "");
  std::mt19937 random(slices);
  slices == 0 ? testing::RunWhole(kernel, a)
              : testing::RunSlices(kernel, a, testing::RandomSlices(kernel.units(a), random));
  return x;
}

TEST(Rope, EveryVariantAndPartitionEqualsTheContract) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (auto [heads, head_dim, rot] : {std::array{3, 64, 64},
                                        {2, 128, 128},
                                        {2, 80, 32},
                                        {5, 20, 20},
                                        {1, 6, 2},
                                        {4, 256, 64}}) {
      const Matrix expected = Rotate(*RopeKernels().back(), dtype, heads, head_dim, rot);
      for (const auto* kernel : testing::Runnable(RopeKernels())) {
        for (uint32_t slices : {0u, 1u}) {
          EXPECT_EQ(Rotate(*kernel, dtype, heads, head_dim, rot, slices).buffer(),
                    expected.buffer())
              << kernel->name << " " << head_dim << " " << rot;
        }
      }
    }
  }
}

TEST(Rope, PositionZeroChangesNothingAndLengthsArePreserved) {
  const Matrix before = [] {
    Matrix x(DType::kF32, 6, 3 * 64);
    x.Fill(7);
    return x;
  }();
  const Matrix after = Rotate(*RopeKernels().back(), DType::kF32, 3, 64, 64);
  for (int64_t c = 0; c < 192; ++c) EXPECT_EQ(after.Get(0, c), before.Get(0, c));
  for (int64_t t = 1; t < 6; ++t) {
    for (int i = 0; i < 32; ++i) {
      const double was = std::hypot(before.Get(t, i), before.Get(t, i + 32));
      EXPECT_NEAR(std::hypot(after.Get(t, i), after.Get(t, i + 32)), was, was * 4 * 0x1p-24);
    }
  }
}

// <= 1 ulp of fp32 against libm in double, here and only here.
TEST(RopeTable, IsWithinAnUlpOfDouble) {
  const std::vector<double> freq = RopeInverseFrequencies(1e6, 128);
  for (int i = 0; i < 64; ++i) {
    EXPECT_NEAR(freq[i] / std::pow(1e6, -2.0 * i / 128), 1, 1e-14);
  }
  constexpr int64_t kPositions = 40000;
  std::vector<float> cos(kPositions * 64), sin(kPositions * 64);
  FillRopeTable(freq, kPositions, cos.data(), sin.data());
  int64_t rounded_otherwise = 0;
  for (int64_t p = 0; p < kPositions; p += 7) {
    for (int i = 0; i < 64; ++i) {
      const double angle = static_cast<double>(p) * freq[i];
      for (const auto& [got, exact] : {std::pair{cos[p * 64 + i], std::cos(angle)},
                                       std::pair{sin[p * 64 + i], std::sin(angle)}}) {
        const auto near = static_cast<float>(exact);
        rounded_otherwise += got != near;
        ASSERT_GE(got, std::nextafter(near, -2.0f)) << p << " " << i;
        ASSERT_LE(got, std::nextafter(near, 2.0f)) << p << " " << i;
      }
    }
  }
  EXPECT_LE(rounded_otherwise, 5);  // of 730,000: only near ties
}

}  // namespace
}  // namespace weft::kernels
