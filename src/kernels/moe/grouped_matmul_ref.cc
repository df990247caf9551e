// The contract of grouped_matmul, and its only kernel: what there is to vary is in the dense
// kernels.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kernels/moe/grouped_matmul.h"

namespace weft::kernels {
namespace {

MatmulArgs WithRows(MatmulArgs args, int64_t rows) {
  args.rows = rows;
  return args;
}

MatmulArgs OfExpert(const GroupedMatmulArgs& a, int e) {
  MatmulArgs args = OfRows(a.matmul, a.begin[e], a.begin[e + 1]);
  args.w = a.experts[e];
  WEFT_DCHECK(
      args.w.dtype == a.matmul.w.dtype && args.w.k == a.matmul.w.k && args.w.n == a.matmul.w.n,
      "expert {} is [{}, {}] in {}", e, args.w.n, args.w.k, NameOf(args.w.dtype));
  return args;
}

int64_t Cost(const GroupedMatmulArgs& a, int e) {
  const int64_t rows = a.begin[e + 1] - a.begin[e];
  return rows == 0 ? 0 : a.experts[e].panels * (kRowsOfAStream + rows);
}

std::string Refuse(const GroupedMatmulArgs& a) {
  if (a.kernel == nullptr) return "no matmul kernel for the experts";
  if (a.matmul.bias != nullptr) return "a bias, which would be every expert's";
  if (const std::string reason = a.kernel->refuse(WithRows(a.matmul, 1)); !reason.empty()) {
    return fmt::format("{}: {}", a.kernel->name, reason);
  }
  return "";
}

int64_t Units(const GroupedMatmulArgs& a) {
  int64_t units = 0;
  for (int e = 0; e < a.count; ++e) units += Cost(a, e);
  return units;
}

// Tiles differ with the number of rows, so more rows do not always need more.
int64_t ScratchBytes(const GroupedMatmulArgs& a) {
  int64_t bytes = 0;
  if (a.kernel->scratch_bytes == nullptr) return bytes;
  for (int64_t rows = 1; rows <= a.rows_max; ++rows) {
    bytes = std::max(bytes, a.kernel->scratch_bytes(WithRows(a.matmul, rows)));
  }
  return bytes;
}

// The kernel's unit that starts at or after unit `at` of `cost`: rounded up on both sides of a cut,
// so every partition of the cost is one of the kernel's units.
int64_t KernelUnit(int64_t at, int64_t cost, int64_t units) {
  return (at * units + cost - 1) / cost;
}

void Run(const GroupedMatmulArgs& a, Slice slice, std::byte* scratch) {
  int64_t first = 0;
  for (int e = 0; e < a.count && first < slice.end; ++e) {
    const int64_t cost = Cost(a, e);
    const int64_t begin = std::max<int64_t>(slice.begin - first, 0);
    const int64_t end = std::min(slice.end - first, cost);
    first += cost;
    if (begin >= end) continue;
    const MatmulArgs args = OfExpert(a, e);
    const int64_t units = a.kernel->units(args);
    const Slice part{KernelUnit(begin, cost, units), KernelUnit(end, cost, units)};
    if (part.begin < part.end) a.kernel->run(args, part, scratch);
  }
}

}  // namespace

extern const Kernel<GroupedMatmulArgs> kGroupedMatmulRef;
const Kernel<GroupedMatmulArgs> kGroupedMatmulRef{.name = "ref",
                                                  .isa = Isa::kPortable,
                                                  .refuse = Refuse,
                                                  .units = Units,
                                                  .scratch_bytes = ScratchBytes,
                                                  .run = Run};

}  // namespace weft::kernels
