// The contract of embed. Unit: one token. A gather of 4-byte pieces 64 bytes apart: bound by cache
// lines, not by arithmetic, so the plain loop is also the fast one.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "kernels/embed/embed.h"
#include "kernels/matmul/pack.h"
#include "kernels/matmul/panel_layout.h"

namespace weft::kernels {
namespace {

constexpr int64_t kChunk = 256;  // a multiple of every block

// Panels may be short anywhere (the end of a vocabulary leaf), so the place is searched.
int PanelOf(const PackedMatrix& table, int32_t id) {
  int low = 0;
  int high = table.panels;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (table.panel_begin[middle] <= id ? low : high) = middle;
  }
  return low;
}

void StoreRow(const View& y, int64_t token, int64_t at, const float* values, int64_t count) {
  if (y.dtype == DType::kF32) {
    std::memcpy(y.row<float>(token) + at, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  Bf16* out = y.row<Bf16>(token) + at;
  for (int64_t i = 0; i < count; ++i) out[i] = ToBf16(values[i]);
}

void Run(const EmbedArgs& a, Slice slice, std::byte*) {
  for (int64_t token = slice.begin; token < slice.end; ++token) {
    const int panel = PanelOf(a.table, a.ids[token]);
    const int output = a.ids[token] - a.table.panel_begin[panel];
    for (int leaf = 0; leaf < a.table.k_leaves; ++leaf) {
      const std::byte* data = a.table.data[int64_t{leaf} * a.table.panels + panel];
      const int64_t begin = a.table.k_begin[leaf];
      const int64_t k = a.table.k_begin[leaf + 1] - begin;
      for (int64_t at = 0; at < k; at += kChunk) {
        float values[kChunk];
        const int64_t count = k - at < kChunk ? k - at : kChunk;
        UnpackPanelRow(a.table.dtype, data + PanelOffset(a.table.dtype, at), count, output, values);
        StoreRow(a.y, token, begin + at, values, count);
      }
    }
  }
}

int64_t Units(const EmbedArgs& a) { return a.y.rows; }

std::string Refuse(const EmbedArgs& a) {
  if (a.y.dtype != DType::kF32 && a.y.dtype != DType::kBF16) {
    return fmt::format("no rows in {}", NameOf(a.y.dtype));
  }
  if (a.table.k != a.y.cols) return fmt::format("table of {} for rows of {}", a.table.k, a.y.cols);
  return "";
}

}  // namespace

extern const Kernel<EmbedArgs> kEmbedRef;
const Kernel<EmbedArgs> kEmbedRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
