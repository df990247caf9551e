// AMX int8 as a kernel uses it: dots of 16 rows by 16 outputs over 16 or 32 inputs, exact in int32.
//
// In a file compiled with -mamx-int8 the operations are instructions. Where WEFT_EMULATE_AVX512 is
// defined they are plain loops, so that a test can run a kernel's source on any CPU. Sums are a
// tile of [16][16] int32, rows one of [16][inputs] int8, codes one of [inputs / 4][16][4] int8,
// which is what a panel's step of 8-bit codes already is.
//
// The instructions are written out: GCC 12's _tile_loadconfig tells the compiler of 8 of the 64
// bytes that it reads, and the stores of the others may then be dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/simd/vec.h"

namespace weft::kernels {

#ifndef WEFT_EMULATE_AVX512

namespace amx_native {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Until Release(), dots are over `inputs` (16 or 32) inputs.
static WEFT_INLINE void Configure(int inputs) {
  TileConfig config;
  for (int sums : {0, 1}) {
    config.rows[sums] = 16;
    config.row_bytes[sums] = 64;
  }
  for (int rows : {2, 3}) {
    config.rows[rows] = 16;
    config.row_bytes[rows] = static_cast<uint16_t>(inputs);
  }
  for (int codes : {4, 5}) {
    config.rows[codes] = static_cast<uint8_t>(inputs / 4);
    config.row_bytes[codes] = 64;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}
static WEFT_INLINE void Release() { asm volatile("tilerelease" : : : "memory"); }

// The dots of 16 rows, `stride` bytes from one to the next, and of one block's codes, to [16][16]
// int32 at `to`. Calls in turn give other lanes (0..1), so that none waits for the tiles of the
// last. kInputs is what Configure() was told.
template <int kLane, int kInputs>
static WEFT_INLINE void DotTo(void* to, const void* rows, int64_t stride, const void* codes) {
  static_assert(kLane == 0 || kLane == 1);
#define WEFT_DOT(sums, x, w)                                                           \
  asm volatile("tilezero %%tmm" #sums "\n\ttileloadd (%1,%2,1), %%tmm" #x              \
               "\n\ttileloadd (%3,%4,1), %%tmm" #w "\n\ttdpbssd %%tmm" #w ", %%tmm" #x \
               ", %%tmm" #sums "\n\ttilestored %%tmm" #sums ", (%0,%4,1)"              \
               :                                                                       \
               : "r"(to), "r"(rows), "r"(stride), "r"(codes), "r"(int64_t{64})         \
               : "memory")
  if constexpr (kLane == 0) {
    WEFT_DOT(0, 2, 4);
  } else {
    WEFT_DOT(1, 3, 5);
  }
#undef WEFT_DOT
}

}  // namespace amx_native
namespace amx = amx_native;

#else

namespace amx_emulated {

static WEFT_INLINE void Configure(int) {}
static WEFT_INLINE void Release() {}
template <int kLane, int kInputs>
static WEFT_INLINE void DotTo(void* to, const void* rows, int64_t stride, const void* codes) {
  const auto* x = static_cast<const int8_t*>(rows);
  const auto* w = static_cast<const int8_t*>(codes);
  for (int r = 0; r < 16; ++r) {
    for (int o = 0; o < 16; ++o) {
      int32_t sum = 0;
      for (int i = 0; i < kInputs; ++i) sum += x[r * stride + i] * w[(i / 4 * 16 + o) * 4 + i % 4];
      std::memcpy(static_cast<std::byte*>(to) + (r * 16 + o) * 4, &sum, 4);
    }
  }
}

}  // namespace amx_emulated
namespace amx = amx_emulated;

#endif
}  // namespace weft::kernels
