#include "exec/model_instance.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "exec/op_args.h"
#include "exec/rank_tables.h"
#include "graph/passes/pass.h"

namespace weft::exec {

using graph::Graph;
using graph::Op;
using plan::Bucket;
using plan::HeadMode;

namespace {

constexpr int64_t kAlign = 4096;
int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t AvailableBytes() {
  return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

}  // namespace

Status ModelInstance::Prepare(const io::Checkpoint& checkpoint, ExecConfig config, int* cores) {
  const io::ModelConfig& model_config = checkpoint.config();
  if (config.ranks < 1)
    return Status::Invalid("--tensor-parallel-size {} must be at least 1", config.ranks);
  if (config.page_tokens < 16 || config.page_tokens % 16 != 0) {
    return Status::Invalid("--block-size {} must be a positive multiple of 16", config.page_tokens);
  }
  if (config.tokens_max < 1)
    return Status::Invalid("--max-num-batched-tokens {} must be at least 1", config.tokens_max);
  if (config.seqs_max < 1)
    return Status::Invalid("--max-num-seqs {} must be at least 1", config.seqs_max);
  if (config.draft_tokens < 0)
    return Status::Invalid("{} draft tokens; at least 0", config.draft_tokens);
  if (config.positions_max == 0)
    config.positions_max = static_cast<int32_t>(model_config.max_position);
  if (config.positions_max < 1 || config.positions_max > model_config.max_position) {
    return Status::Invalid(
        "--max-model-len {} must be 1 to {}, the model's max_position_embeddings",
        config.positions_max, model_config.max_position);
  }
  config.seqs_max = std::min(config.seqs_max, config.tokens_max);
  WEFT_ASSIGN_OR_RETURN(const models::Model* model, models::FindModel(model_config));
  if (config.draft_head && (model->build_draft == nullptr || !models::HasDraftHead(checkpoint))) {
    return Status::Invalid(
        "{}: there is no draft head (mtp) to speculate with; --speculative-config "
        "'{{\"method\":\"ngram\"}}' needs none",
        checkpoint.path());
  }
  config_ = std::move(config);
  WEFT_RETURN_IF_ERROR(AgreeOnModel(checkpoint));
  WEFT_RETURN_IF_ERROR(AssignWorkers(cores));
  WEFT_RETURN_IF_ERROR(MakeFabric());
  WEFT_RETURN_IF_ERROR(BuildPlans(checkpoint, *model));
  return AgreeOnPlans();
}

Status ModelInstance::AssignWorkers(int* cores) {
  WEFT_ASSIGN_OR_RETURN(const device::Topology topology, device::DetectTopology());
  *cores = static_cast<int>(topology.cores.size());
  // The other half is for what the next steps read and write.
  ahead_bytes_ = topology.l2_bytes / 2;
  const int sharers = config_.link == nullptr ? config_.ranks : neighbours_.on_cores;
  if (config_.reference) {
    workers_ = 1;
  } else if (config_.threads > 0) {
    if (config_.threads % config_.ranks != 0) {
      return Status::Invalid("--threads {} must be a multiple of --tensor-parallel-size {}",
                             config_.threads, config_.ranks);
    }
    workers_ = config_.threads / config_.ranks;
  } else {
    workers_ = std::max(1, *cores / sharers);
  }
  if (config_.link != nullptr) {
    WEFT_ASSIGN_OR_RETURN(const int64_t least,
                          comm::Least(*config_.link, workers_, StartSite("workers")));
    workers_ = static_cast<int>(least);
  }
  WEFT_ASSIGN_OR_RETURN(cores_, device::AssignCores(topology, sharers, workers_));
  return Status::Ok();
}

Status ModelInstance::MakeFabric() {
  const int64_t spin_ns = cores_.oversubscribed ? 0 : device::kSpinNs;
  if (config_.link != nullptr) {
    config_.link->set_spin_ns(spin_ns);
    WEFT_ASSIGN_OR_RETURN(fabric_, comm::ProcessFabric::Create(
                                       config_.link, {.workers = workers_, .spin_ns = spin_ns}));
  } else {
    comm::ThreadFabric::Options options;
    options.workers.assign(config_.ranks, workers_);
    options.spin_ns = spin_ns;
    WEFT_ASSIGN_OR_RETURN(auto threads, comm::ThreadFabric::Create(options));
    flags_ = std::make_unique<fused::TileFlags>(fused::TileFlags::Options{
        .workers = options.workers, .spin_ns = spin_ns, .abort = &threads->abort()});
    fabric_ = std::move(threads);
  }
  std::vector<int> all(config_.ranks);
  for (int r = 0; r < config_.ranks; ++r) all[r] = r;
  WEFT_ASSIGN_OR_RETURN(const int group, fabric_->AddGroup(all));
  WEFT_CHECK(group == 0, "the group of all ranks is {}", group);
  return Status::Ok();
}

Result<std::unique_ptr<ModelInstance>> ModelInstance::Plan(const io::Checkpoint& checkpoint,
                                                           ExecConfig config) {
  auto self = std::make_unique<ModelInstance>();
  int cores = 0;
  WEFT_RETURN_IF_ERROR(self->Prepare(checkpoint, std::move(config), &cores));
  return self;
}

Result<std::unique_ptr<ModelInstance>> ModelInstance::Create(const io::Checkpoint& checkpoint,
                                                             ExecConfig config, LogSink* log) {
  auto self = std::make_unique<ModelInstance>();
  comm::Link* const link = config.link;
  if (Status status = self->Load(checkpoint, std::move(config), log); !status.ok()) {
    if (link != nullptr) comm::TellFailure(*link, status);
    return status;
  }
  return self;
}

Status ModelInstance::Load(const io::Checkpoint& checkpoint, ExecConfig config, LogSink* log) {
  const io::ModelConfig& model_config = checkpoint.config();
  const kernels::Isa isa = std::min(kernels::DetectIsa(), config.isa_max);
  int cores = 0;
  WEFT_RETURN_IF_ERROR(Prepare(checkpoint, std::move(config), &cores));
  if (log != nullptr && config_.link != nullptr && config_.isa_max < isa) {
    log->Info("{} instead of {}: the best that all ranks have", kernels::NameOf(config_.isa_max),
              kernels::NameOf(isa));
  }
  if (here_.contains(0)) TellSchedules(log);
  if (log != nullptr && here_.contains(0) && config_.whole_shared_expert &&
      model_config.shared_expert_intermediate_size == 0) {
    log->Warning("--enable-shared-expert-dp changes nothing: the model has no shared expert");
  }
  for (const std::string& note : unread_) {
    if (log != nullptr && here_.contains(0)) log->Info("{}", note);
  }
  std::vector<const Graph*> graphs{&bodies_[0].plan.graph, &heads_[0][0].plan.graph};
  if (has_draft_head()) graphs.push_back(&drafts_[0].plan.graph);
  Weights::Wanted wanted;
  if (config_.link != nullptr)
    wanted = [this](const Weights& weights) { return PanelsOf(weights); };
  WEFT_ASSIGN_OR_RETURN(
      weights_, Weights::Load(checkpoint, graphs, std::min(cores, 16), config_.progress, wanted));
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<double> inverse,
      models::ScaleRopeFrequencies(
          checkpoint, kernels::RopeInverseFrequencies(model_config.rope.theta,
                                                      static_cast<int>(model_config.rope.dims))));
  FillRope(inverse, config_.positions_max);
  WEFT_RETURN_IF_ERROR(AllocateMemory(checkpoint, log));
  ForEachPlan(*this, [this](BoundPlan& bound) { Bind(bound); });
  return Status::Ok();
}

std::vector<plan::SchedulePart> ModelInstance::schedules() const {
  std::vector<plan::SchedulePart> parts;
  for (const BoundPlan& body : bodies_) {
    const plan::Plan& p = body.plan;
    plan::SchedulePart part{p.bucket.rows_min, p.bucket.rows_max, p.schedule, p.schedule_note, {}};
    if (config_.schedule.automatic)
      part.note = "the cheapest by the cost table";  // explain has the figures
    for (const graph::PassReport& r : p.passes) {
      if (!r.asked) continue;
      part.rewrites.push_back({r.name, r.rewrites});
      if (r.rewrites == 0)
        part.note += fmt::format("{}{} applied 0 times: {}", part.note.empty() ? "" : "; ", r.name,
                                 r.refusal);
    }
    // Below a threshold the reason names the rows; the last one tells it for all of them.
    if (!parts.empty() && parts.back().schedule == part.schedule &&
        parts.back().rewrites == part.rewrites && parts.back().note.empty() == part.note.empty()) {
      parts.back().rows_max = part.rows_max;
      parts.back().note = part.note;
    } else {
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

// A schedule that was asked for: where it is taken, why not elsewhere, and what of it found nothing
// to do.
void ModelInstance::TellSchedules(LogSink* log) const {
  if (log == nullptr || config_.schedule == plan::ScheduleConfig{}) return;
  for (const plan::SchedulePart& part : schedules()) {
    log->Info("schedule {}: rows {} to {}: {}{}{}", plan::Describe(config_.schedule), part.rows_min,
              part.rows_max, part.schedule, part.note.empty() ? "" : ": ", part.note);
  }
}

void ModelInstance::FillRope(const std::vector<double>& inverse, int64_t positions) {
  const int64_t half = static_cast<int64_t>(inverse.size());
  rope_.resize(static_cast<size_t>(2 * positions * half));
  kernels::FillRopeTable(inverse, positions, rope_.data(), rope_.data() + positions * half);
  memory_.rope_cos = rope_.data();
  memory_.rope_sin = rope_.data() + positions * half;
}

Status ModelInstance::AllocateMemory(const io::Checkpoint& checkpoint, LogSink* log) {
  const int ranks = config_.ranks;
  int64_t rank_arena = 0, worker_arena = 0, scratch = 0;
  const auto measure = [&](const BoundPlan& bound) {
    rank_arena = std::max(rank_arena, bound.plan.rank_arena_bytes);
    worker_arena = std::max(worker_arena, bound.plan.worker_arena_bytes);
    scratch = std::max(scratch, ScratchBytes(bound.plan));
  };
  ForEachPlan(*this, measure);
  rank_arena = RoundUp(rank_arena, kAlign);
  worker_arena = RoundUp(worker_arena, kAlign);
  scratch = RoundUp(scratch, kAlign);

  // KV: bytes of one page over all layers, per rank.
  int64_t page_bytes = 0, page_bytes_here = 0;
  const Graph& g = bodies_[0].plan.graph;
  std::vector<std::vector<int64_t>> layer_page_bytes(ranks, std::vector<int64_t>(layers_, 0));
  const auto add_kv = [&](const Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (node.op != Op::kKvWrite) continue;
      for (int r = 0; r < ranks; ++r) {
        kernels::KvLayout layout = KvWriteShape(graph, node, 1, r).kv;
        layout.page_tokens = config_.page_tokens;
        layer_page_bytes[r][KvLayerOf(graph.value(node.in[0]))] = layout.page_bytes();
        page_bytes += layout.page_bytes();
        if (here_.contains(r)) page_bytes_here += layout.page_bytes();
      }
    }
  };
  add_kv(g);
  if (has_draft_head()) add_kv(drafts_[0].plan.graph);
  // Recurrent states: bytes of one slot of each, per rank.
  std::vector<std::vector<int64_t>> slot_bytes(ranks);
  int64_t slot_bytes_here = 0;
  for (const graph::Node& node : g.nodes) {
    if (node.op != Op::kCausalConv && node.op != Op::kGatedDelta) continue;
    memory_.states.push_back(g.value(node.in[0]).name);
    for (int r = 0; r < ranks; ++r) {
      slot_bytes[r].push_back(RoundUp(StateSlotBytes(g, node, r, config_.draft_tokens), 64));
      if (here_.contains(r)) slot_bytes_here += slot_bytes[r].back();
    }
  }
  memory_.log_rows = config_.draft_tokens;
  if (config_.state_checkpoints == kCheckpointsByMemory) {
    const int64_t room =
        AvailableBytes() / 10 / std::max<int64_t>(slot_bytes_here * neighbours_.on_host, 1);
    int64_t slots_of_prefixes =
        memory_.states.empty() ? 0 : std::min<int64_t>(config_.seqs_max, room);
    if (config_.link != nullptr) {
      WEFT_ASSIGN_OR_RETURN(slots_of_prefixes, comm::Least(*config_.link, slots_of_prefixes,
                                                           StartSite("state checkpoints")));
    }
    config_.state_checkpoints = static_cast<int32_t>(slots_of_prefixes);
  }
  // Slot 0 is nobody's.
  const int32_t slots =
      memory_.states.empty() ? 0 : config_.seqs_max + 1 + config_.state_checkpoints;
  if (slots * slot_bytes_here * neighbours_.on_host > AvailableBytes() / 2) {
    return Status::Exhausted(
        "recurrent states take {}, {} for each of --max-num-seqs {} and --state-checkpoints {}; {} "
        "are free",
        device::FormatBytes(slots * slot_bytes_here), device::FormatBytes(slot_bytes_here),
        config_.seqs_max, config_.state_checkpoints, device::FormatBytes(AvailableBytes()));
  }

  const int64_t pages_per_request =
      (config_.positions_max + config_.page_tokens - 1) / config_.page_tokens;
  int64_t pages = 0;
  if (config_.kv_bytes > 0) {
    pages = config_.kv_bytes / std::max<int64_t>(page_bytes, 1);
    if (pages < 2) {
      return Status::Invalid(
          "--kv-cache-memory-bytes {} holds no block; one of {} tokens takes {} bytes over {} "
          "layers",
          config_.kv_bytes, config_.page_tokens, page_bytes, layers_);
    }
  } else {
    // Enough for one full-length request, and for every row up to half of what is free.
    const int64_t wanted = int64_t{config_.seqs_max} * pages_per_request;
    const int64_t room =
        AvailableBytes() / 2 / std::max<int64_t>(page_bytes_here * neighbours_.on_host, 1);
    pages = std::max(std::min(wanted, room), std::min<int64_t>(pages_per_request, room)) + 1;
    if (room < 1)
      return Status::Exhausted(
          "no memory for the KV cache: {} bytes free; --kv-cache-memory-bytes sets its size",
          AvailableBytes());
  }
  pages = std::min<int64_t>(pages, int64_t{config_.seqs_max} * pages_per_request + 1);
  pages = std::min<int64_t>(pages, INT32_MAX / config_.page_tokens);
  if (config_.link != nullptr) {
    WEFT_ASSIGN_OR_RETURN(pages, comm::Least(*config_.link, pages, StartSite("KV blocks")));
  }

  limits_.vocab_size = static_cast<int32_t>(checkpoint.config().vocab_size);
  limits_.tokens_max = config_.tokens_max;
  limits_.seqs_max = config_.seqs_max;
  limits_.draft_tokens = config_.draft_tokens;
  limits_.draft_head = has_draft_head();
  limits_.positions_max = config_.positions_max;
  limits_.page_tokens = config_.page_tokens;
  limits_.pages = static_cast<int32_t>(pages);
  limits_.states = slots;

  memory_.page_tokens = config_.page_tokens;
  memory_.ranks.resize(ranks);
  units_.assign(ranks, std::vector<UnitCounts>(workers_));
  const int64_t hidden = RoundUp(int64_t{config_.tokens_max} * hidden_bytes_, kAlign);
  for (int r = here_.begin; r < here_.end; ++r) {
    RankMemory& rank = memory_.ranks[r];
    const int node = CoresOf(r).node;
    const int64_t work = rank_arena + hidden + workers_ * (worker_arena + scratch);
    WEFT_ASSIGN_OR_RETURN(device::Memory arena,
                          device::Memory::Allocate(work, node, fmt::format("arena of rank {}", r)));
    rank.LayOut(arena.data(), rank_arena, hidden, worker_arena, scratch, workers_);
    rank.units = units_[r].data();
    fabric_->SetWindow(r, arena.span());
    int64_t kv = 0, states = 0;
    for (int64_t bytes : slot_bytes[r]) states += bytes * slots;
    if (states > 0) {
      WEFT_ASSIGN_OR_RETURN(
          device::Memory pool,
          device::Memory::Allocate(states, node, fmt::format("recurrent states of rank {}", r)));
      std::byte* next = pool.data();
      for (int64_t bytes : slot_bytes[r]) {
        rank.states.push_back(next);
        rank.slot_bytes.push_back(bytes);
        next += bytes * slots;
      }
      regions_.push_back(std::move(pool));
    }
    for (int64_t bytes : layer_page_bytes[r]) kv += RoundUp(bytes * pages, 64);
    WEFT_ASSIGN_OR_RETURN(device::Memory pool,
                          device::Memory::Allocate(std::max<int64_t>(kv, 1), node,
                                                   fmt::format("KV cache of rank {}", r)));
    std::byte* next = pool.data();
    for (int64_t bytes : layer_page_bytes[r]) {
      rank.kv_layers.push_back(next);
      next += RoundUp(bytes * pages, 64);
    }
    if (log != nullptr) {
      log->Info("rank {}: weights {}{}, KV {} ({} blocks of {} tokens), {}arena {}", r,
                device::FormatBytes(weights_->bytes()), config_.link == nullptr ? " shared" : "",
                device::FormatBytes(kv), pages - 1, config_.page_tokens,
                states == 0
                    ? ""
                    : fmt::format("states {} ({} slots), ", device::FormatBytes(states), slots - 1),
                device::FormatBytes(work));
    }
    regions_.push_back(std::move(arena));
    regions_.push_back(std::move(pool));
  }
  return MirrorPeers(rank_arena, hidden, worker_arena, scratch);
}

void ModelInstance::Bind(BoundPlan& bound) {
  const plan::Plan& p = bound.plan;
  const graph::Uses uses(p.graph);
  bound.runners.resize(config_.ranks);
  bound.ahead.resize(config_.ranks);
  bound.posts.assign(p.steps.size(), -1);
  for (size_t s = 0; s < p.steps.size(); ++s) {
    if (const int behind = p.steps[s].posted_behind; behind >= 0)
      bound.posts[static_cast<size_t>(behind)] = static_cast<int>(s);
  }
  for (int r = here_.begin; r < here_.end; ++r) {
    bound.tables.push_back(MakeRankTables(p, *weights_, r, config_.faults));
    bound.runners[r].resize(workers_);
    bound.ahead[r].resize(workers_);
    for (int w = 0; w < workers_; ++w) {
      const BindContext context{&p,
                                &uses,
                                weights_.get(),
                                &memory_,
                                fabric_.get(),
                                flags_.get(),
                                config_.link != nullptr,
                                &config_.faults,
                                r,
                                w};
      for (size_t s = 0; s < p.steps.size(); ++s)
        bound.runners[r][w].push_back(BindStep(context, *bound.tables.back(), s));
      BindAhead(context, bound);
    }
  }
  if (p.bucket.kind != Bucket::Kind::kHead) return;
  if (p.bucket.mode == HeadMode::kGreedy) {
    const plan::Layout& layout = p.layouts[p.graph.outputs[0]];
    bound.pairs =
        reinterpret_cast<const kernels::ValueIndex*>(memory_.ranks[0].arena + layout.offset);
    return;
  }
  for (const graph::Node& node : p.graph.nodes) {
    if (node.op != Op::kSample) continue;
    bound.logits =
        reinterpret_cast<const float*>(memory_.ranks[0].arena + p.layouts[node.in[0]].offset);
  }
}

void ModelInstance::BindAhead(const BindContext& context, BoundPlan& bound) const {
  // Who shares a core has to leave it while it waits.
  if (config_.reference || cores_.oversubscribed || ahead_bytes_ == 0) return;
  auto& ahead = bound.ahead[context.rank][context.worker];
  ahead.resize(bound.plan.steps.size());
  for (const plan::Step& step : bound.plan.steps) {
    if (step.fetches < 0) continue;
    const auto of = static_cast<size_t>(step.fetches);
    if (ahead[of].empty())
      ahead[of] = FirstWeights(context, *bound.tables.back(), of, ahead_bytes_);
  }
}

int64_t ModelInstance::kv_bytes() const {
  int64_t bytes = 0;
  for (const device::Memory& m : regions_) bytes += m.name().starts_with("KV") ? m.bytes() : 0;
  return bytes;
}

int64_t ModelInstance::units(int rank, graph::Op op) const {
  int64_t units = 0;
  for (const UnitCounts& worker : units_[rank]) units += worker.of_op[static_cast<size_t>(op)];
  return units;
}

int64_t ModelInstance::arena_bytes() const {
  int64_t bytes = 0;
  for (const device::Memory& m : regions_) bytes += m.name().starts_with("arena") ? m.bytes() : 0;
  return bytes;
}

Status ModelInstance::Check(const plan::StepInputs& in) const {
  const auto tokens = static_cast<int64_t>(in.ids.size());
  if (tokens < 1 || tokens > limits_.tokens_max)
    return Status::Invalid("a step of {} tokens; 1 to {}", tokens, limits_.tokens_max);
  if (in.positions.size() != in.ids.size() || in.slots.size() != in.ids.size())
    return Status::Invalid("ids, positions and slots differ in length");
  if (in.head_rows.size() > static_cast<size_t>(limits_.rows_max))
    return Status::Invalid("{} head rows; at most {}", in.head_rows.size(), limits_.rows_max);
  const int64_t slots = int64_t{limits_.pages} * limits_.page_tokens;
  for (int64_t t = 0; t < tokens; ++t) {
    if (in.ids[t] < 0 || in.ids[t] >= limits_.vocab_size)
      return Status::Invalid("token id {} of row {} is not in [0, {})", in.ids[t], t,
                             limits_.vocab_size);
    if (in.positions[t] < 0 || in.positions[t] >= limits_.positions_max)
      return Status::Invalid("position {} of row {} is not in [0, {})", in.positions[t], t,
                             limits_.positions_max);
    if (in.slots[t] < limits_.page_tokens || in.slots[t] >= slots)
      return Status::Invalid("slot {} of row {} is not in [{}, {})", in.slots[t], t,
                             limits_.page_tokens, slots);
  }
  for (const plan::StateCopy& copy : in.state_copies) {
    for (const int32_t slot : {copy.from, copy.to}) {
      if (slot < 1 || slot >= limits_.states)
        return Status::Invalid("state {} of a copy is not in [1, {})", slot, limits_.states);
    }
  }
  int64_t next = 0;
  for (const Segment& s : in.segments) {
    const int64_t keys = int64_t{s.position_begin} + s.rows;
    if (s.row_begin != next || s.rows < 1 || s.position_begin < 0 || s.page_count < 0 ||
        int64_t{s.page_count} * limits_.page_tokens < keys) {
      return Status::Invalid("segment at row {}: {} rows from position {} with {} pages",
                             s.row_begin, s.rows, s.position_begin, s.page_count);
    }
    if (limits_.states > 0) {
      if (s.state < 1 || s.state >= limits_.states)
        return Status::Invalid("state {} of the segment at row {} is not in [1, {})", s.state,
                               s.row_begin, limits_.states);
      if (s.replay < 0 || s.replay > config_.draft_tokens || s.logged < 0 ||
          s.logged > std::min(config_.draft_tokens, s.rows)) {
        return Status::Invalid("segment at row {}: {} rows replayed, {} of {} logged; a log has {}",
                               s.row_begin, s.replay, s.logged, s.rows, config_.draft_tokens);
      }
    }
    for (int32_t p = 0; p < s.page_count; ++p) {
      if (s.pages[p] < 0 || s.pages[p] >= limits_.pages)
        return Status::Invalid("page {} is not in [0, {})", s.pages[p], limits_.pages);
    }
    next += s.rows;
  }
  if (next != tokens) return Status::Invalid("segments cover {} of {} rows", next, tokens);
  for (int32_t row : in.head_rows) {
    if (row < 0 || row >= tokens)
      return Status::Invalid("head row {} is not in [0, {})", row, tokens);
  }
  if (in.mode == HeadMode::kSample && in.sample.size() != in.head_rows.size())
    return Status::Invalid("{} sample rows for {} head rows", in.sample.size(),
                           in.head_rows.size());
  if (in.top_logprobs < 0 || in.top_logprobs > limits_.top_logprobs_max)
    return Status::Invalid("top_logprobs {} is not in [0, {}]", in.top_logprobs,
                           limits_.top_logprobs_max);
  return Status::Ok();
}

}  // namespace weft::exec
