// What a core can do at best: loops whose only work is the operation itself, the denominators of
// every fraction that a bench prints. Not part of any plan.
//
// run(data, rounds) does `rounds` rounds and returns how many products it has summed up, counted in
// the very registers that a matmul would use: so a loop that a compiler has thrown away, or that
// does less than it says, gives another number. kRead reads `rounds` bytes at `data` and returns
// the xor of their 64-bit words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/kernel.h"

namespace weft::kernels {

enum class PeakKind : uint8_t {
  kFloat32,  // FMAs of fp32
  kBf16,     // bf16 weights: widened in registers, or by a dot instruction
  kInt8,     // int8 weights x int8, exact in int32
  kInt4,     // 4-bit weights x int8, exact
  kRead,     // bytes of memory
};
inline constexpr int kPeakKinds = 5;
std::string_view NameOf(PeakKind kind);

struct Peak {
  PeakKind kind;
  Isa isa;
  std::string_view name;  // the instructions
  int64_t products = 0;   // multiply-adds of a round; kRead: 1
  // REQUIRES: rounds <= kPeakRoundsMax, so that no count overflows its lane; kRead: a multiple of
  // 256 bytes, 64-byte aligned.
  uint64_t (*run)(const std::byte* data, int64_t rounds);
};
inline constexpr int64_t kPeakRoundsMax = 100'000;

// Every kind, best first, the portable one last.
std::span<const Peak* const> Peaks();
const Peak* ChoosePeak(PeakKind kind, Isa isa);

}  // namespace weft::kernels
