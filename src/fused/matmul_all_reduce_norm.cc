#include "fused/matmul_all_reduce_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "comm/reduce_steps.h"
#include "tensor/fused_limits.h"

namespace weft::fused {

using comm::Collective;
using comm::ReduceArgs;
using kernels::Slice;

namespace {

// A tile more takes its columns out of what is left to do after the last one, and costs about 0.7
// us (the stream of weights starts anew) and the preparation of the rows once more. One row of 1024
// columns in two tiles leaves 0.7 us behind the last tile where one leaves 1.9; of eight rows the
// second tile costs 4 % (docs/optimisations/22).
constexpr int kTilesMost = 4;
constexpr int64_t kColumnsLeast = 512;
constexpr int64_t kTileColumns = 128;  // eight panels: the most that a matmul kernel takes at once

int PhasesOf(const MatmulAllReduceNormArgs& a) { return a.method->phases(a.tiles[0].reduce); }

Slice RowsOf(const MatmulAllReduceNormArgs& a) {
  return a.each ? Slice{0, a.norm.x.rows} : kernels::SliceOf(a.norm.x.rows, a.worker, a.workers);
}

int64_t Multiply(const MatmulAllReduceNormArgs& a, int tile) {
  const kernels::MatmulArgs& matmul = a.tiles[tile].matmul;
  if (matmul.w.k_leaves == 0) return 0;
  const Slice units = kernels::SliceOf(a.matmul_kernel->units(matmul), a.worker, a.workers);
  if (units.begin < units.end) a.matmul_kernel->run(matmul, units, a.scratch);
  return units.end - units.begin;
}

// The worker's own share of the rank's, of an exchange whose next phase peers wait for.
int64_t FinishShare(const MatmulAllReduceNormArgs& a, int tile) {
  const ReduceArgs& reduce = a.tiles[tile].reduce;
  return a.method->run(reduce, 0,
                       kernels::SliceOf(a.method->units(reduce, 0), a.worker, a.workers));
}

// The last phase, for the rows that the worker goes on with.
int64_t Complete(const MatmulAllReduceNormArgs& a, int tile, int phase) {
  const ReduceArgs& reduce = a.tiles[tile].reduce;
  const int64_t blocks = comm::BlocksOf(reduce.cols, comm::kReduceBlock);
  const Slice rows = RowsOf(a);
  Slice units{rows.begin * blocks, rows.end * blocks};
  if (phase > 0) {
    // Units of this phase leave out those that the rank has finished itself.
    const Slice own = comm::OwnedUnits(reduce, Collective::kAllReduce, reduce.rank);
    const auto without_own = [&](int64_t unit) {
      return unit - (std::clamp(unit, own.begin, own.end) - own.begin);
    };
    units = {without_own(units.begin), without_own(units.end)};
  }
  const int64_t bytes = units.begin < units.end ? a.method->run(reduce, phase, units) : 0;
  // Where all workers take the same bytes, one of them counts for the rank.
  return a.each && a.worker != 0 ? 0 : bytes;
}

void AddAndNorm(const MatmulAllReduceNormArgs& a) {
  const Slice rows = RowsOf(a);
  if (rows.begin >= rows.end) return;
  if (a.residual_from.data != nullptr) {
    const View &from = a.residual_from, &to = a.norm.residual;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      std::memcpy(static_cast<std::byte*>(to.data) + BytesOf(to.dtype, row * to.stride),
                  static_cast<const std::byte*>(from.data) + BytesOf(from.dtype, row * from.stride),
                  static_cast<size_t>(BytesOf(from.dtype, from.cols)));
    }
  }
  a.norm_kernel->run(a.norm, rows, a.scratch);
}

}  // namespace

int TilesOf(int64_t rows, int64_t cols) {
  return rows == 1 ? static_cast<int>(std::clamp<int64_t>(cols / kColumnsLeast, 1, kTilesMost)) : 1;
}

int64_t TileBegin(int64_t cols, int tile, int tiles) {
  return tile == tiles ? cols : cols * tile / tiles / kTileColumns * kTileColumns;
}

std::string RefuseMatmulAllReduceNorm(int64_t rows, int ranks) {
  if (ranks < 2) return "one rank has nothing to exchange";
  if (rows > kFusedNormRowsMax) return fmt::format("rows {} > {}", rows, kFusedNormRowsMax);
  return "";
}

int StagesOf(const MatmulAllReduceNormArgs& a) { return 1 + PhasesOf(a); }

FusedWork RunStage(const MatmulAllReduceNormArgs& a, int stage) {
  FusedWork work;
  const int last = PhasesOf(a);
  for (int t = 0; t < a.tile_count; ++t) {
    if (stage == 0) {
      work.units += Multiply(a, t);
    } else {
      work.bytes += stage == last ? Complete(a, t, stage - 1) : FinishShare(a, t);
    }
  }
  if (stage == last) AddAndNorm(a);
  return work;
}

Status RunMatmulAllReduceNorm(const MatmulAllReduceNormArgs& a, TileFlags& flags,
                              const device::WaitSite& site, FusedWork* work, TileTimes* times) {
  const int who = flags.WorkerOf(a.rank, a.worker);
  uint64_t seen = flags.Raised(who);  // of every worker, at the start
  for (int t = 0; t < a.tile_count; ++t) {
    work->units += Multiply(a, t);
    flags.Raise(who);
  }
  if (times != nullptr) times->multiplied_ns = SteadyNowNs();
  const bool two_shot = PhasesOf(a) > 1;
  for (int t = 0; t < a.tile_count; ++t) {
    WEFT_RETURN_IF_ERROR(flags.AwaitAll(who, ++seen, site));
    if (times != nullptr && t + 1 == a.tile_count) times->seen_ns = SteadyNowNs();
    work->bytes += two_shot ? FinishShare(a, t) : Complete(a, t, 0);
  }
  if (two_shot) {
    flags.Raise(who);
    WEFT_RETURN_IF_ERROR(flags.AwaitAll(who, ++seen, site));
    for (int t = 0; t < a.tile_count; ++t) work->bytes += Complete(a, t, 1);
  }
  AddAndNorm(a);
  return {};
}

}  // namespace weft::fused
