// quantise_rows_avx512.cc over emulated instructions, on any CPU: the very source, its entry
// renamed. On a CPU that has them quantise_rows_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kQuantiseRowsAvx512 kQuantiseRowsAvx512Emulated
#include "kernels/quant/quantise_rows_avx512.cc"
#undef kQuantiseRowsAvx512

#include "kernels/quant/quantise_case.h"

namespace weft::kernels {
namespace {

TEST(QuantiseRowsAvx512, EmulatedEqualsTheContract) {
  std::mt19937 random(13);
  testing::ForEachQuantiseCase(random, [&](testing::QuantiseCase& c) {
    const testing::Buffer expected = c.Run(*QuantiseRowsKernels().back(), {{0, c.rows}});
    ASSERT_EQ(c.Run(kQuantiseRowsAvx512Emulated, testing::RandomSlices(c.rows, random)), expected)
        << " rows " << c.rows << " k " << c.k;
  });
}

}  // namespace
}  // namespace weft::kernels
