#include "exec/rank_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "device/team.h"
#include "exec/step_message.h"
#include "kernels/float_env.h"

namespace weft::exec {

using plan::HeadMode;
using plan::StepInputs;
using plan::StepOutputs;
using plan::Wait;

namespace {

class InstanceExecutor : public plan::Executor {
 public:
  explicit InstanceExecutor(std::unique_ptr<ModelInstance> instance)
      : instance_(std::move(instance)) {}
  const plan::ExecutorLimits& limits() const override { return instance_->limits(); }
  const ModelInstance& instance() const { return *instance_; }
  std::span<const float> logits(int32_t row) const {
    WEFT_CHECK(head_ != nullptr && head_->logits != nullptr, "the last step sampled nothing");
    const auto vocab = static_cast<size_t>(limits().vocab_size);
    return {head_->logits + row * vocab, vocab};
  }

  plan::FabricCounts fabric_counts() const override {
    plan::FabricCounts counts;
    for (int k = 0; k < comm::kCollectives; ++k) {
      const auto kind = static_cast<comm::Collective>(k);
      const comm::Traffic traffic = instance_->fabric().TrafficOf(kind);
      if (traffic.calls == 0) continue;
      // Each rank here counts its call; people count exchanges.
      counts.kinds.push_back({std::string(NameOf(kind)),
                              traffic.calls / instance_->ranks_here().count(), traffic.bytes});
    }
    return counts;
  }

  std::vector<plan::SchedulePart> schedules() const override { return instance_->schedules(); }

  Status Run(const StepInputs& inputs, StepOutputs* outputs) override {
    WEFT_RETURN_IF_ERROR(broken_);
    WEFT_RETURN_IF_ERROR(instance_->Check(inputs));
    const auto tokens = static_cast<int32_t>(inputs.ids.size()),
               rows = static_cast<int32_t>(inputs.head_rows.size());
    body_ = &instance_->body(tokens);
    head_ = rows == 0 ? nullptr : &instance_->head(rows, inputs.mode, inputs.hash_logits);
    draft_ = nullptr;
    picked_ = {};
    return RunPlans(inputs, outputs);
  }

  Status Draft(const plan::DraftInputs& inputs, StepOutputs* outputs) override {
    WEFT_RETURN_IF_ERROR(broken_);
    if (!instance_->has_draft_head()) return Status::Unsupported("there is no draft head");
    WEFT_RETURN_IF_ERROR(instance_->Check(inputs.step));
    WEFT_RETURN_IF_ERROR(CheckPicked(inputs));
    const auto tokens = static_cast<int32_t>(inputs.step.ids.size()),
               rows = static_cast<int32_t>(inputs.step.head_rows.size());
    body_ = &instance_->draft(inputs.first, tokens);
    head_ = rows == 0 ? nullptr : &instance_->draft_head(rows, inputs.step.mode);
    draft_ = &inputs;
    picked_ = inputs.rows;
    // All from the first on stand where they are wanted.
    if (picked_.back() + 1 == tokens) picked_ = {};
    return RunPlans(inputs.step, outputs);
  }

 protected:
  // Tells ranks in other processes what comes.
  virtual Status TakeAlong(const StepInputs&) { return Status::Ok(); }
  virtual Status Walk() = 0;

  // Moves the hidden rows that a draft step reads to the front, a worker its share of each row.
  // They ascend, so that none is overwritten before it is moved.
  void PickRows(const RankMemory& memory, int worker, int workers) const {
    const int64_t bytes = instance_->hidden_row_bytes();
    const kernels::Slice part = kernels::SliceOf(bytes, worker, workers);
    for (size_t i = 0; i < picked_.size(); ++i) {
      std::memmove(memory.hidden + static_cast<int64_t>(i) * bytes + part.begin,
                   memory.hidden + picked_[i] * bytes + part.begin,
                   static_cast<size_t>(part.end - part.begin));
    }
  }

  std::unique_ptr<ModelInstance> instance_;
  Live live_;
  BoundPlan* body_ = nullptr;
  BoundPlan* head_ = nullptr;
  const plan::DraftInputs* draft_ = nullptr;  // of a draft step
  std::span<const int32_t> picked_;           // its rows, where they have to be moved

