#include <array>

#include "graph/passes/pass.h"

namespace weft::graph {

extern const Pass kFoldFinish;
extern const Pass kFuseAddRmsNorm;
extern const Pass kGatherColumns;
extern const Pass kRegroupOProj;
extern const Pass kSequenceParallel;
extern const Pass kDeferGather;
extern const Pass kShardLayers;
extern const Pass kShardArgmax;

namespace {
// The order is the policy. The entries are copied at first use rather than at start-up, because the
// passes' own constants live in other files.
std::span<const Pass> List() {
  // Schedules first, then what works on any of them. regroup_o_proj finds the scatter that
  // sequence_parallel made.
  static const std::array<Pass, 8> kPasses{kGatherColumns, kSequenceParallel, kRegroupOProj, kShardLayers,
                                           kDeferGather,   kShardArgmax,      kFoldFinish,   kFuseAddRmsNorm};
  return kPasses;
}
}  // namespace

std::span<const Pass> AllPasses() { return List(); }

}  // namespace weft::graph
