// attention_avx512.cc over emulated instructions, on any CPU: the very source, its entry renamed.
// On a CPU that has them attention_test.cc runs the real ones.
#define WEFT_EMULATE_AVX512
#define kAttentionAvx512 kAttentionAvx512Emulated
#include "kernels/attention/attention_avx512.cc"
#undef kAttentionAvx512

#include <gtest/gtest.h>

#include "kernels/attention/attention_case.h"

namespace weft::kernels {
namespace {

void ExpectTheContract(AttentionCase& test, const std::vector<Rows>& step) {
  const Shape& shape = test.shape();
  EXPECT_EQ(test.Run(kAttentionAvx512Emulated, step), test.Run(*AttentionKernels().back(), step))
      << NameOf(shape.dtype) << " D " << shape.head_dim << " heads " << shape.heads << "/"
      << shape.kv_heads << " first count " << step[0].count;
}

TEST(AttentionAvx512, EmulatedEqualsTheContract) {
  for (const Shape& shape : AttentionShapes()) {
    AttentionCase test(shape, kMixedLengths);
    ExpectTheContract(test, kMixedRows);
  }
}

TEST(AttentionAvx512, EveryCountOfLinesEqualsTheContract) {
  for (const Shape& shape : LineShapes()) {
    AttentionCase test(shape, {130});
    for (int rows = 1; rows <= 13; ++rows) ExpectTheContract(test, {{0, 100, rows}});
  }
}

TEST(AttentionAvx512, ANaNAmongVisibleKeysComesOutAsOneNaN) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    AttentionCase test({.dtype = dtype, .heads = 4, .kv_heads = 2, .head_dim = 64}, {100});
    test.Put(test.layout().keys(test.table(0)[2], 1), test.layout().key_index(3, 5), NAN);
    ExpectTheContract(test, {{0, 30, 70}});
  }
}

}  // namespace
}  // namespace weft::kernels
