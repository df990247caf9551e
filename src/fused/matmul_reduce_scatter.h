// y = round(Tree(roots of all ranks' x W^T) + bias) for the rank's own rows, as one step.
//
// A tile is the rows of one owner. Rank r multiplies the rows of r + 1, r + 2, ... and its own
// last, raising its flag after each; then it finishes its own rows once all ranks' flags for them
// are up. By then its peers are past that tile, except the one behind it, and nobody waits for the
// rest of anybody's product. The bits are those of matmul and reduce-scatter as steps of their own:
// the kernels are the same, and a row's operations do not depend on its neighbours. Thread: every
// worker of every rank runs it once a step, in the same order of steps. Source: torch_npu's
// npu_mm_reduce_scatter_base, which FlashComm1 calls; the order of owners is ours.
#pragma once

#include <string>

#include "comm/method.h"
#include "fused/matmul_all_reduce_norm.h"
#include "fused/tile_flags.h"
#include "kernels/matmul/matmul.h"

namespace weft::fused {

struct MatmulReduceScatterArgs {
  kernels::MatmulArgs matmul;  // all rows, to roots; w.k_leaves == 0: the rank has none
  comm::ReduceArgs reduce;     // with starts; y: [ranks] own rows of each
  const kernels::Kernel<kernels::MatmulArgs>* matmul_kernel = nullptr;
  const comm::Method<comm::ReduceArgs>* method = nullptr;  // "direct"
  int worker = 0;
  int workers = 1;  // of the rank
  std::byte* scratch = nullptr;
};

std::string RefuseMatmulReduceScatter(int64_t rows, int ranks);

// The product, and the owner's finish: see matmul_all_reduce_norm.h.
inline constexpr int kScatterStages = 2;
FusedWork RunStage(const MatmulReduceScatterArgs& args, int stage);

Status RunMatmulReduceScatter(const MatmulReduceScatterArgs& args, TileFlags& flags,
                              const device::WaitSite& site, FusedWork* work, TileTimes* times);

}  // namespace weft::fused
