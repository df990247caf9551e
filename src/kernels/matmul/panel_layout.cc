#include "kernels/matmul/panel_layout.h"

#include <cstring>

#include "base/bf16.h"
#include "base/check.h"

namespace weft::kernels {
namespace {

float HalfAt(const uint8_t* p) {
  F16 half;
  std::memcpy(&half.bits, p, sizeof(half.bits));
  return ToFloat(half);
}

int CodeAt(const BlockLayout& layout, const uint8_t* step, int k, int output) {
  const int quad = k / 4;
  const int byte = output * 4 + k % 4;
  if (layout.bits == 8) return static_cast<int8_t>(step[quad * 64 + byte]);
  const uint8_t low = step[layout.high_bytes + (quad % 4) * 64 + byte];
  int code = quad < 4 ? low & 15 : low >> 4;
  if (layout.bits == 5) code |= ((step[byte] >> quad) & 1) << 4;
  if (layout.bits == 6) code |= ((step[quad / 4 * 64 + byte] >> (2 * (quad % 4))) & 3) << 4;
  return code - layout.zero;
}

}  // namespace

StepValues DecodeStep(DType dtype, const std::byte* panel, int64_t step, int output) {
  const BlockLayout layout = BlockLayoutOf(dtype);
  const int64_t steps = layout.super_inputs / kStepInputs;
  const auto* header = reinterpret_cast<const uint8_t*>(panel) + step / steps * SuperBytes(layout);
  const int sub = static_cast<int>(step % steps);
  StepValues out;
  out.min = 0.0f;
  const float d = HalfAt(header + output * 2);
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0: out.scale[0] = out.scale[1] = d; break;
    case DType::kQ4_1:
    case DType::kQ5_1:
      out.scale[0] = out.scale[1] = d;
      out.min = HalfAt(header + 32 + output * 2);
      break;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const int low = header[64 + sub * 16 + output];
      const int high = header[192 + sub / 2 * 16 + output] >> (sub % 2 * 4);
      const int sc = (low & 15) | ((high & 3) << 4);
      const int m = (low >> 4) | (((high >> 2) & 3) << 4);
      out.scale[0] = out.scale[1] = d * static_cast<float>(sc);
      out.min = -(HalfAt(header + 32 + output * 2) * static_cast<float>(m));
      break;
    }
    case DType::kQ6_K:
      for (int half = 0; half < 2; ++half) {
        const auto sc = static_cast<int8_t>(header[32 + (sub * 2 + half) * 16 + output]);
        out.scale[half] = d * static_cast<float>(sc);
      }
      break;
    default: WEFT_CHECK(false, "{} is no block format", NameOf(dtype));
  }
  const uint8_t* bits = header + layout.header_bytes + sub * layout.step_bytes;
  for (int k = 0; k < kStepInputs; ++k) {
    out.q[k] = static_cast<int8_t>(CodeAt(layout, bits, k, output));
  }
  return out;
}

}  // namespace weft::kernels
