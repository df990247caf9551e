// Tables that a plan's steps point to on one rank: packed weights, merges of leaf trees, roots.
// Thread: made at start, shared by the rank's workers, immutable afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/roots.h"
#include "exec/faults.h"
#include "exec/weights.h"
#include "plan/plan.h"

namespace weft::exec {

// Arrays behind the plain pointers of kernel arguments.
struct RankTables {
  struct OfStep {
    PackedTable packed;
    std::vector<PackedTable> tiles;    // of a fused step: columns of packed
    std::vector<PackedTable> experts;  // of the experts that are here
    std::vector<kernels::PackedMatrix> expert_matrices;
    std::vector<float> bias, gain;
    std::vector<uint8_t> merges;
    std::vector<int64_t> leaf_begin;
    std::vector<int32_t> kv_of_head;
    std::vector<int32_t> expert_begin;  // of the leaves of experts that are here
    comm::RootLayout roots;
  };
  std::vector<OfStep> steps;
};

std::shared_ptr<RankTables> MakeRankTables(const plan::Plan& plan, const Weights& weights, int rank,
                                           const ExecFaults& faults);

}  // namespace weft::exec
