// causal_conv for the instruction sets: a block of channels walks down the rows of a segment, its
// last inputs widened once and kept in a ring in L1. So x may be overwritten row by row.
#pragma once

#include <cstring>
#include <string>

#include "kernels/gdn/causal_conv.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/math.h"

namespace weft::kernels {

extern const Kernel<CausalConvArgs> kCausalConvRef;

namespace {

template <typename L>
struct CausalConvBlocks {
  using V = typename L::V;

  // fp32 copies of the last `taps` inputs, the oldest first.
  struct Ring {
    alignas(64) float values[kConvTapsMax][kConvChannels];
    float* rows[kConvTapsMax];
    int taps;

    explicit Ring(int taps) : taps(taps) {
      for (int j = 0; j < taps; ++j) rows[j] = values[j];
    }
    template <typename T>
    void Push(const T* from, int64_t channels) {
      float* row = rows[0];
      for (int j = 1; j < taps; ++j) rows[j - 1] = rows[j];
      rows[taps - 1] = row;
      for (int64_t c = 0; c < channels; c += L::kLanes) {
        L::LoadFirst(from + c, channels - c).Store(row + c);
      }
    }
  };

  template <typename T>
  static void Unit(const CausalConvArgs& a, const Segment& s, int64_t begin) {
    const int64_t channels = a.x.cols - begin < kConvChannels ? a.x.cols - begin : kConvChannels;
    const auto bytes = static_cast<size_t>(channels) * sizeof(T);
    const int history = a.taps - 1;
    T* slot = static_cast<T*>(a.state) + s.state * a.state_stride + begin;

    T before[kConvTapsMax][kConvChannels] = {};
    if (s.position_begin != 0) {
      for (int j = 0; j < history; ++j) {
        std::memcpy(before[j], slot + (s.replay + j) * a.state_row_stride, bytes);
      }
    }
    Ring ring(a.taps);
    for (int j = 0; j < history; ++j) ring.Push(before[j], channels);
    const int kept = s.rows - s.logged - history;
    for (int p = kept; p < 0; ++p) {
      std::memcpy(slot + (p - kept) * a.state_row_stride, before[history + p], bytes);
    }

    const float* w = a.w + begin;
    for (int p = 0; p < s.rows; ++p) {
      const T* x = a.x.row<const T>(s.row_begin + p) + begin;
      if (p >= kept) std::memcpy(slot + (p - kept) * a.state_row_stride, x, bytes);
      ring.Push(x, channels);
      T* y = a.y.row<T>(s.row_begin + p) + begin;
      for (int64_t c = 0; c < channels; c += L::kLanes) {
        V acc = V::Zero();
        for (int j = 0; j < a.taps; ++j) {
          acc = V::Fma(L::LoadFirst(w + j * a.w_stride + c, channels - c),
                       V::Load(ring.rows[j] + c), acc);
        }
        L::StoreFirst(y + c, channels - c, Silu(acc));
      }
    }
  }

  static std::string Refuse(const CausalConvArgs& a) { return kCausalConvRef.refuse(a); }

  static int64_t Units(const CausalConvArgs& a) { return kCausalConvRef.units(a); }

  static void Run(const CausalConvArgs& a, Slice slice, std::byte*) {
    for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
      const Segment& s = a.segments[unit % a.segment_count];
      const int64_t begin = unit / a.segment_count * kConvChannels;
      a.x.dtype == DType::kBF16 ? Unit<Bf16>(a, s, begin) : Unit<float>(a, s, begin);
    }
  }
};

}  // namespace
}  // namespace weft::kernels
