#include "kernels/matmul/pack.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/matmul/matmul_case.h"
#include "tensor/quant_format.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::kBlockTypes;
using testing::kPlainTypes;
using testing::RandomRow;

std::vector<DType> AllTypes() {
  std::vector<DType> all;
  for (const DType type : kPlainTypes) all.push_back(type);
  for (const DType type : kBlockTypes) all.push_back(type);
  return all;
}

TEST(Pack, UnpackingGivesTheFilesValues) {
  std::mt19937 random(3);
  for (const DType type : AllTypes()) {
    const int64_t block = FactsOf(type).block_elements;
    const int64_t k = block == 1 ? 77 : block * 3;
    const int64_t k_begin = block == 1 ? 10 : block;
    const int64_t width = block == 1 ? k - k_begin : block * 2;
    for (const int count : {1, 5, 16}) {
      std::vector<std::vector<std::byte>> rows;
      const std::byte* pointers[16];
      for (int i = 0; i < count; ++i) rows.push_back(RandomRow(type, k, random));
      for (int i = 0; i < count; ++i) pointers[i] = rows[i].data();
      Buffer panel(PanelBytes(type, width));
      PackPanel(type, pointers, count, k_begin, width, panel.data());
      std::vector<float> file(static_cast<size_t>(k));
      std::vector<float> back(static_cast<size_t>(width));
      for (int i = 0; i < kPanelOutputs; ++i) {
        UnpackPanelRow(type, panel.data(), width, i, back.data());
        if (i < count) DequantiseRow(type, rows[i].data(), k, file.data());
        for (int64_t j = 0; j < width; ++j) {
          if (i < count) {
            ASSERT_EQ(std::memcmp(&back[j], &file[k_begin + j], 4), 0)
                << NameOf(type) << " output " << i << " input " << j;
          } else {
            ASSERT_EQ(back[j], 0.0f) << NameOf(type) << " padding " << i;
          }
        }
      }
    }
  }
}

TEST(Pack, APanelIsAsLongAsItsRowsInTheFile) {
  for (const DType type : AllTypes()) {
    const int64_t bytes = PanelBytes(type, 1024);
    EXPECT_EQ(bytes % 64, 0);
    EXPECT_GE(bytes, 16 * BytesOf(type, 1024)) << NameOf(type);
    EXPECT_LT(bytes, 16 * BytesOf(type, 1024) + 64) << NameOf(type);
  }
  EXPECT_EQ(PanelBytes(DType::kBF16, 5), 3 * 64);
  EXPECT_EQ(PanelBytes(DType::kF16, 5), 192);
}

TEST(Pack, WritesItsPanelAndNothingElse) {
  std::mt19937 random(5);
  for (const DType type : AllTypes()) {
    const int64_t k = FactsOf(type).block_elements == 1 ? 9 : FactsOf(type).block_elements;
    const auto row = RandomRow(type, k, random);
    const std::byte* pointer = row.data();
    Buffer panel(PanelBytes(type, k) + 64);
    PackPanel(type, &pointer, 1, 0, k, panel.data());
    for (int i = 0; i < 64; ++i) {
      ASSERT_EQ(panel.data()[PanelBytes(type, k) + i], std::byte{0xa5}) << NameOf(type);
    }
  }
}

}  // namespace
}  // namespace weft::kernels
