// Sums that stay in the register that holds them.
//
// The same instructions that the intrinsics give, but in place by decree. Left alone, GCC writes an
// FMA's sum over a dying broadcast and spills accumulators for it (6x16 tile: 5 stores and 5 loads
// per pair of inputs), and it reassociates integer sums, which keeps all products alive at once.
#pragma once

#include "kernels/simd/vec.h"

namespace weft::kernels {

// acc = fma(a, b, acc)
static WEFT_INLINE void Accumulate(__m256& acc, __m256 a, __m256 b) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
}

static WEFT_INLINE void AddInt16(__m256i& acc, __m256i a) {
  asm("vpaddw %1, %0, %0" : "+x"(acc) : "x"(a));
}

static WEFT_INLINE void AddInt32(__m256i& acc, __m256i a) {
  asm("vpaddd %1, %0, %0" : "+x"(acc) : "x"(a));
}

// The halves of eight bf16 pairs (even, odd) as fp32, straight from memory: no mask takes a
// register beside the accumulators of a 6x16 tile, of which GCC otherwise keeps one in memory.
static WEFT_INLINE __m256 OddOfPairs(const void* p) {
  __m256 w;
  asm("vpxor %0, %0, %0\n\tvpblendw $0xaa, %1, %0, %0"
      : "=&x"(w)
      : "m"(*static_cast<const __m256*>(p)));
  return w;
}

static WEFT_INLINE __m256 EvenOfPairs(const void* p) {
  __m256 w;
  asm("vmovdqa %1, %0\n\tvpslld $16, %0, %0" : "=&x"(w) : "m"(*static_cast<const __m256*>(p)));
  return w;
}

}  // namespace weft::kernels
