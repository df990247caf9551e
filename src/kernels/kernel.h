// What a kernel is: a pure function over (args, slice), and the list that chooses one.
//
// args are plain data: pointers, strides, live counts and constants. The work is cut into units;
// units(args) says how many, a Slice is a range of them, and any set of workers may run any
// partition of [0, units) in any order: the unit fixes the bits, never who runs it. A kernel knows
// no thread, rank, layer or graph. It allocates nothing: scratch is handed in, one per worker.
//
// Each family has x_ref.cc, the scalar contract that defines the bits, and x_list.cc, an ordered
// array, best first and the contract last. The first entry that this CPU can run and that does not
// refuse is taken; `force` picks one by name for tests, benches and --impl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft::kernels {

struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
};

// Worker w of n takes this part of `units`: contiguous, static, sizes differ by at most one.
inline Slice SliceOf(int64_t units, int worker, int workers) {
  return {units * worker / workers, units * (worker + 1) / workers};
}

// Instruction sets, each including those before it.
enum class Isa : uint8_t { kPortable, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmxInt8 };
inline constexpr Isa kIsaMax = Isa::kAmxInt8;
std::string_view NameOf(Isa isa);
// The best that this CPU and operating system offer; asks the latter for AMX's tiles, for the whole
// process. kPortable means: below the floor.
Isa DetectIsa();

template <typename Args>
struct Kernel {
  std::string_view name;  // "avx2", "avx512bf16:6x64", "ref"
  Isa isa = Isa::kPortable;
  // "" if the kernel can do it, else why not, with the number that decided. Looks at shapes and
  // dtypes only, never at memory: plans ask before buffers exist.
  std::string (*refuse)(const Args&) = nullptr;
  // "" or why the entries after it are faster on this CPU, which can run it all the same; it is
  // then taken by `force` alone. nullptr: nothing is known against it.
  std::string (*avoid)() = nullptr;
  int64_t (*units)(const Args&) = nullptr;
  int64_t (*scratch_bytes)(const Args&) = nullptr;  // per worker; nullptr: none
  void (*run)(const Args&, Slice, std::byte* scratch) = nullptr;
  // Of a matmul: the panels of weights that units read, for whoever fetches them before; nullptr:
  // not told.
  Slice (*panels)(const Args&, Slice units) = nullptr;
};

struct Refusal {
  std::string_view kernel;
  std::string reason;
};

// Best first. `isa`: what may be used. `force`: a kernel's name, or empty.
template <typename Args>
const Kernel<Args>* Choose(std::span<const Kernel<Args>* const> list, const Args& args, Isa isa,
                           std::string_view force = {}) {
  for (const Kernel<Args>* kernel : list) {
    if (!force.empty() && kernel->name != force) continue;
    if (kernel->isa > isa) continue;
    if (force.empty() && kernel->avoid != nullptr && !kernel->avoid().empty()) continue;
    if (kernel->refuse != nullptr && !kernel->refuse(args).empty()) continue;
    return kernel;
  }
  return nullptr;
}

}  // namespace weft::kernels