 private:
  Status CheckPicked(const plan::DraftInputs& in) const {
    if (in.rows.size() != in.step.ids.size())
      return Status::Invalid("a draft step of {} ids over {} rows", in.step.ids.size(),
                             in.rows.size());
    if (!in.first && in.rows.size() > static_cast<size_t>(limits().seqs_max)) {
      return Status::Invalid("a draft step of {} rows behind another; at most {}", in.rows.size(),
                             limits().seqs_max);
    }
    if (in.step.head_rows.size() > static_cast<size_t>(limits().seqs_max)) {
      return Status::Invalid("{} drafts of a step; at most {}", in.step.head_rows.size(),
                             limits().seqs_max);
    }
    int32_t next = 0;
    for (const int32_t row : in.rows) {
      if (row < next || row >= hidden_rows_)
        return Status::Invalid("hidden row {} is not in [{}, {})", row, next, hidden_rows_);
      next = row + 1;
    }
    return Status::Ok();
  }

  Status RunPlans(const StepInputs& inputs, StepOutputs* outputs) {
    const auto rows = inputs.head_rows.size();
    // The caller sizes them once; a shorter one grows, none shrinks.
    const auto grow = [](auto& vector, size_t size) {
      if (vector.size() < size) vector.resize(size);
    };
    grow(outputs->rows, rows);
    grow(outputs->top_ids, rows * static_cast<size_t>(inputs.top_logprobs));
    grow(outputs->top_logprobs, rows * static_cast<size_t>(inputs.top_logprobs));
    if (inputs.hash_logits) grow(outputs->logits_hash, rows);
    live_ = {static_cast<int32_t>(inputs.ids.size()),
             static_cast<int32_t>(rows),
             &inputs,
             outputs->rows.data(),
             outputs->top_ids.data(),
             outputs->top_logprobs.data(),
             outputs->logits_hash.data()};
    const int64_t start = SteadyNowNs();
    Status status = TakeAlong(inputs);
    if (status.ok()) status = Walk();
    outputs->step_ns = SteadyNowNs() - start;
    if (!status.ok()) {
      broken_ = status;
      return status;
    }
    hidden_rows_ = live_.tokens;
    if (head_ != nullptr && inputs.mode == HeadMode::kGreedy) {
      for (size_t r = 0; r < rows; ++r)
        outputs->rows[r] = {head_->pairs[r].index, 0, 1, head_->pairs[r].has_nan};
    }
    return Status::Ok();
  }

  int32_t hidden_rows_ = 0;  // that the last step left behind
  Status broken_;
};

class RankExecutor final : public InstanceExecutor {
 public:
  RankExecutor(std::unique_ptr<ModelInstance> instance, std::unique_ptr<device::Team> team)
      : InstanceExecutor(std::move(instance)),
        team_(std::move(team)),
        here_(instance_->ranks_here()),
        link_(instance_->config().link) {
    const int workers = instance_->workers_per_rank();
    for (int r = here_.begin; r < here_.end; ++r) {
      device::Barrier::Options options;
      options.spin_ns = instance_->cores().oversubscribed ? 0 : device::kSpinNs;
      for (int w = 0; w < workers; ++w)
        options.names.push_back(fmt::format("worker {} of rank {}", w, r));
      rank_barriers_.push_back(std::make_unique<device::Barrier>(workers, options));
    }
    statuses_.resize(static_cast<size_t>(here_.count()) * workers);
  }

  std::string Describe() const override {
    const int ranks = instance_->config().ranks, workers = instance_->workers_per_rank();
    return fmt::format("{}: {} rank{} x {} worker{}{}, schedule {}", instance_->bodies_target(),
                       ranks, ranks == 1 ? "" : "s", workers, workers == 1 ? "" : "s",
                       link_ == nullptr ? "" : " in processes",
                       plan::Describe(instance_->config().schedule));
  }

  Status PinCaller() override { return team_->PinCaller(); }
  void set_trace(StepTrace* trace) { trace_ = trace; }

  // What rank 0 sends until it sends nothing.
  Status Follow() {
    WEFT_CHECK(link_ != nullptr && link_->rank() != 0, "rank 0 follows nobody");
    UnpackedStep step;
    StepOutputs outputs;
    while (true) {
      // Between steps there may be no work for days.
      WEFT_RETURN_IF_ERROR(comm::Broadcast(*link_, &message_, {.what = "next step"}));
      if (message_.empty()) return Status::Ok();
      Status status = step.Unpack(message_);
      if (status.ok()) {
        coming_ = step.plans();
        status =
            step.draft() == nullptr ? Run(step.inputs(), &outputs) : Draft(*step.draft(), &outputs);
      }
      if (status.ok()) continue;
      comm::TellFailure(*link_, status);
      return status;
    }
  }
  Status End() {
    if (link_ == nullptr) return Status::Ok();
    message_.clear();
    return comm::Broadcast(*link_, &message_, {.deadline_ns = Deadline(), .what = "end"});
  }

