#include "kernels/peak/peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft::kernels {
namespace {

TEST(Peak, EveryKindHasAPortableEntryAndTheBestComesFirst) {
  for (int k = 0; k < kPeakKinds; ++k) {
    const auto kind = static_cast<PeakKind>(k);
    const Peak* portable = ChoosePeak(kind, Isa::kPortable);
    ASSERT_NE(portable, nullptr) << NameOf(kind);
    EXPECT_EQ(portable->isa, Isa::kPortable);
    Isa last = kIsaMax;
    for (const Peak* peak : Peaks()) {
      if (peak->kind != kind) continue;
      EXPECT_LE(peak->isa, last) << peak->name;
      last = peak->isa;
    }
  }
}

// A loop that did less than it says, or was optimised away, gives another number.
TEST(Peak, TheSumCountsTheProducts) {
  for (const Peak* peak : Peaks()) {
    if (peak->kind == PeakKind::kRead || peak->isa > DetectIsa()) continue;
    for (const int64_t rounds : {int64_t{1}, int64_t{7}, kPeakRoundsMax}) {
      EXPECT_EQ(peak->run(nullptr, rounds), static_cast<uint64_t>(peak->products * rounds))
          << NameOf(peak->kind) << " " << peak->name;
    }
  }
}

TEST(Peak, ReadingSeesEveryWordOnce) {
  alignas(64) static constexpr int64_t kBytes = 4096;
  std::vector<std::byte> memory(kBytes + 64 + 8192);
  std::byte* data = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  for (int64_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::byte>(i * 167 + i / 256 * 31);
  const uint64_t expected = ChoosePeak(PeakKind::kRead, Isa::kPortable)->run(data, kBytes);
  for (const Peak* peak : Peaks()) {
    if (peak->kind != PeakKind::kRead || peak->isa > DetectIsa()) continue;
    EXPECT_EQ(peak->run(data, kBytes), expected) << peak->name;
    for (int64_t i = 0; i < kBytes; i += 256 + 8) {
      data[i] ^= std::byte{0x40};
      EXPECT_NE(peak->run(data, kBytes), expected) << peak->name << " byte " << i;
      data[i] ^= std::byte{0x40};
    }
  }
}

}  // namespace
}  // namespace weft::kernels
