// Covers src/tensor/quantise.cc
#include "tensor/quant_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/bf16.h"

namespace weft {
namespace {

constexpr DType kBlockTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                 DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

class QuantFormat : public testing::TestWithParam<DType> {
 protected:
  const DTypeFacts& facts() const { return FactsOf(GetParam()); }
};

std::string ParamName(const testing::TestParamInfo<DType>& info) {
  return std::string(NameOf(info.param));
}

INSTANTIATE_TEST_SUITE_P(Types, QuantFormat, testing::ValuesIn(kBlockTypes), ParamName);

std::vector<float> Row(int64_t n, uint32_t seed, float offset = 0.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(offset, 1.0f);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(rng);
  return x;
}

std::vector<uint8_t> RandomBlocks(const DTypeFacts& facts, int64_t elements, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> bytes(
      static_cast<size_t>(elements / facts.block_elements * facts.block_bytes));
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng());
  return bytes;
}

// The value of element e of one block, written from the format's table alone: every bit is looked
// up by the element's number, in double, and shares no code with the decoder.
double ValueByTable(DType dtype, const uint8_t* b, int e) {
  const auto half = [](const uint8_t* p) {
    return static_cast<double>(ToFloat(F16{static_cast<uint16_t>(p[0] | (p[1] << 8))}));
  };
  const auto bit = [](const uint8_t* p, int i) { return (p[i / 8] >> (i % 8)) & 1; };
  const auto nibble = [](const uint8_t* p, int i) { return (p[i % 16] >> (i < 16 ? 0 : 4)) & 15; };
  switch (dtype) {
    case DType::kQ4_0: return (nibble(b + 2, e) - 8) * half(b);
    case DType::kQ4_1: return nibble(b + 4, e) * half(b) + half(b + 2);
    case DType::kQ5_0: return (nibble(b + 6, e) + 16 * bit(b + 2, e) - 16) * half(b);
    case DType::kQ5_1: return (nibble(b + 8, e) + 16 * bit(b + 4, e)) * half(b) + half(b + 2);
    case DType::kQ8_0: return static_cast<int8_t>(b[2 + e]) * half(b);
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const int s = e / 32, l = e % 32;
      const uint8_t* sc = b + 4;
      const int scale = s < 4 ? sc[s] % 64 : sc[s + 4] % 16 + 16 * (sc[s - 4] / 64);
      const int min = s < 4 ? sc[s + 4] % 64 : sc[s + 4] / 16 + 16 * (sc[s] / 64);
      const uint8_t* qs = b + (dtype == DType::kQ4_K ? 16 : 48);
      int q = (qs[32 * (s / 2) + l] >> (4 * (s % 2))) & 15;
      if (dtype == DType::kQ5_K) q += 16 * bit(b + 16 + l, s);
      return half(b) * scale * q - half(b + 2) * min;
    }
    case DType::kQ6_K: {
      const int h = e / 128, k = (e / 32) % 4, l = e % 32;
      const int low = (b[64 * h + l + 32 * (k % 2)] >> (4 * (k / 2))) & 15;
      const int high = (b[128 + 32 * h + l] >> (2 * k)) & 3;
      const int scale = static_cast<int8_t>(b[192 + 8 * h + l / 16 + 2 * k]);
      return half(b + 208) * scale * (low + 16 * high - 32);
    }
    default: return NAN;
  }
}

// A random half may be an infinity or a NaN: those are for the next test.
bool IsOdd(double x) { return !std::isfinite(x); }

TEST_P(QuantFormat, ValuesAreThoseOfTheTable) {
  const int64_t n = facts().block_elements * int64_t{64};
  const std::vector<uint8_t> blocks = RandomBlocks(facts(), n, 7);
  std::vector<float> got(static_cast<size_t>(n));
  DequantiseRow(GetParam(), blocks.data(), n, got.data());
  int compared = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double want =
        ValueByTable(GetParam(), blocks.data() + i / facts().block_elements * facts().block_bytes,
                     static_cast<int>(i % facts().block_elements));
    if (IsOdd(want)) continue;
    ++compared;
    // d * sc and dmin * m have at most 19 significant bits, so the double is exact but for its own
    // last addition, and one rounding to float is all that may happen.
    ASSERT_EQ(got[static_cast<size_t>(i)], static_cast<float>(want)) << "element " << i;
  }
  EXPECT_GT(compared, n / 2);
}