 protected:
  // Rank 0 sends plans and inputs; another rank has got them, and compares its own plans.
  Status TakeAlong(const StepInputs& inputs) override {
    if (link_ == nullptr) return Status::Ok();
    const StepPlans plans{++step_, body_->plan.fingerprint,
                          head_ == nullptr ? 0 : head_->plan.fingerprint};
    if (link_->rank() != 0) {
      if (plans == coming_) return Status::Ok();
      return Status::Internal(
          "step {} with plans {:016x} and {:016x}, rank 0 has step {} with {:016x} and {:016x}",
          plans.step, plans.body, plans.head, coming_.step, coming_.body, coming_.head);
    }
    PackStep(plans, inputs, draft_, &message_);
    return comm::Broadcast(*link_, &message_,
                           {.deadline_ns = Deadline(), .step = step_, .what = "inputs"});
  }

  Status Walk() override {
    deadline_ns_ = Deadline();
    auto job = [this](int worker) { statuses_[worker] = Work(worker); };
    kernels::ScopedFlushDenormals flush;  // the caller is worker 0 and may be anybody's thread
    team_->RunEach(job);
    for (const Status& status : statuses_) {
      if (status.ok()) continue;
      if (link_ != nullptr) comm::TellFailure(*link_, status);
      return status;
    }
    return Status::Ok();
  }

 private:
  int64_t Deadline() const { return SteadyNowNs() + instance_->config().wait_timeout_ns; }

  Status Work(int index) {
    const int workers = instance_->workers_per_rank();
    const int rank = here_.begin + index / workers, worker = index % workers;
    if (const auto copies = live_.inputs->state_copies; !copies.empty()) {
      for (const plan::StateCopy& copy : copies)
        instance_->memory().ranks[rank].CopyStates(copy, worker, workers);
      WEFT_RETURN_IF_ERROR(MeetOnRank(rank, worker, {deadline_ns_, -1, "state copies"}));
    }
    if (!picked_.empty()) {
      PickRows(instance_->memory().ranks[rank], worker, workers);
      WEFT_RETURN_IF_ERROR(MeetOnRank(rank, worker, {deadline_ns_, -1, "hidden rows"}));
    }
    WEFT_RETURN_IF_ERROR(WalkPlan(*body_, rank, worker));
    if (head_ == nullptr) return Status::Ok();
    // The head reads what the body left behind and reuses its arena.
    device::Ahead ahead;
    const device::WaitSite site{deadline_ns_, -1, "head",
                                Fetching(*head_, 0, rank, worker, &ahead)};
    WEFT_RETURN_IF_ERROR(link_ == nullptr ? instance_->fabric().Sync({0, rank, worker}, site)
                                          : MeetOnRank(rank, worker, site));
    return WalkPlan(*head_, rank, worker);
  }

  // What the wait of a step fetches; nullptr: nothing. `ahead` goes on from one wait to the next
  // for the same weights.
  static device::Ahead* Fetching(const BoundPlan& bound, size_t s, int rank, int worker,
                                 device::Ahead* ahead) {
    const int of = bound.plan.steps[s].fetches;
    const auto& pieces = bound.ahead[static_cast<size_t>(rank)][static_cast<size_t>(worker)];
    if (of < 0 || pieces.empty()) return nullptr;
    const BoundPlan::Pieces& wanted = pieces[static_cast<size_t>(of)];
    if (!ahead->IsOf(wanted)) *ahead = device::Ahead(wanted);
    return ahead;
  }

  Status MeetOnRank(int rank, int worker, const device::WaitSite& site) {
    Status status = rank_barriers_[static_cast<size_t>(rank - here_.begin)]->Wait(worker, site);
    if (!status.ok()) instance_->fabric().Abort(status);
    return status;
  }

  // Before a phase of a step. Ranks in one process meet where the plan says so. Those in processes
  // bring what the phase reads wherever it reads, and otherwise only the workers of a rank have to
  // meet: nobody else touches its memory.
  Status WaitFor(const plan::Step& step, Runner& runner, int phase, int rank, int worker,
                 const device::WaitSite& site) {
    const bool posted = step.posted_behind >= 0 && phase == 0;
    if (link_ != nullptr && runner.group() != Runner::kNoGroup) {
      if (!posted) WEFT_RETURN_IF_ERROR(Post(runner, phase, rank, worker, site));
      return instance_->fabric().Complete({runner.group(), rank, worker}, site);
    }
    if (posted && link_ == nullptr) return instance_->fabric().Await({0, rank, worker}, site);
    if (step.wait == Wait::kNone && phase == 0) return Status::Ok();
    if (link_ == nullptr && (step.wait == Wait::kGroup || phase > 0))
      return instance_->fabric().Sync({0, rank, worker}, site);
    return MeetOnRank(rank, worker, site);
  }

