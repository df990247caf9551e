// The plans of a model: of its body for every bucket, of its heads, and of its draft head.
#include <fmt/format.h>

#include <algorithm>

#include "exec/model_instance.h"
#include "graph/builder.h"
#include "graph/passes/pass.h"
#include "plan/choose_schedule.h"

namespace weft::exec {

using graph::Graph;
using plan::Bucket;
using plan::HeadMode;

struct ModelInstance::Recipe {
  const CpuTarget& target;
  graph::ExpandOptions expand;
};

Status ModelInstance::BuildPlans(const io::Checkpoint& checkpoint, const models::Model& model) {
  CpuTargetOptions target_options;
  target_options.isa = std::min(kernels::DetectIsa(), config_.isa_max);
  target_options.workers_per_rank = workers_;
  target_options.each_rows_max = config_.each_rows_max;
  target_options.impl = config_.impl;
  target_options.reference = config_.reference;
  target_options.costs = config_.costs;
  for (const auto& [family, name] : config_.impl) {
    const auto families = CpuTarget::Families();
    const auto known = families.find(family);
    if (known == families.end())
      return Status::Invalid("--impl {}={}: no such family", family, name);
    if (std::find(known->second.begin(), known->second.end(), name) == known->second.end()) {
      return Status::Invalid("--impl {}={}: the family has {}", family, name,
                             fmt::join(known->second, ", "));
    }
  }
  const CpuTarget target(target_options);
  const models::ModelOptions options{config_.model_dtype, config_.int8_activations,
                                     config_.whole_shared_expert};
  config_.compile.shared_memory = config_.link == nullptr;
  // A method that was named is the method of a step of its own; a fault breaks the partials of one.
  if (config_.impl.contains("all_reduce") || config_.faults.bf16_partials) {
    for (const char* pass : {"fuse_matmul_all_reduce_norm", "fuse_matmul_reduce_scatter"}) {
      config_.compile.switches.try_emplace(pass, graph::Switch::kOff);
    }
  }
  layers_ = checkpoint.config().layers + (config_.draft_head ? 1 : 0);
  hidden_bytes_ = checkpoint.config().hidden_size * FactsOf(config_.model_dtype).block_bytes;
  WEFT_RETURN_IF_ERROR(plan::CheckSchedule(config_.schedule, config_.ranks));
  const int32_t rows_max = static_cast<int32_t>(std::min<int64_t>(
      config_.tokens_max, int64_t{config_.seqs_max} * (1 + config_.draft_tokens)));
  limits_.rows_max = rows_max;
  body_ladder_ =
      plan::Ladder(Bucket::Kind::kBody, config_.tokens_max, plan::LadderCuts(config_.schedule));
  head_ladder_ = plan::Ladder(Bucket::Kind::kHead, rows_max);
  const Recipe recipe{target, {config_.int8_activations}};

  WEFT_ASSIGN_OR_RETURN(const Graph body, model.build_body(checkpoint, options));
  std::vector<Graph> read{body};
  WEFT_RETURN_IF_ERROR(BuildBodies(recipe, body, body_ladder_, &bodies_));
  for (const HeadMode mode : {HeadMode::kGreedy, HeadMode::kSample}) {
    for (const bool hash : {false, true}) {
      WEFT_ASSIGN_OR_RETURN(const Graph head, model.build_head(checkpoint, options,
                                                               {mode == HeadMode::kSample, hash}));
      if (read.size() == 1) read.push_back(head);
      WEFT_RETURN_IF_ERROR(
          BuildHeads(recipe, head, head_ladder_, mode, hash, &heads_[HeadIndex(mode, hash)]));
    }
  }
  if (config_.draft_head)
    WEFT_RETURN_IF_ERROR(BuildDrafts(recipe, checkpoint, model, options, &read));
  std::vector<const Graph*> graphs;
  for (const Graph& graph : read) graphs.push_back(&graph);
  return models::CheckAllUsed(checkpoint, graphs, &unread_);
}

Status ModelInstance::BuildBodies(const Recipe& recipe, const Graph& body,
                                  std::span<const Bucket> ladder,
                                  std::vector<BoundPlan>* out) const {
  const Graph expanded = graph::Expand(body, recipe.expand);
  std::vector<Graph> placed;  // one a mesh
  const auto compile = [&](const Bucket& bucket,
                           const plan::BucketSchedule& row) -> Result<plan::Plan> {
    auto on_mesh = std::find_if(placed.begin(), placed.end(),
                                [&](const Graph& g) { return g.mesh == row.mesh; });
    if (on_mesh == placed.end()) {
      WEFT_ASSIGN_OR_RETURN(Graph fresh, graph::InsertCollectives(expanded, row.mesh));
      on_mesh = placed.insert(placed.end(), std::move(fresh));
    }
    plan::CompileOptions options = config_.compile;
    options.schedule = NameOf(row.schedule);
    options.schedule_note = row.reason;
    // What --opt says of a pass goes before what the schedule wants of it.
    options.switches.insert(row.switches.begin(), row.switches.end());
    return plan::Compile(*on_mesh, bucket, recipe.target, options);
  };
  const std::vector<plan::BucketSchedule> candidates = plan::CandidatesFor(config_.ranks);
  for (const Bucket& bucket : ladder) {
    if (config_.schedule.automatic) {
      WEFT_ASSIGN_OR_RETURN(
          out->emplace_back().plan,
          plan::CompileCheapest(candidates, bucket, config_.costs,
                                [&](const auto& row) { return compile(bucket, row); }));
    } else {
      WEFT_ASSIGN_OR_RETURN(
          out->emplace_back().plan,
          compile(bucket, plan::ScheduleFor(config_.schedule, config_.ranks, bucket)));
    }
  }
  return Status::Ok();
}

Status ModelInstance::BuildHeads(const Recipe& recipe, const Graph& head,
                                 std::span<const Bucket> ladder, HeadMode mode, bool hash,
                                 std::vector<BoundPlan>* out) const {
  WEFT_ASSIGN_OR_RETURN(
      const Graph placed,
      graph::InsertCollectives(graph::Expand(head, recipe.expand), graph::Mesh::Tp(config_.ranks)));
  for (Bucket bucket : ladder) {
    bucket.kind = Bucket::Kind::kHead;
    bucket.mode = mode;
    bucket.hash_logits = hash;
    WEFT_ASSIGN_OR_RETURN(out->emplace_back().plan,
                          plan::Compile(placed, bucket, recipe.target, config_.compile));
  }
  return Status::Ok();
}

Status ModelInstance::BuildDrafts(const Recipe& recipe, const io::Checkpoint& checkpoint,
                                  const models::Model& model, const models::ModelOptions& options,
                                  std::vector<Graph>* read) {
  draft_ladder_ =
      plan::Ladder(Bucket::Kind::kBody, config_.seqs_max, plan::LadderCuts(config_.schedule));
  WEFT_ASSIGN_OR_RETURN(const Graph first,
                        model.build_draft(checkpoint, options, models::DraftInput::kBody));
  WEFT_ASSIGN_OR_RETURN(const Graph next,
                        model.build_draft(checkpoint, options, models::DraftInput::kDraft));
  WEFT_RETURN_IF_ERROR(BuildBodies(recipe, first, body_ladder_, &drafts_));
  WEFT_RETURN_IF_ERROR(BuildBodies(recipe, next, draft_ladder_, &redrafts_));
  for (const HeadMode mode : {HeadMode::kGreedy, HeadMode::kSample}) {
    WEFT_ASSIGN_OR_RETURN(const Graph head,
                          model.build_head(checkpoint, options,
                                           {.sample = mode == HeadMode::kSample, .normed = true}));
    WEFT_RETURN_IF_ERROR(BuildHeads(recipe, head, draft_ladder_, mode, false,
                                    &draft_heads_[HeadIndex(mode, false)]));
  }
  read->push_back(first);
  return Status::Ok();
}

}  // namespace weft::exec
