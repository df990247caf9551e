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

// Both sides have room for more rows than are live, so their planes lie apart differently.
TEST(GatherRows, CopiesValuesScalesAndSumsOfInt8Rows) {
  constexpr int64_t kK = 96;
  const testing::Buffer x(QuantisedRows::Bytes(7, kK));
  std::mt19937 random(2);
  for (int64_t i = 0; i < x.bytes(); ++i) x.data()[i] = static_cast<std::byte>(random());
  const std::vector<int32_t> rows{4, 0, 4, 2};
  const testing::Buffer y(QuantisedRows::Bytes(9, kK));
  const testing::Buffer expected(QuantisedRows::Bytes(9, kK));
  GatherRowsArgs a{.rows = rows.data(), .int8_rows = true};
  a.xq = QuantisedRows::In(x.data(), 7, 5, kK);
  a.yq = QuantisedRows::In(y.data(), 9, 4, kK);
  const QuantisedRows to = QuantisedRows::In(expected.data(), 9, 4, kK);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < kK; ++c) to.q[i * kK + c] = a.xq.q[rows[i] * kK + c];
    for (int64_t b = 0; b < kK / kQuantBlock; ++b) {
      const int64_t from = rows[i] * (kK / kQuantBlock) + b;
      std::memcpy(to.d + i * (kK / kQuantBlock) + b, a.xq.d + from, 4);
      to.sum[i * (kK / kQuantBlock) + b] = a.xq.sum[from];
    }
  }
  for (const auto* kernel : testing::Runnable(GatherRowsKernels())) {
    EXPECT_EQ(kernel->refuse(a), "");
    testing::RunSlices(*kernel, a, testing::RandomSlices(kernel->units(a), random));
    EXPECT_EQ(y, expected);
  }
  a.yq.k = 64;
  EXPECT_EQ(GatherRowsKernels().back()->refuse(a), "x and y differ in columns");
}

}  // namespace
}  // namespace weft::kernels