TEST_P(QuantFormat, DecodedPartsGiveTheSameBits) {
  const int64_t n = facts().block_elements * int64_t{64};
  const std::vector<uint8_t> blocks = RandomBlocks(facts(), n, 11);
  std::vector<float> row(static_cast<size_t>(n));
  DequantiseRow(GetParam(), blocks.data(), n, row.data());
  std::vector<int8_t> q(static_cast<size_t>(n));
  const size_t sub_blocks = static_cast<size_t>(n / facts().scale_elements);
  std::vector<float> scales(sub_blocks), mins(sub_blocks, 99.0f);
  DecodeBlocks(GetParam(), blocks.data(), n, q.data(), scales.data(), mins.data());
  for (size_t i = 0; i < row.size(); ++i) {
    const size_t s = i / static_cast<size_t>(facts().scale_elements);
    const float weight = std::fma(static_cast<float>(q[i]), scales[s], mins[s]);
    ASSERT_EQ(std::memcmp(&weight, &row[i], sizeof(float)), 0)
        << "element " << i << ": " << weight << " and " << row[i];
  }
  for (const float m : mins) {
    if (!facts().has_min) {
      ASSERT_EQ(m, 0.0f);
      ASSERT_FALSE(std::signbit(m));
    }
  }
}

TEST_P(QuantFormat, IntegersStayInTheirRange) {
  const int64_t n = facts().block_elements * int64_t{256};
  const std::vector<uint8_t> blocks = RandomBlocks(facts(), n, 13);
  std::vector<int8_t> q(static_cast<size_t>(n));
  std::vector<float> scales(static_cast<size_t>(n / facts().scale_elements)), mins(scales.size());
  DecodeBlocks(GetParam(), blocks.data(), n, q.data(), scales.data(), mins.data());
  const auto [low, high] = std::minmax_element(q.begin(), q.end());
  struct Range {
    int low, high;
  };
  const Range range = GetParam() == DType::kQ4_0                                 ? Range{-8, 7}
                      : GetParam() == DType::kQ5_0                               ? Range{-16, 15}
                      : GetParam() == DType::kQ6_K                               ? Range{-32, 31}
                      : GetParam() == DType::kQ8_0                               ? Range{-128, 127}
                      : GetParam() == DType::kQ4_1 || GetParam() == DType::kQ4_K ? Range{0, 15}
                                                                                 : Range{0, 31};
  // Random bits meet both ends.
  EXPECT_EQ(*low, range.low);
  EXPECT_EQ(*high, range.high);
}

// How far a quantised element may be off, in steps of its scale dw.
double StepsAllowed(DType dtype) {
  switch (dtype) {
    // The side opposite to the extreme value is cut off by up to one step.
    case DType::kQ4_0:
    case DType::kQ5_0: return 1.0;
    default: return 0.5;
  }
}

TEST_P(QuantFormat, ErrorIsBoundedByTheScale) {
  const int64_t n = facts().block_elements * int64_t{32};
  for (const float offset : {0.0f, 3.0f, -3.0f, 100.0f}) {
    const std::vector<float> x = Row(n, 17, offset);
    std::vector<uint8_t> blocks(static_cast<size_t>(BytesOf(GetParam(), n)), 0xa5);
    QuantiseRow(GetParam(), x.data(), n, blocks.data());
    std::vector<float> y(static_cast<size_t>(n));
    DequantiseRow(GetParam(), blocks.data(), n, y.data());
    std::vector<int8_t> q(static_cast<size_t>(n));
    std::vector<float> scales(static_cast<size_t>(n / facts().scale_elements)), mins(scales.size());
    DecodeBlocks(GetParam(), blocks.data(), n, q.data(), scales.data(), mins.data());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t s = i / static_cast<size_t>(facts().scale_elements);
      const double dw = std::fabs(scales[s]), m = std::fabs(mins[s]);
      // Storing d and m as halves (unit roundoff 2^-11) moves q * d and m; the K formats round
      // before they choose q. Some float roundings of |x| and |m| come on top of both.
      const bool k_format = facts().block_elements == 256;
      const double stored = k_format ? 0.0 : std::ldexp(std::abs(q[i]) * dw + dw + m, -11) * 1.01;
      const double floats = 8 * std::ldexp(std::fabs(x[i]) + m, -24);
      const double bound = StepsAllowed(GetParam()) * dw + stored + floats;
      ASSERT_LE(std::fabs(static_cast<double>(y[i]) - x[i]), bound)
          << "element " << i << ", offset " << offset << ": " << x[i] << " became " << y[i]
          << ", dw " << dw;
    }
  }
}

