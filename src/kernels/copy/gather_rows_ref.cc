// The contract of gather_rows, and its only kernel: memcpy is as good as a loop of ours can be.
#include <cstring>
#include <string>

#include "kernels/copy/gather_rows.h"

namespace weft::kernels {
namespace {

std::string Refuse(const GatherRowsArgs& a) {
  if (a.x.dtype != a.y.dtype) return "x and y differ in dtype";
  if (a.x.cols != a.y.cols) return "x and y differ in columns";
  return "";
}

int64_t Units(const GatherRowsArgs& a) { return a.y.rows; }

void Run(const GatherRowsArgs& a, Slice slice, std::byte*) {
  const int64_t bytes = BytesOf(a.x.dtype, a.x.cols);
  const auto* x = static_cast<const std::byte*>(a.x.data);
  auto* y = static_cast<std::byte*>(a.y.data);
  for (int64_t i = slice.begin; i < slice.end; ++i) {
    std::memcpy(y + BytesOf(a.y.dtype, i * a.y.stride),
                x + BytesOf(a.x.dtype, a.rows[i] * a.x.stride), static_cast<size_t>(bytes));
  }
}

}  // namespace

extern const Kernel<GatherRowsArgs> kGatherRowsRef{.name = "ref", .isa = Isa::kPortable,
                                                   .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
