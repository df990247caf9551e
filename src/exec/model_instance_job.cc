// A model whose ranks are processes of a job: what they agree on before they load, and where one
// finds the memory of the others.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/hash.h"
#include "exec/model_instance.h"
#include "exec/rank_tables.h"

namespace weft::exec {
namespace {

// Enough of a checkpoint to tell it from another one: what its tensors are called and how they
// begin and end.
uint64_t DigestOf(const io::Checkpoint& checkpoint) {
  constexpr int64_t kEnds = 64;
  Hash64Stream hash;
  for (const io::Tensor& t : checkpoint.tensors()) {
    hash.Add(t.name);
    hash.AddValue(t.dtype);
    hash.AddValue(t.bytes);
    const int64_t ends = std::min(kEnds, t.bytes);
    hash.Add(t.data, static_cast<size_t>(ends));
    hash.Add(t.data + t.bytes - ends, static_cast<size_t>(ends));
  }
  return hash.Digest();
}

}  // namespace

device::WaitSite ModelInstance::StartSite(const char* what) {
  return {.deadline_ns = SteadyNowNs() + 600 * kNsPerSecond, .what = what};
}

Status ModelInstance::AgreeOnModel(const io::Checkpoint& checkpoint) {
  here_ = {0, config_.ranks};
  if (config_.link == nullptr) return Status::Ok();
  comm::Link& link = *config_.link;
  if (config_.reference)
    return Status::Invalid("the reference executor has all ranks in one process");
  if (config_.ranks != link.ranks()) {
    return Status::Invalid(
        "--tensor-parallel-size {} in a job of {} processes, which are one rank each",
        config_.ranks, link.ranks());
  }
  here_ = {link.rank(), link.rank() + 1};
  WEFT_RETURN_IF_ERROR(comm::CheckSame(link, "the numerics version",
                                       fmt::format("{}", plan::kNumericsVersion),
                                       StartSite("numerics version")));
  WEFT_RETURN_IF_ERROR(comm::CheckSame(link, "the checkpoint",
                                       fmt::format("{:016x}", DigestOf(checkpoint)),
                                       StartSite("checkpoint")));
  const auto mine = static_cast<int64_t>(std::min(kernels::DetectIsa(), config_.isa_max));
  WEFT_ASSIGN_OR_RETURN(const int64_t isa, comm::Least(link, mine, StartSite("instruction set")));
  config_.isa_max = static_cast<kernels::Isa>(isa);
  WEFT_ASSIGN_OR_RETURN(neighbours_, comm::FindNeighbours(link, StartSite("neighbours")));
  return Status::Ok();
}

Status ModelInstance::AgreeOnPlans() {
  if (config_.link == nullptr) return Status::Ok();
  Hash64Stream all;
  ForEachPlan(*this, [&](const BoundPlan& bound) { all.AddValue(bound.plan.fingerprint); });
  for (const int64_t n : {int64_t{config_.page_tokens}, int64_t{config_.positions_max}})
    all.AddValue(n);
  return comm::CheckSame(*config_.link, "the plans, which follow from flags and profile",
                         fmt::format("{:016x}", all.Digest()), StartSite("plans"));
}

// A peer's memory is at the same places of its mirror as ours in our window.
Status ModelInstance::MirrorPeers(int64_t rank_arena, int64_t hidden, int64_t worker_arena,
                                  int64_t scratch) {
  if (config_.link == nullptr) return Status::Ok();
  WEFT_RETURN_IF_ERROR(
      static_cast<comm::ProcessFabric&>(*fabric_).ShareWindows(StartSite("windows")));
  for (int r = 0; r < config_.ranks; ++r) {
    if (here_.contains(r)) continue;
    if (fabric_->WindowOf(r).size() != fabric_->WindowOf(here_.begin).size()) {
      return Status::Internal("rank {} shares {} bytes, rank {} {}", r, fabric_->WindowOf(r).size(),
                              here_.begin, fabric_->WindowOf(here_.begin).size());
    }
    memory_.ranks[r].LayOut(fabric_->WindowOf(r).data(), rank_arena, hidden, worker_arena, scratch,
                            workers_);
  }
  return Status::Ok();
}

std::vector<const std::byte*> ModelInstance::PanelsOf(const Weights& weights) const {
  std::vector<const std::byte*> panels;
  const auto add = [&](const BoundPlan& bound) {
    for (int r = here_.begin; r < here_.end; ++r) {
      const auto tables = MakeRankTables(bound.plan, weights, r, config_.faults);
      for (const RankTables::OfStep& step : tables->steps) {
        panels.insert(panels.end(), step.packed.data.begin(), step.packed.data.end());
        for (const PackedTable& expert : step.experts)
          panels.insert(panels.end(), expert.data.begin(), expert.data.end());
      }
    }
  };
  ForEachPlan(*this, add);
  return panels;
}

}  // namespace weft::exec
