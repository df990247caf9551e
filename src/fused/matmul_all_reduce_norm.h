// y = round(Tree(roots of all ranks' x W^T) + bias); r' = round(r + y); n = rms_norm(r'), as one
// step.
//
// The outputs are cut into tiles of columns. A worker multiplies its units of one tile after the
// other and raises its flag after each; then it finishes the tiles, each as soon as all ranks'
// flags for it are up, so what is late is the last tile alone and not the whole product. Adds and
// norms rows behind it: all of them
// (`each`), or its share. Two-shot exchanges have one more flag, for the shares that ranks have
// finished. The bits are those of matmul, all-reduce, add and norm as steps of their own: the
// kernels are the same. Thread: every worker of every rank runs it once a step, in the same order
// of steps. Source: article A, matmul_allreduce_add_rmsnorm; vllm-ascend csrc/mc2 of the same name.
#pragma once

#include <string>

#include "comm/method.h"
#include "fused/tile_flags.h"
#include "kernels/matmul/matmul.h"
#include "kernels/rms_norm/rms_norm.h"

namespace weft::fused {

struct MatmulAllReduceNormArgs {
  // Columns [i] of the outputs: this rank's product, and the exchange of all ranks' roots.
  struct Tile {
    kernels::MatmulArgs matmul;  // roots; w.k_leaves == 0: the rank has none
    comm::ReduceArgs reduce;     // y: [ranks] those columns of the sums
  };
  const Tile* tiles = nullptr;
  int tile_count = 0;
  kernels::RmsNormArgs norm;  // x: the sums of this rank, all columns; residual: r'
  View residual_from;         // r where it does not stand at r'; data == nullptr: it does
  const kernels::Kernel<kernels::MatmulArgs>* matmul_kernel = nullptr;
  const comm::Method<comm::ReduceArgs>* method = nullptr;  // "direct" or "two_shot"
  const kernels::Kernel<kernels::RmsNormArgs>* norm_kernel = nullptr;
  bool each = false;  // every worker finishes, adds and norms all rows into memory of its own
  int rank = 0;
  int worker = 0;
  int workers = 1;  // of the rank
  std::byte* scratch = nullptr;
};

// Tiles of a step with at most so many rows, and the first column of each; the begin of the one
// after the last is `cols`. Boundaries are groups of panels, alike on all ranks.
int TilesOf(int64_t rows, int64_t cols);
int64_t TileBegin(int64_t cols, int tile, int tiles);

// What a worker did: units of the product, and bytes that it took from peers.
struct FusedWork {
  int64_t units = 0;
  int64_t bytes = 0;
};

// "" or why a step of these shapes is left to the unfused chain.
std::string RefuseMatmulAllReduceNorm(int64_t rows, int ranks);

// With the stages of all ranks run one after the other nothing has to be waited for: the product,
// then each phase of the exchange, the last one with add and norm.
int StagesOf(const MatmulAllReduceNormArgs& args);
FusedWork RunStage(const MatmulAllReduceNormArgs& args, int stage);

// All stages, waiting for peers tile by tile. `times` may be nullptr.
Status RunMatmulAllReduceNorm(const MatmulAllReduceNormArgs& args, TileFlags& flags,
                              const device::WaitSite& site, FusedWork* work, TileTimes* times);

}  // namespace weft::fused
