// The contract of causal_conv, channel by channel; the order is in causal_conv.h.
//
// Positions p count from the segment's first row: -(taps - 1) .. -1 are the history. The slot that
// is left begins at p = rows - logged - (taps - 1), so that what was history may stay there.
#include <string>

#include "base/check.h"
#include "kernels/gdn/causal_conv.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"

namespace weft::kernels {
namespace {

template <typename T>
void ConvChannel(const CausalConvArgs& a, const Segment& s, int64_t c) {
  const int history = a.taps - 1;
  T* slot = static_cast<T*>(a.state) + s.state * a.state_stride + c;
  T window[kConvTapsMax] = {};  // window[j]: m[p - history + j]
  if (s.position_begin != 0) {
    for (int j = 0; j < history; ++j) window[j] = slot[(s.replay + j) * a.state_row_stride];
  }
  const int kept = s.rows - s.logged - history;  // the position of the slot's first row
  for (int p = kept; p < 0; ++p) slot[(p - kept) * a.state_row_stride] = window[history + p];
  for (int p = 0; p < s.rows; ++p) {
    window[history] = a.x.row<const T>(s.row_begin + p)[c];
    if (p >= kept) slot[(p - kept) * a.state_row_stride] = window[history];
    float acc = 0.0f;
    for (int j = 0; j < a.taps; ++j) {
      acc = __builtin_fmaf(a.w[j * a.w_stride + c], LoadElement(window + j), acc);
    }
    StoreElement(a.y.row<T>(s.row_begin + p) + c, Silu(F1{acc}).v);
    for (int j = 0; j < history; ++j) window[j] = window[j + 1];
  }
}

std::string Refuse(const CausalConvArgs& a) {
  if (a.x.dtype != DType::kBF16 && a.x.dtype != DType::kF32) {
    return "x is " + std::string(NameOf(a.x.dtype)) + ", not bfloat16 or float32";
  }
  if (a.y.dtype != a.x.dtype) return "y is not of x's dtype";
  if (a.taps < 2 || a.taps > kConvTapsMax) {
    return std::to_string(a.taps) + " taps, not 2.." + std::to_string(kConvTapsMax);
  }
  if (a.y.cols != a.x.cols) {
    return "y has " + std::to_string(a.y.cols) + " channels, x " + std::to_string(a.x.cols);
  }
  if (a.w_stride < a.x.cols || a.state_row_stride < a.x.cols) {
    return "rows of w or of a slot are closer than " + std::to_string(a.x.cols) + " channels";
  }
  return "";
}

int64_t Units(const CausalConvArgs& a) {
  return (a.x.cols + kConvChannels - 1) / kConvChannels * a.segment_count;
}

void Run(const CausalConvArgs& a, Slice slice, std::byte*) {
  for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const Segment& s = a.segments[unit % a.segment_count];
    WEFT_CHECK(s.logged <= s.rows && s.logged <= a.log_max && s.replay <= a.log_max,
               "causal_conv: {} rows, {} logged, {} replayed, log of {}", s.rows, s.logged,
               s.replay, a.log_max);
    const int64_t begin = unit / a.segment_count * kConvChannels;
    for (int64_t c = begin; c < begin + kConvChannels && c < a.x.cols; ++c) {
      a.x.dtype == DType::kBF16 ? ConvChannel<Bf16>(a, s, c) : ConvChannel<float>(a, s, c);
    }
  }
}

}  // namespace

extern const Kernel<CausalConvArgs> kCausalConvRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
