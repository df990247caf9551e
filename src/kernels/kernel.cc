#include "kernels/kernel.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::kernels {

std::string_view NameOf(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Vnni: return "avx512vnni";
    case Isa::kAvx512Bf16: return "avx512bf16";
    case Isa::kAmxInt8: return "amx";
  }
  return "unknown";
}

namespace {

// Tile state is large, so Linux saves it only for processes that have asked (Linux,
// Documentation/arch/x86/xstate.rst).
bool MayUseTiles() {
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTile) == 0 || (edx & kInt8) == 0) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Clang's builtin does not know it by name.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 29)) != 0;
}

}  // namespace

// The builtins look at XCR0 too, so a set bit means that the operating system saves the registers.
Isa DetectIsa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2") || !HasF16c()) {
    return Isa::kPortable;
  }
#ifdef WEFT_GENERIC
  return Isa::kAvx2;  // a build that behaves alike on every CPU it can run on
#endif
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::kAvx512;
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::kAvx512Vnni;
  static const bool tiles = MayUseTiles();
  return tiles ? Isa::kAmxInt8 : Isa::kAvx512Bf16;
}

}  // namespace weft::kernels
