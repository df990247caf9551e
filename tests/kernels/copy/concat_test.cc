#include "kernels/copy/concat.h"

#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Matrix;

TEST(Concat, PutsRowsSideBySideAndNothingElse) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    Matrix a(dtype, 5, 33), b(dtype, 5, 7), y(dtype, 5, 40), expected(dtype, 5, 40);
    a.Fill(3);
    b.Fill(4);
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t c = 0; c < 33; ++c) expected.Set(i, c, a.Get(i, c));
      for (int64_t c = 0; c < 7; ++c) expected.Set(i, 33 + c, b.Get(i, c));
    }
    const ConcatArgs args{a.view(), b.view(), y.view()};
    for (const auto* kernel : testing::Runnable(ConcatKernels())) {
      EXPECT_EQ(kernel->refuse(args), "");
      std::mt19937 random(1);
      testing::RunSlices(*kernel, args, testing::RandomSlices(kernel->units(args), random));
      EXPECT_EQ(y.buffer(), expected.buffer());
    }
  }
}

TEST(Concat, RefusesWhatDoesNotFit) {
  Matrix a(DType::kBF16, 2, 8), b(DType::kBF16, 2, 8), narrow(DType::kBF16, 2, 15),
      other(DType::kF32, 2, 16);
  EXPECT_EQ(ConcatKernels().back()->refuse({a.view(), b.view(), narrow.view()}),
            "y has not the columns of a and b");
  EXPECT_EQ(ConcatKernels().back()->refuse({a.view(), b.view(), other.view()}),
            "a, b and y differ in dtype");
}

}  // namespace
}  // namespace weft::kernels
