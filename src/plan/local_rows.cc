#include "plan/local_rows.h"

namespace weft::plan {

LocalRows::LocalRows(const graph::Graph& g, const graph::Value& v, int rank) {
  if (v.on.empty() || v.dims.empty() || v.dims[0].sym == graph::Sym::kConst) return;
  const graph::Cut cut = CutOf(g.mesh, v.on, 0);
  if (cut.whole()) return;
  chunks_ = cut.chunks;
  mine_ = ChunksOf(g.mesh, cut, rank);
}

int64_t RowCapacity(const graph::Graph& g, graph::ValueId value, int64_t rows_max) {
  return LocalRows(g, g.value(value), 0).Capacity(rows_max);
}

}  // namespace weft::plan
