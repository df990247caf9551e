#include "kernels/embed/embed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/float_env.h"
#include "kernels/matmul/matmul_case.h"
#include "tensor/quant_format.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::TestMatrix;

// Vocabulary leaves whose last panels are short, every format, K longer than one chunk.
TEST(Embed, GivesTheFilesRowRoundedOnce) {
  const ScopedFlushDenormals environment;
  std::mt19937 random(31);
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ8_0, DType::kQ4_1,
                           DType::kQ4_K, DType::kQ6_K}) {
    const int64_t k = FactsOf(type).block_elements == 1 ? 301 : 768;
    const int64_t k_starts[] = {0, k};
    const TestMatrix table(type, {0, 40, 50, 99}, k_starts, random);
    const std::vector<int32_t> ids{0, 39, 40, 49, 50, 98, 15, 16, 50};
    for (const DType y : {DType::kF32, DType::kBF16}) {
      const auto rows = static_cast<int64_t>(ids.size());
      Buffer out(rows * (k + 7) * 4);
      EmbedArgs args{
          .ids = ids.data(), .table = table.packed(), .y = {out.data(), rows, k, k + 7, y}};
      for (const auto* kernel : EmbedKernels()) {
        if (kernel->isa > DetectIsa()) continue;
        std::memset(out.data(), 0xa5, static_cast<size_t>(out.bytes()));
        testing::RunSlices(*kernel, args, testing::RandomSlices(rows, random));
        std::vector<float> expected(static_cast<size_t>(k));
        for (int64_t row = 0; row < rows; ++row) {
          DequantiseRow(type, table.rows()[ids[row]].data(), k, expected.data());
          for (int64_t i = 0; i < k; ++i) {
            if (y == DType::kF32) {
              ASSERT_EQ(std::bit_cast<uint32_t>(args.y.row<float>(row)[i]),
                        std::bit_cast<uint32_t>(expected[i]))
                  << kernel->name << " " << NameOf(type) << " id " << ids[row] << " " << i;
            } else {
              ASSERT_EQ(args.y.row<Bf16>(row)[i], ToBf16(expected[i]))
                  << kernel->name << " " << NameOf(type) << " id " << ids[row] << " " << i;
            }
          }
          const int64_t size = y == DType::kF32 ? 4 : 2;
          for (int64_t i = 0; i < 7 * size; ++i) {
            ASSERT_EQ(out.data()[(row * (k + 7) + k) * size + i], std::byte{0xa5});
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernels
