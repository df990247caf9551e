#include <array>

#include "graph/passes/pass.h"

namespace weft::graph {

extern const Pass kFoldFinish;
extern const Pass kFuseAddRmsNorm;
extern const Pass kFuseMatmulAllReduceNorm;
extern const Pass kFuseMatmulReduceScatter;
extern const Pass kGatherColumns;
extern const Pass kRegroupOProj;
extern const Pass kSequenceParallel;
extern const Pass kDeferGather;
extern const Pass kExchangeExperts;
extern const Pass kCombineRows;
extern const Pass kLiftSlices;
extern const Pass kShardLayers;
extern const Pass kShardArgmax;

namespace {
// The order is the policy. The entries are copied at first use rather than at start-up, because the
// passes' own constants live in other files.
std::span<const Pass> List() {
  // Schedules first, then what works on any of them. regroup_o_proj finds the scatter that
  // sequence_parallel made, lift_slices and exchange_experts the gathers where they have sunk to,
  // and chains are fused when nobody takes them apart any more.
  static const std::array<Pass, 13> kPasses{
      kGatherColumns,
      kSequenceParallel,
      kRegroupOProj,
      kShardLayers,
      kDeferGather,
      kLiftSlices,
      kExchangeExperts,
      kCombineRows,
      kShardArgmax,
      kFoldFinish,
      kFuseAddRmsNorm,
      kFuseMatmulReduceScatter,
      kFuseMatmulAllReduceNorm,
  };
  return kPasses;
}
}  // namespace

std::span<const Pass> AllPasses() { return List(); }

}  // namespace weft::graph
