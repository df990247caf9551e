#include "kernels/sample/argmax.h"

#include <cmath>

#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Matrix;

ValueIndex Argmax(const Kernel<ArgmaxArgs>& kernel, const Matrix& x, int64_t row, int32_t first) {
  ScopedFlushDenormals flush;
  std::vector<ValueIndex> out(x.view().rows);
  const ArgmaxArgs a{.logits = x.view(), .first_id = first, .out = out.data()};
  EXPECT_EQ(kernel.refuse(a), "");
  testing::RunWhole(kernel, a);
  return out[row];
}

void ExpectSame(ValueIndex a, ValueIndex b, std::string_view name) {
  EXPECT_EQ(a.index, b.index) << name;
  EXPECT_EQ(a.has_nan, b.has_nan) << name;
  EXPECT_EQ(std::memcmp(&a.value, &b.value, 4), 0) << name << " " << a.value << " " << b.value;
}

TEST(Argmax, EveryVariantEqualsTheContract) {
  std::mt19937 random(1);
  for (int64_t cols : {0, 1, 7, 8, 15, 16, 17, 33, 1000}) {
    for (int trial = 0; trial < 50; ++trial) {
      Matrix x(DType::kF32, 1, cols);
      for (int64_t c = 0; c < cols; ++c) {
        const float choices[] = {0.0f,
                                 -0.0f,
                                 1.0f,
                                 -INFINITY,
                                 -5.0f,
                                 trial % 3 == 0 ? NAN : 1.0f,
                                 trial % 7 == 0 ? INFINITY : -1.0f};
        x.Set(0, c, trial % 10 == 9 ? -INFINITY : choices[random() % 7]);
      }
      const ValueIndex expected = Argmax(*ArgmaxKernels().back(), x, 0, 1000);
      for (const auto* kernel : testing::Runnable(ArgmaxKernels())) {
        ExpectSame(Argmax(*kernel, x, 0, 1000), expected, kernel->name);
      }
    }
  }
}

TEST(Argmax, TakesTheLowestIdAndNeverNaN) {
  for (const auto* kernel : testing::Runnable(ArgmaxKernels())) {
    Matrix x(DType::kF32, 3, 40);
    for (int64_t c = 0; c < 40; ++c) {
      x.Set(0, c, c == 37 || c == 21 ? 3.0f : 0.0f);
      x.Set(1, c, c % 2 == 0 ? NAN : static_cast<float>(c));
      x.Set(2, c, NAN);
    }
    EXPECT_EQ(Argmax(*kernel, x, 0, 5).index, 26);
    EXPECT_EQ(Argmax(*kernel, x, 1, 0).index, 39);
    EXPECT_EQ(Argmax(*kernel, x, 1, 0).has_nan, 1);
    EXPECT_EQ(Argmax(*kernel, x, 2, 0).index, -1);
    EXPECT_EQ(Argmax(*kernel, x, 2, 0).has_nan, 1);
    // -0 and +0 tie.
    for (int64_t c = 0; c < 40; ++c) x.Set(0, c, c == 3 ? -0.0f : c > 9 ? 0.0f : -1.0f);
    EXPECT_EQ(Argmax(*kernel, x, 0, 0).index, 3);
  }
}

TEST(Argmax, ShardsJoinedInAnyOrderGiveTheWhole) {
  Matrix x(DType::kF32, 1, 100);
  x.Fill(5);
  x.Set(0, 70, x.Get(0, 20));
  const auto& ref = *ArgmaxKernels().back();
  const ValueIndex whole = Argmax(ref, x, 0, 0);
  for (auto cuts : {std::array{0, 10, 60, 100}, {0, 0, 50, 100}, {0, 99, 100, 100}}) {
    std::array<ValueIndex, 3> parts;
    for (int i = 0; i < 3; ++i) {
      Matrix part(DType::kF32, 1, cuts[i + 1] - cuts[i]);
      for (int c = cuts[i]; c < cuts[i + 1]; ++c) part.Set(0, c - cuts[i], x.Get(0, c));
      parts[i] = Argmax(ref, part, 0, cuts[i]);
    }
    ExpectSame(Better(Better(parts[0], parts[1]), parts[2]), whole, "left");
    ExpectSame(Better(parts[2], Better(parts[0], parts[1])), whole, "right");
    ExpectSame(Better(Better(parts[1], parts[2]), parts[0]), whole, "rotated");
  }
}

}  // namespace
}  // namespace weft::kernels