  Status Post(Runner& runner, int phase, int rank, int worker, const device::WaitSite& site) {
    const auto reads = [&](int member, comm::ReadVisit visit) {
      runner.Reads(live_, phase, member, visit);
    };
    return instance_->fabric().Post({runner.group(), rank, worker}, reads, site);
  }

  // What this rank has done up to step `s` is all that an exchange further on needs of it.
  Status PostBehind(BoundPlan& bound, size_t s, int rank, int worker) {
    const int next = bound.posts[s];
    if (next < 0) return Status::Ok();
    if (link_ == nullptr) {
      instance_->fabric().Arrive({0, rank, worker});
      return Status::Ok();
    }
    Runner& runner = *bound.runners[rank][worker][static_cast<size_t>(next)];
    return Post(runner, 0, rank, worker,
                {deadline_ns_, next, NameOf(bound.plan.graph.nodes[next].op).data()});
  }

  Status WalkPlan(BoundPlan& bound, int rank, int worker) {
    auto& runners = bound.runners[rank][worker];
    const int32_t rows =
        bound.plan.bucket.kind == plan::Bucket::Kind::kHead ? live_.head_rows : live_.tokens;
    device::Ahead ahead;
    for (size_t s = 0; s < runners.size(); ++s) {
      const plan::Step& step = bound.plan.steps[s];
      Runner& runner = *runners[s];
      const device::WaitSite site{deadline_ns_, static_cast<int64_t>(s),
                                  graph::NameOf(bound.plan.graph.nodes[step.node].op).data(),
                                  Fetching(bound, s, rank, worker, &ahead)};
      if (runner.awaits()) {
        WEFT_RETURN_IF_ERROR(RunFused(bound, s, runner, rank, worker, rows, site));
        WEFT_RETURN_IF_ERROR(PostBehind(bound, s, rank, worker));
        continue;
      }
      const int phases = runner.phases();
      for (int phase = 0; phase < phases; ++phase) {
        const int64_t ready = trace_ == nullptr ? 0 : SteadyNowNs();
        const bool waits = step.wait != Wait::kNone || phase > 0;
        WEFT_RETURN_IF_ERROR(WaitFor(step, runner, phase, rank, worker, site));
        if (trace_ == nullptr) {
          runner.Run(live_, phase);
          continue;
        }
        const int64_t start = waits ? SteadyNowNs() : ready;
        runner.Run(live_, phase);
        trace_->Add(rank * instance_->workers_per_rank() + worker,
                    {&bound.plan, static_cast<int32_t>(s), phase, rows, waits, ready, start,
                     SteadyNowNs()});
      }
      WEFT_RETURN_IF_ERROR(PostBehind(bound, s, rank, worker));
    }
    return Status::Ok();
  }

  // Two events of one step: the product, and what follows once the peers' last tile is there.
  Status RunFused(BoundPlan& bound, size_t s, Runner& runner, int rank, int worker, int32_t rows,
                  const device::WaitSite& site) {
    const plan::Step& step = bound.plan.steps[s];
    const int64_t ready = trace_ == nullptr ? 0 : SteadyNowNs();
    if (step.wait == Wait::kRank) WEFT_RETURN_IF_ERROR(MeetOnRank(rank, worker, site));
    if (trace_ == nullptr) return runner.RunAwaiting(live_, site, nullptr);
    const int64_t start = SteadyNowNs();
    fused::TileTimes times;
    WEFT_RETURN_IF_ERROR(runner.RunAwaiting(live_, site, &times));
    const int track = rank * instance_->workers_per_rank() + worker;
    const auto index = static_cast<int32_t>(s);
    trace_->Add(track, {&bound.plan, index, 0, rows, step.wait != Wait::kNone, ready, start,
                        times.multiplied_ns});
    trace_->Add(track, {&bound.plan, index, 1, rows, true, times.multiplied_ns, times.seen_ns,
                        SteadyNowNs()});
    return Status::Ok();
  }

  std::unique_ptr<device::Team> team_;
  const RankRange here_;
  comm::Link* const link_;                                       // nullptr: all ranks are here
  std::vector<std::unique_ptr<device::Barrier>> rank_barriers_;  // of the ranks here
  std::vector<Status> statuses_;                                 // [workers of the ranks here]
  int64_t deadline_ns_ = 0;
  StepTrace* trace_ = nullptr;
  // Of ranks in processes.
  int64_t step_ = 0;
  StepPlans coming_;
  std::vector<std::byte> message_;
};

class ReferenceExecutor final : public InstanceExecutor {
 public:
  using InstanceExecutor::InstanceExecutor;
  std::string Describe() const override {
    return fmt::format("reference: {} virtual rank{}, contracts only", instance_->config().ranks,
                       instance_->config().ranks == 1 ? "" : "s");
  }

