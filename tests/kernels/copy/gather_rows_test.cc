#include "kernels/copy/gather_rows.h"

#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Matrix;

TEST(GatherRows, CopiesRowsAndNothingElse) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    Matrix x(dtype, 5, 33);
    x.Fill(3);
    const std::vector<int32_t> rows{4, 0, 4, 2};
    Matrix y(dtype, 4, 33);
    Matrix expected(dtype, 4, 33);
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t c = 0; c < 33; ++c) expected.Set(i, c, x.Get(rows[i], c));
    }
    const GatherRowsArgs a{.x = x.view(), .rows = rows.data(), .y = y.view()};
    for (const auto* kernel : testing::Runnable(GatherRowsKernels())) {
      std::mt19937 random(1);
      testing::RunSlices(*kernel, a, testing::RandomSlices(kernel->units(a), random));
      EXPECT_EQ(y.buffer(), expected.buffer());
    }
  }
}

}  // namespace
}  // namespace weft::kernels
