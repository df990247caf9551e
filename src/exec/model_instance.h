// A model made ready to run on this machine: graphs, plans for every bucket, packed weights, KV
// pools and arenas of all ranks, and every plan's steps bound for every worker. The two executors
// (rank teams; virtual ranks in plain order) only differ in how they walk it.
//
// Thread: Create() at start; afterwards it belongs to the executor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "comm/agree.h"
#include "comm/fabric.h"
#include "comm/process_fabric.h"
#include "device/memory.h"
#include "device/topology.h"
#include "exec/cpu_target.h"
#include "exec/faults.h"
#include "exec/runner.h"
#include "exec/weights.h"
#include "io/checkpoint.h"
#include "models/model.h"
#include "plan/plan.h"
#include "plan/schedule.h"

namespace weft::exec {

// As many states of prefixes as seqs_max, and as a tenth of the free memory holds.
inline constexpr int32_t kCheckpointsByMemory = -1;

// --tensor-parallel-size, --dtype, --max-num-batched-tokens, ... as main() has read them.
struct ExecConfig {
  int ranks = 1;
  int threads = 0;  // workers of all ranks; 0: every core, at least one a rank
  DType model_dtype = DType::kBF16;
  bool int8_activations = true;
  bool whole_shared_expert = false;  // --enable-shared-expert-dp
  int32_t tokens_max = 2048;
  int32_t seqs_max = 128;     // --max-num-seqs; a step has 1 + draft_tokens head rows for each
  int32_t draft_tokens = 0;   // rows of a sequence's step that a later one may take back
  bool draft_head = false;    // the checkpoint's own, for Executor::Draft
  int32_t positions_max = 0;  // 0: the model's
  int32_t page_tokens = 16;
  int32_t state_checkpoints = 0;  // slots for recurrent states of prefixes
  int64_t kv_bytes = 0;           // 0: what positions_max and seqs_max need, bounded by memory
  int32_t each_rows_max = 8;      // chain_steps
  plan::CompileOptions compile;
  plan::ScheduleConfig schedule;
  plan::CostTable costs = DefaultCosts();  // --profile
  std::map<std::string, std::string, std::less<>> impl;
  kernels::Isa isa_max = kernels::kIsaMax;
  bool reference = false;  // contracts only
  int64_t wait_timeout_ns = 60'000'000'000;
  comm::Link* link = nullptr;  // outlives the instance; this process is one of its ranks
  std::function<void(int64_t done, int64_t total)> progress;
  ExecFaults faults;  // tests only
};

// Ranks [begin, end) that live in this process: all, or one of a link's.
struct RankRange {
  int begin = 0, end = 1;
  bool contains(int rank) const { return rank >= begin && rank < end; }
  int count() const { return end - begin; }
};

struct BoundPlan {
  plan::Plan plan;
  // [rank][worker][step]; of ranks in other processes there are none
  std::vector<std::vector<std::vector<std::unique_ptr<Runner>>>> runners;
  std::vector<std::shared_ptr<RankTables>> tables;  // [rank]
  // [rank][worker][step] of a matmul that a wait fetches for (plan::Step::fetches): its first
  // weights.
  using Pieces = std::vector<std::span<const std::byte>>;
  std::vector<std::vector<std::vector<Pieces>>> ahead;
  std::vector<int> posts;  // [step] the one that is posted behind it, or -1
  // Where the greedy head's pairs, or the sampling head's logits [rows, V], stand on rank 0.
  const kernels::ValueIndex* pairs = nullptr;
  const float* logits = nullptr;
};

class ModelInstance {
 public:
  static Result<std::unique_ptr<ModelInstance>> Create(const io::Checkpoint& checkpoint,
                                                       ExecConfig config, LogSink* log);

  // Cores and plans alone: what `weft explain` prints. Nothing can be run.
  static Result<std::unique_ptr<ModelInstance>> Plan(const io::Checkpoint& checkpoint,
                                                     ExecConfig config);

