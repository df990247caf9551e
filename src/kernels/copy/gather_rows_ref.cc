// The contract of gather_rows, and its only kernel: memcpy is as good as a loop of ours can be.
#include <cstring>
#include <string>

#include "kernels/copy/gather_rows.h"

namespace weft::kernels {
namespace {

std::string Refuse(const GatherRowsArgs& a) {
  if (a.int8_rows) return a.xq.k != a.yq.k ? "x and y differ in columns" : "";
  if (a.x.dtype != a.y.dtype) return "x and y differ in dtype";
  if (a.x.cols != a.y.cols) return "x and y differ in columns";
  return "";
}

int64_t Units(const GatherRowsArgs& a) { return a.int8_rows ? a.yq.rows : a.y.rows; }

void CopyRow(const GatherRowsArgs& a, int64_t i) {
  const auto* x = static_cast<const std::byte*>(a.x.data);
  auto* y = static_cast<std::byte*>(a.y.data);
  std::memcpy(y + BytesOf(a.y.dtype, i * a.y.stride),
              x + BytesOf(a.x.dtype, a.rows[i] * a.x.stride),
              static_cast<size_t>(BytesOf(a.x.dtype, a.x.cols)));
}

void CopyInt8Row(const GatherRowsArgs& a, int64_t i) {
  const QuantisedRows from = a.xq.Rows(a.rows[i], a.rows[i] + 1);
  const QuantisedRows to = a.yq.Rows(i, i + 1);
  const auto blocks = static_cast<size_t>(from.k / kQuantBlock);
  std::memcpy(to.q, from.q, static_cast<size_t>(from.k));
  std::memcpy(to.d, from.d, blocks * sizeof(*to.d));
  std::memcpy(to.sum, from.sum, blocks * sizeof(*to.sum));
}

void Run(const GatherRowsArgs& a, Slice slice, std::byte*) {
  for (int64_t i = slice.begin; i < slice.end; ++i) a.int8_rows ? CopyInt8Row(a, i) : CopyRow(a, i);
}

}  // namespace

extern const Kernel<GatherRowsArgs> kGatherRowsRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
