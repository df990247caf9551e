#include <array>

#include "graph/passes/pass.h"

namespace weft::graph {

extern const Pass kFoldFinish;
extern const Pass kFuseAddRmsNorm;

namespace {
// The order is the policy. The entries are copied at first use rather than at start-up, because the
// passes' own constants live in other files.
std::span<const Pass> List() {
  static const std::array<Pass, 2> kPasses{kFoldFinish, kFuseAddRmsNorm};
  return kPasses;
}
}  // namespace

std::span<const Pass> AllPasses() { return List(); }

}  // namespace weft::graph
