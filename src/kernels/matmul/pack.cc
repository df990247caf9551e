#include "kernels/matmul/pack.h"

#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"
#include "kernels/matmul/panel_layout.h"
#include "tensor/quant_format.h"

namespace weft::kernels {
namespace {

constexpr int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// dst[k][16] of elements of `Word`.
template <typename Word>
void PackPlain(const std::byte* const* rows, int count, int64_t k_begin, int64_t k,
               std::byte* dst) {
  for (int o = 0; o < count; ++o) {
    const std::byte* src = rows[o] + k_begin * static_cast<int64_t>(sizeof(Word));
    for (int64_t i = 0; i < k; ++i) {
      std::memcpy(dst + (i * kPanelOutputs + o) * sizeof(Word), src + i * sizeof(Word),
                  sizeof(Word));
    }
  }
}

void PackBf16(const std::byte* const* rows, int count, int64_t k_begin, int64_t k, std::byte* dst) {
  for (int o = 0; o < count; ++o) {
    const std::byte* src = rows[o] + k_begin * 2;
    std::byte* to = dst + o * 4;
    for (int64_t pair = 0; pair < k / 2; ++pair) std::memcpy(to + pair * 64, src + pair * 4, 4);
    if (k % 2 != 0) std::memcpy(to + k / 2 * 64, src + (k - 1) * 2, 2);
  }
}

// The header of one super block of one output. `block`: its bytes in the file.
void PackHeader(DType dtype, const uint8_t* block, int output, uint8_t* header) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0: std::memcpy(header + output * 2, block, 2); return;
    case DType::kQ4_1:
    case DType::kQ5_1:
      std::memcpy(header + output * 2, block, 2);
      std::memcpy(header + 32 + output * 2, block + 2, 2);
      return;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      std::memcpy(header + output * 2, block, 2);
      std::memcpy(header + 32 + output * 2, block + 2, 2);
      const uint8_t* b = block + 4;  // 8 scales and 8 minima of six bits
      for (int s = 0; s < 8; ++s) {
        const int sc = s < 4 ? b[s] & 63 : (b[s + 4] & 15) | (b[s - 4] >> 6 << 4);
        const int m = s < 4 ? b[s + 4] & 63 : (b[s + 4] >> 4) | (b[s] >> 6 << 4);
        header[64 + s * 16 + output] = static_cast<uint8_t>((sc & 15) | (m & 15) << 4);
        const int high = (sc >> 4) | (m >> 4) << 2;
        header[192 + s / 2 * 16 + output] |= static_cast<uint8_t>(high << (s % 2 * 4));
      }
      return;
    }
    case DType::kQ6_K:
      std::memcpy(header + output * 2, block + 208, 2);
      for (int s = 0; s < 16; ++s) header[32 + s * 16 + output] = block[192 + s];
      return;
    default: return;
  }
}

void PackCodes(const BlockLayout& layout, const int8_t* q, int output, uint8_t* step) {
  for (int k = 0; k < kStepInputs; ++k) {
    const int quad = k / 4;
    const int byte = output * 4 + k % 4;
    const int code = q[k] + layout.zero;
    if (layout.bits == 8) {
      step[quad * 64 + byte] = static_cast<uint8_t>(code);
      continue;
    }
    step[layout.high_bytes + quad % 4 * 64 + byte] |=
        static_cast<uint8_t>((code & 15) << (quad < 4 ? 0 : 4));
    if (layout.bits == 5) step[byte] |= static_cast<uint8_t>((code >> 4) << quad);
    if (layout.bits == 6) {
      step[quad / 4 * 64 + byte] |= static_cast<uint8_t>((code >> 4) << (2 * (quad % 4)));
    }
  }
}

void PackBlocks(DType dtype, const std::byte* const* rows, int count, int64_t k_begin, int64_t k,
                std::byte* dst) {
  const BlockLayout layout = BlockLayoutOf(dtype);
  const DTypeFacts& facts = FactsOf(dtype);
  WEFT_CHECK(k_begin % layout.super_inputs == 0 && k % layout.super_inputs == 0,
             "{}: inputs [{}, {}) are no whole blocks of {}", facts.name, k_begin, k_begin + k,
             layout.super_inputs);
  int8_t q[256];
  float scales[16];
  float mins[16];
  for (int o = 0; o < count; ++o) {
    const auto* block = reinterpret_cast<const uint8_t*>(rows[o]) + BytesOf(dtype, k_begin);
    auto* header = reinterpret_cast<uint8_t*>(dst);
    for (int64_t i = 0; i < k; i += layout.super_inputs) {
      PackHeader(dtype, block, o, header);
      DecodeBlocks(dtype, block, layout.super_inputs, q, scales, mins);
      for (int step = 0; step < layout.super_inputs / kStepInputs; ++step) {
        PackCodes(layout, q + step * kStepInputs, o,
                  header + layout.header_bytes + step * layout.step_bytes);
      }
      block += facts.block_bytes;
      header += SuperBytes(layout);
    }
  }
}

}  // namespace

int64_t PanelBytes(DType dtype, int64_t k) {
  switch (dtype) {
    case DType::kF32: return k * kPanelOutputs * 4;
    case DType::kF16: return RoundUp(k * kPanelOutputs * 2, 64);
    case DType::kBF16: return (k + 1) / 2 * kPanelOutputs * 4;
    default: break;
  }
  const BlockLayout layout = BlockLayoutOf(dtype);
  WEFT_CHECK(layout.super_inputs != 0, "{} is no weight format", NameOf(dtype));
  return RoundUp(k / layout.super_inputs * SuperBytes(layout), 64);
}

void PackPanel(DType dtype, const std::byte* const* rows, int count, int64_t k_begin, int64_t k,
               std::byte* dst) {
  WEFT_CHECK(count >= 1 && count <= kPanelOutputs, "{} outputs in a panel of 16", count);
  std::memset(dst, 0, static_cast<size_t>(PanelBytes(dtype, k)));
  switch (dtype) {
    case DType::kF32: return PackPlain<uint32_t>(rows, count, k_begin, k, dst);
    case DType::kF16: return PackPlain<uint16_t>(rows, count, k_begin, k, dst);
    case DType::kBF16: return PackBf16(rows, count, k_begin, k, dst);
    default: return PackBlocks(dtype, rows, count, k_begin, k, dst);
  }
}

void UnpackPanelRow(DType dtype, const std::byte* panel, int64_t k, int output, float* out) {
  switch (dtype) {
    case DType::kF32:
      for (int64_t i = 0; i < k; ++i) {
        std::memcpy(out + i, panel + (i * kPanelOutputs + output) * 4, 4);
      }
      return;
    case DType::kF16:
      for (int64_t i = 0; i < k; ++i) {
        F16 half;
        std::memcpy(&half.bits, panel + (i * kPanelOutputs + output) * 2, 2);
        out[i] = ToFloat(half);
      }
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < k; ++i) {
        Bf16 value;
        std::memcpy(&value.bits, panel + (i / 2 * kPanelOutputs + output) * 4 + i % 2 * 2, 2);
        out[i] = ToFloat(value);
      }
      return;
    default: break;
  }
  for (int64_t step = 0; step < k / kStepInputs; ++step) {
    const StepValues values = DecodeStep(dtype, panel, step, output);
    for (int i = 0; i < kStepInputs; ++i) {
      out[step * kStepInputs + i] =
          std::fma(static_cast<float>(values.q[i]), values.scale[i / 16], values.min);
    }
  }
}

}  // namespace weft::kernels
