#include "fused/matmul_reduce_scatter.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "tensor/fused_limits.h"

namespace weft::fused {

using kernels::MatmulArgs;
using kernels::Slice;

namespace {

// The owner whose rows a rank multiplies as its `at`-th tile, and where a rank has an owner's rows.
int OwnerAt(int rank, int at, int ranks) { return (rank + 1 + at) % ranks; }
int PlaceOf(int owner, int rank, int ranks) { return (owner - rank - 1 + ranks) % ranks; }

int64_t Multiply(const MatmulReduceScatterArgs& a, int owner) {
  const MatmulArgs tile =
      kernels::OfRows(a.matmul, a.reduce.starts[owner], a.reduce.starts[owner + 1]);
  if (tile.rows == 0 || tile.w.k_leaves == 0) return 0;
  const Slice units = kernels::SliceOf(a.matmul_kernel->units(tile), a.worker, a.workers);
  if (units.begin < units.end) a.matmul_kernel->run(tile, units, a.scratch);
  return units.end - units.begin;
}

int64_t FinishOwn(const MatmulReduceScatterArgs& a) {
  return a.method->run(a.reduce, 0,
                       kernels::SliceOf(a.method->units(a.reduce, 0), a.worker, a.workers));
}

}  // namespace

std::string RefuseMatmulReduceScatter(int64_t rows, int ranks) {
  if (ranks < 2) return "one rank has nothing to exchange";
  if (rows < kFusedScatterRowsMin) return fmt::format("rows {} < {}", rows, kFusedScatterRowsMin);
  return "";
}

FusedWork RunStage(const MatmulReduceScatterArgs& a, int stage) {
  FusedWork work;
  if (stage == 1) work.bytes = FinishOwn(a);
  for (int owner = 0; stage == 0 && owner < a.reduce.ranks; ++owner)
    work.units += Multiply(a, owner);
  return work;
}

Status RunMatmulReduceScatter(const MatmulReduceScatterArgs& a, TileFlags& flags,
                              const device::WaitSite& site, FusedWork* work, TileTimes* times) {
  const int ranks = a.reduce.ranks, me = a.reduce.rank;
  const int who = flags.WorkerOf(me, a.worker);
  const uint64_t before = flags.Raised(who);  // of every worker
  for (int at = 0; at < ranks; ++at) {
    work->units += Multiply(a, OwnerAt(me, at, ranks));
    flags.Raise(who);
  }
  if (times != nullptr) times->multiplied_ns = SteadyNowNs();
  for (int rank = 0; rank < ranks; ++rank) {
    WEFT_RETURN_IF_ERROR(
        flags.Await(who, rank, before + 1 + static_cast<uint64_t>(PlaceOf(me, rank, ranks)), site));
  }
  if (times != nullptr) times->seen_ns = SteadyNowNs();
  work->bytes += FinishOwn(a);
  return {};
}

}  // namespace weft::fused