  const ExecConfig& config() const { return config_; }
  const plan::ExecutorLimits& limits() const { return limits_; }
  RankRange ranks_here() const { return here_; }
  // Of the ranks that share this process' cores.
  const device::CoreAssignment& cores() const { return cores_; }
  // REQUIRES: the rank lives here.
  const device::RankCores& CoresOf(int rank) const {
    return cores_.ranks[config_.link == nullptr ? rank : neighbours_.place_on_cores];
  }
  int workers_per_rank() const { return workers_; }
  comm::Fabric& fabric() { return *fabric_; }
  const comm::Fabric& fabric() const { return *fabric_; }
  const ExecMemory& memory() const { return memory_; }
  // The plan whose bucket holds this many rows.
  BoundPlan& body(int32_t tokens) { return bodies_[plan::LadderIndex(body_ladder_, tokens)]; }
  BoundPlan& head(int32_t rows, plan::HeadMode mode, bool hash) {
    return heads_[HeadIndex(mode, hash)][plan::LadderIndex(head_ladder_, rows)];
  }
  // Of the draft head: its body over rows of the model's body or over its own, and what makes ids
  // of them.
  BoundPlan& draft(bool first, int32_t tokens) {
    return first ? drafts_[plan::LadderIndex(body_ladder_, tokens)]
                 : redrafts_[plan::LadderIndex(draft_ladder_, tokens)];
  }
  BoundPlan& draft_head(int32_t rows, plan::HeadMode mode) {
    return draft_heads_[HeadIndex(mode, false)][plan::LadderIndex(draft_ladder_, rows)];
  }
  const plan::Plan& draft_plan(bool first, int32_t tokens) const {
    return first ? drafts_[plan::LadderIndex(body_ladder_, tokens)].plan
                 : redrafts_[plan::LadderIndex(draft_ladder_, tokens)].plan;
  }
  const plan::Plan& draft_head_plan(int32_t rows, plan::HeadMode mode) const {
    return draft_heads_[HeadIndex(mode, false)][plan::LadderIndex(draft_ladder_, rows)].plan;
  }
  bool has_draft_head() const { return !drafts_.empty(); }
  int64_t hidden_row_bytes() const { return hidden_bytes_; }
  const plan::Plan& body_plan(int32_t tokens) const {
    return bodies_[plan::LadderIndex(body_ladder_, tokens)].plan;
  }
  const plan::Plan& head_plan(int32_t rows, plan::HeadMode mode, bool hash) const {
    return heads_[HeadIndex(mode, hash)][plan::LadderIndex(head_ladder_, rows)].plan;
  }
  const std::string& bodies_target() const { return bodies_[0].plan.target; }
  const std::vector<BoundPlan>& bodies() const { return bodies_; }
  // Of everything that may run.
  void VisitPlans(const std::function<void(const plan::Plan&)>& visit) const {
    ForEachPlan(*this, [&](const BoundPlan& bound) { visit(bound.plan); });
  }
  std::vector<plan::SchedulePart> schedules() const;
  int64_t weight_bytes() const { return weights_->bytes(); }
  int64_t kv_bytes() const;
  int64_t arena_bytes() const;
  // Units of an op's kernel that a rank has run since start. REQUIRES: no step is running.
  int64_t units(int rank, graph::Op op) const;
  // Errors: kInvalid naming what is out of which limit.
  Status Check(const plan::StepInputs& inputs) const;

 private:
  static int HeadIndex(plan::HeadMode mode, bool hash) {
    return (mode == plan::HeadMode::kSample ? 1 : 0) + (hash ? 2 : 0);
  }
  Status Prepare(const io::Checkpoint& checkpoint, ExecConfig config, int* cores);
  Status Load(const io::Checkpoint& checkpoint, ExecConfig config, LogSink* log);
  Status AssignWorkers(int* cores);
  Status MakeFabric();
  // Loading may take its time on one rank, and all others wait for it.
  static device::WaitSite StartSite(const char* what);
  // What ranks in processes of their own must have in common; nothing for others.
  Status AgreeOnModel(const io::Checkpoint& checkpoint);
  Status AgreeOnPlans();
  Status BuildPlans(const io::Checkpoint& checkpoint, const models::Model& model);
  struct Recipe;  // what all plans have in common
  Status BuildBodies(const Recipe& recipe, const graph::Graph& body,
                     std::span<const plan::Bucket> ladder, std::vector<BoundPlan>* out) const;
  Status BuildDrafts(const Recipe& recipe, const io::Checkpoint& checkpoint,
                     const models::Model& model, const models::ModelOptions& options,
                     std::vector<graph::Graph>* read);
  Status BuildHeads(const Recipe& recipe, const graph::Graph& head,
                    std::span<const plan::Bucket> ladder, plan::HeadMode mode, bool hash,
                    std::vector<BoundPlan>* out) const;
  Status AllocateMemory(const io::Checkpoint& checkpoint, LogSink* log);
  void TellSchedules(LogSink* log) const;
  void FillRope(const std::vector<double>& inverse, int64_t positions);
  Status MirrorPeers(int64_t rank_arena, int64_t hidden, int64_t worker_arena, int64_t scratch);
  // Panels of packed weights that this process' ranks use.
  std::vector<const std::byte*> PanelsOf(const Weights& weights) const;
  void Bind(BoundPlan& bound);
  void BindAhead(const BindContext& context, BoundPlan& bound) const;
  // Every plan that there is, as BoundPlan&.
  template <typename Self, typename Visit>
  static void ForEachPlan(Self& self, const Visit& visit) {
    for (auto* list :
         {&self.bodies_, &self.heads_[0], &self.heads_[1], &self.heads_[2], &self.heads_[3],
          &self.drafts_, &self.redrafts_, &self.draft_heads_[0], &self.draft_heads_[1]}) {
      for (auto& bound : *list) visit(bound);
    }
  }

  ExecConfig config_;
  std::vector<std::string> unread_;  // what of the files no graph reads
  plan::ExecutorLimits limits_;
  device::CoreAssignment cores_;
  int workers_ = 1;
  int64_t ahead_bytes_ = 0;  // that a waiting worker fetches at most
  RankRange here_;
  comm::Neighbours neighbours_;
  std::unique_ptr<comm::Fabric> fabric_;
  std::unique_ptr<fused::TileFlags> flags_;  // of fused steps; nullptr where ranks are processes
  std::unique_ptr<Weights> weights_;
  std::vector<plan::Bucket> body_ladder_, head_ladder_, draft_ladder_;
  std::vector<BoundPlan> bodies_;          // by body_ladder_
  std::vector<BoundPlan> heads_[4];        // by head_ladder_
  std::vector<BoundPlan> drafts_;          // by body_ladder_
  std::vector<BoundPlan> redrafts_;        // by draft_ladder_
  std::vector<BoundPlan> draft_heads_[2];  // likewise
  std::vector<device::Memory> regions_;
  std::vector<int64_t> kv_page_bytes_;  // [ranks] of all layers
  std::vector<float> rope_;
  std::vector<std::vector<UnitCounts>> units_;  // [ranks][workers]
  int64_t layers_ = 0, hidden_bytes_ = 0;
  ExecMemory memory_;
};

}  // namespace weft::exec