 protected:
  Status Walk() override {
    kernels::ScopedFlushDenormals flush;
    for (const plan::StateCopy& copy : live_.inputs->state_copies) {
      for (const RankMemory& rank : instance_->memory().ranks) rank.CopyStates(copy, 0, 1);
    }
    for (const RankMemory& rank : instance_->memory().ranks) PickRows(rank, 0, 1);
    for (BoundPlan* bound : {body_, head_}) {
      if (bound == nullptr) continue;
      for (size_t s = 0; s < bound->plan.steps.size(); ++s) {
        for (int phase = 0, phases = bound->runners[0][0][s]->phases(); phase < phases; ++phase) {
          for (auto& rank : bound->runners) rank[0][s]->Run(live_, phase);
        }
      }
    }
    return Status::Ok();
  }
};

}  // namespace

Result<std::unique_ptr<plan::Executor>> CreateRankExecutor(const io::Checkpoint& checkpoint,
                                                           ExecConfig config, LogSink* log) {
  WEFT_ASSIGN_OR_RETURN(auto instance, ModelInstance::Create(checkpoint, std::move(config), log));
  device::Team::Options options;
  const int workers = instance->workers_per_rank();
  const RankRange here = instance->ranks_here();
  options.workers = here.count() * workers;
  for (int r = here.begin; r < here.end; ++r) {
    for (int w = 0; w < workers; ++w) {
      options.cpus.push_back(instance->cores().oversubscribed ? device::kUnpinned
                                                              : instance->CoresOf(r).cpus[w]);
      options.names.push_back(fmt::format("worker {} of rank {}", w, r));
    }
  }
  options.spin_ns = instance->cores().oversubscribed ? 0 : device::kSpinNs;
  options.log = log;
  WEFT_ASSIGN_OR_RETURN(auto team, device::Team::Create(std::move(options)));
  return std::unique_ptr<plan::Executor>(new RankExecutor(std::move(instance), std::move(team)));
}

Result<std::unique_ptr<plan::Executor>> CreateReferenceExecutor(const io::Checkpoint& checkpoint,
                                                                ExecConfig config, LogSink* log) {
  config.reference = true;
  WEFT_ASSIGN_OR_RETURN(auto instance, ModelInstance::Create(checkpoint, std::move(config), log));
  return std::unique_ptr<plan::Executor>(new ReferenceExecutor(std::move(instance)));
}

Result<plan::Plan> ExplainPlan(const io::Checkpoint& checkpoint, const ExecConfig& config,
                               PlanKind kind, int32_t rows) {
  WEFT_ASSIGN_OR_RETURN(const auto instance, ModelInstance::Plan(checkpoint, config));
  switch (kind) {
    case PlanKind::kHead: return instance->head_plan(rows, HeadMode::kGreedy, false);
    case PlanKind::kDraft: return instance->draft_plan(true, rows);
    case PlanKind::kNextDraft: return instance->draft_plan(false, rows);
    case PlanKind::kDraftHead: return instance->draft_head_plan(rows, HeadMode::kGreedy);
    case PlanKind::kBody: break;
  }
  return instance->body_plan(rows);
}

Status FollowRankZero(plan::Executor& executor) {
  auto* ranks = dynamic_cast<RankExecutor*>(&executor);
  WEFT_CHECK(ranks != nullptr, "only rank teams follow");
  return ranks->Follow();
}

Status EndFollowers(plan::Executor& executor) {
  auto* ranks = dynamic_cast<RankExecutor*>(&executor);
  return ranks == nullptr ? Status::Ok() : ranks->End();
}

void SetTrace(plan::Executor& executor, StepTrace* trace) {
  auto* ranks = dynamic_cast<RankExecutor*>(&executor);
  WEFT_CHECK(ranks != nullptr, "only rank teams have a trace");
  WEFT_CHECK(trace == nullptr || trace->workers() == ranks->instance().config().ranks *
                                                         ranks->instance().workers_per_rank(),
             "a trace of {} workers", trace == nullptr ? 0 : trace->workers());
  ranks->set_trace(trace);
}

const ModelInstance& InstanceOf(const plan::Executor& executor) {
  return static_cast<const InstanceExecutor&>(executor).instance();
}

std::span<const float> LogitsOf(const plan::Executor& executor, int32_t row) {
  return static_cast<const InstanceExecutor&>(executor).logits(row);
}

}  // namespace weft::exec