TEST_P(QuantFormat, ScaleIsNoLargerThanTheValuesNeed) {
  // Else the bound above would hold for a quantiser that returns zeros.
  const int64_t n = facts().block_elements;
  const std::vector<float> x = Row(n, 19);
  std::vector<uint8_t> blocks(static_cast<size_t>(BytesOf(GetParam(), n)));
  QuantiseRow(GetParam(), x.data(), n, blocks.data());
  std::vector<int8_t> q(static_cast<size_t>(n));
  std::vector<float> scales(static_cast<size_t>(n / facts().scale_elements)), mins(scales.size());
  DecodeBlocks(GetParam(), blocks.data(), n, q.data(), scales.data(), mins.data());
  float extreme = 0.0f;
  for (const float v : x) extreme = std::max(extreme, std::fabs(v));
  const int bits =
      GetParam() == DType::kQ8_0                                                               ? 8
      : GetParam() == DType::kQ6_K                                                             ? 6
      : GetParam() == DType::kQ5_0 || GetParam() == DType::kQ5_1 || GetParam() == DType::kQ5_K ? 5
                                                                                               : 4;
  // 2 * extreme spans at least 2^bits - 2 steps, up to the K formats' coarser grid of scales.
  const double step = 2.0 * extreme / (std::ldexp(1.0, bits) - 2);
  for (const float dw : scales) EXPECT_LE(std::fabs(dw), step * (1 + 2.0 / 63)) << "step " << step;
}

TEST_P(QuantFormat, ZerosStayZeros) {
  const int64_t n = facts().block_elements;
  const std::vector<float> x(static_cast<size_t>(n), 0.0f);
  std::vector<uint8_t> blocks(static_cast<size_t>(BytesOf(GetParam(), n)), 0xff);
  QuantiseRow(GetParam(), x.data(), n, blocks.data());
  std::vector<float> y(static_cast<size_t>(n), 1.0f);
  DequantiseRow(GetParam(), blocks.data(), n, y.data());
  EXPECT_EQ(y, x);
}

TEST_P(QuantFormat, BlocksNeedNoAlignment) {
  const int64_t n = facts().block_elements * int64_t{3};
  const std::vector<uint8_t> blocks = RandomBlocks(facts(), n, 23);
  std::vector<uint8_t> shifted(blocks.size() + 1);
  std::copy(blocks.begin(), blocks.end(), shifted.begin() + 1);
  std::vector<float> a(static_cast<size_t>(n)), b(a);
  DequantiseRow(GetParam(), blocks.data(), n, a.data());
  DequantiseRow(GetParam(), shifted.data() + 1, n, b.data());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST(QuantFormatPlain, RowsOfFloatsPassThroughWithOneRounding) {
  const std::vector<float> x = Row(37, 29);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<uint8_t> bytes(static_cast<size_t>(BytesOf(dtype, 37)));
    QuantiseRow(dtype, x.data(), 37, bytes.data());
    std::vector<float> y(37);
    DequantiseRow(dtype, bytes.data(), 37, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = dtype == DType::kF32   ? x[i]
                         : dtype == DType::kF16 ? ToFloat(ToF16(x[i]))
                                                : ToFloat(ToBf16(x[i]));
      EXPECT_EQ(y[i], want) << NameOf(dtype);
    }
  }
}

TEST(QuantFormatGolden, HandmadeQ41Block) {
  // d = 0.5 (0x3800), m = -1 (0xbc00); byte j = 0x(15-j)(j): element j = j, element j + 16 = 15 -
  // j.
  std::vector<uint8_t> block{0x00, 0x38, 0x00, 0xbc};
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<uint8_t>(j | ((15 - j) << 4)));
  std::vector<float> y(32);
  DequantiseRow(DType::kQ4_1, block.data(), 32, y.data());
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(y[static_cast<size_t>(j)], 0.5f * static_cast<float>(j) - 1.0f);
    EXPECT_EQ(y[static_cast<size_t>(j + 16)], 0.5f * static_cast<float>(15 - j) - 1.0f);
  }
}

}  // namespace
}  // namespace weft
