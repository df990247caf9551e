// The instructions against their emulation, on CPUs that have them: what the tests of *_avx512.cc
// kernels over emulated instructions leave open.
#define WEFT_EMULATE_AVX512
#include "kernels/simd/avx512.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/float_env.h"
#include "kernels/kernel.h"
#include "kernels/simd/avx512_operations.h"

namespace weft::kernels {
namespace {

using testing::OperationInput;

// Fills with the patterns of floats, of bf16 pairs and of bytes that meet an edge.
void FillRandom(std::mt19937& random, int kind, std::byte* to) {
  constexpr uint32_t kExponents[] = {0, 1, 2, 60, 64, 126, 127, 128, 190, 253, 254, 255};
  for (int i = 0; i < 16; ++i) {
    uint32_t word = random();
    const auto exponent = [&] { return kExponents[random() % std::size(kExponents)]; };
    switch (kind) {
      case 0: break;
      case 1: word = (word & 0x807fffffu) | (exponent() << 23); break;
      case 2: word = (word & 0x807f807fu) | (exponent() << 23) | (exponent() << 7); break;
      case 3:
        word = (word & 0x807f807fu) | ((120 + random() % 12) << 23) | ((120 + random() % 12) << 7);
        break;
      default: word = (word & 0x80000000u) | (exponent() << 23) | (random() % 3) << 15; break;
    }
    std::memcpy(to + i * 4, &word, 4);
  }
}

bool Same(const std::byte* x, const std::byte* y, bool floats) {
  if (!floats) return std::memcmp(x, y, 64) == 0;
  for (int i = 0; i < 16; ++i) {
    float a, b;
    std::memcpy(&a, x + i * 4, 4);
    std::memcpy(&b, y + i * 4, 4);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::memcmp(&a, &b, 4) != 0) return false;
  }
  return true;
}

TEST(Avx512, EveryInstructionIsWhatItsEmulationSays) {
  if (DetectIsa() < Isa::kAvx512Bf16) GTEST_SKIP() << "this CPU has no AVX-512 with VNNI and BF16";
  ScopedFlushDenormals flush;
  ASSERT_EQ(testing::kNativeOperations.size(), std::size(testing::kOperations));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    OperationInput in;
    FillRandom(random, round % 5, in.a);
    FillRandom(random, round / 5 % 5, in.b);
    FillRandom(random, round / 25 % 5, in.c);
    in.mask = static_cast<uint16_t>(random());
    for (size_t i = 0; i < testing::kNativeOperations.size(); ++i) {
      const testing::Operation& native = testing::kNativeOperations[i];
      const testing::Operation& emulated = testing::kOperations[i];
      ASSERT_STREQ(native.name, emulated.name);
      alignas(64) std::byte got[64] = {};
      alignas(64) std::byte expected[64] = {};
      native.run(in, got);
      emulated.run(in, expected);
      ASSERT_TRUE(Same(got, expected, native.floats)) << native.name << " in round " << round;
    }
  }
}

}  // namespace
}  // namespace weft::kernels
