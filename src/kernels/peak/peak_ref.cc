// The contract of the peaks: what is counted, in plain loops.
#include <cstring>

#include "kernels/peak/peak.h"

namespace weft::kernels {
namespace {

constexpr int kLanes = 8;

uint64_t CountFloats(const std::byte*, int64_t rounds) {
  float sum[kLanes] = {};
  for (int64_t r = 0; r < rounds; ++r) {
    for (float& s : sum) s = __builtin_fmaf(1.0f, 1.0f, s);
  }
  uint64_t count = 0;
  for (float s : sum) count += static_cast<uint64_t>(s);
  return count;
}

uint64_t CountIntegers(const std::byte*, int64_t rounds) {
  int32_t sum[kLanes] = {};
  for (int64_t r = 0; r < rounds; ++r) {
    for (int32_t& s : sum) s += 1;
  }
  uint64_t count = 0;
  for (int32_t s : sum) count += static_cast<uint64_t>(s);
  return count;
}

uint64_t Read(const std::byte* data, int64_t bytes) {
  uint64_t all = 0;
  for (int64_t i = 0; i < bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    all ^= word;
  }
  return all;
}

}  // namespace

extern const Peak kPeakFloat32Ref, kPeakBf16Ref, kPeakInt8Ref, kPeakInt4Ref, kPeakReadRef;
const Peak kPeakFloat32Ref{PeakKind::kFloat32, Isa::kPortable, "fma", kLanes, CountFloats};
const Peak kPeakBf16Ref{PeakKind::kBf16, Isa::kPortable, "fma", kLanes, CountFloats};
const Peak kPeakInt8Ref{PeakKind::kInt8, Isa::kPortable, "add", kLanes, CountIntegers};
const Peak kPeakInt4Ref{PeakKind::kInt4, Isa::kPortable, "add", kLanes, CountIntegers};
const Peak kPeakReadRef{PeakKind::kRead, Isa::kPortable, "64-bit loads", 1, Read};

}  // namespace weft::kernels
