#include "engine/engine.h"

#include <algorithm>

#include "base/rng.h"
#include "engine/engine_impl.h"
#include "engine/metrics_book.h"

namespace weft::engine {
namespace {

constexpr int32_t kCommandsBeyondQueue = 1024;  // aborts and wake-ups beside a full queue
constexpr int64_t kIdleWaitNs = 1 * kNsPerSecond;

int32_t KvTokens(const plan::ExecutorLimits& limits) {
  return static_cast<int32_t>(std::min<int64_t>(
      static_cast<int64_t>(limits.pages - 1) * limits.page_tokens, INT32_MAX - 1));
}

// Slots beside those of running requests and slot 0.
int32_t CheckpointsOf(const plan::ExecutorLimits& limits) {
  return std::max(limits.states - limits.seqs_max - 1, 0);
}

Status CheckBetween(const char* flag, int64_t value, int64_t low, int64_t high, const char* why) {
  if (value >= low && value <= high) return Status::Ok();
  return Status::Invalid("{} is {}; it must be between {} and {} ({})", flag, value, low, high,
                         why);
}

// Also fills in what was left to us.
Status Complete(EngineConfig* c, const plan::ExecutorLimits& limits) {
  if (limits.vocab_size < 1 || limits.page_tokens < 1 || limits.pages < 2) {
    return Status::Invalid(
        "the executor has {} token ids, {} pages of {} tokens; need at least "
        "1, 2 and 1 (--kv-cache-memory-bytes, --block-size)",
        limits.vocab_size, limits.pages, limits.page_tokens);
  }
  WEFT_RETURN_IF_ERROR(CheckBetween("--max-num-seqs", c->max_num_seqs, 1,
                                    std::min(limits.seqs_max, limits.rows_max),
                                    "the sequences that the plans were made for"));
  WEFT_RETURN_IF_ERROR(CheckBetween("--max-num-batched-tokens", c->max_num_batched_tokens,
                                    c->max_num_seqs, limits.tokens_max,
                                    "from --max-num-seqs, so that each request gets a token, to "
                                    "the tokens that the plans were made for"));
  WEFT_RETURN_IF_ERROR(CheckBetween("--state-checkpoint-interval", c->state_checkpoint_interval, 0,
                                    INT32_MAX, "0: none"));
  if (c->state_checkpoint_interval % limits.page_tokens != 0) {
    return Status::Invalid("--state-checkpoint-interval {} must be a multiple of --block-size {}",
                           c->state_checkpoint_interval, limits.page_tokens);
  }
  // The keys and values of a request's last token are never needed.
  const int32_t fits = std::min(limits.positions_max, KvTokens(limits) + 1);
  if (c->max_model_len == 0) c->max_model_len = fits;
  if (c->max_model_len > limits.positions_max) {
    return Status::Invalid("--max-model-len is {}; the model and its plans reach {}",
                           c->max_model_len, limits.positions_max);
  }
  WEFT_RETURN_IF_ERROR(CheckBetween("--max-model-len", c->max_model_len, 2, fits,
                                    "the KV cache must hold one request of that length"));
  WEFT_RETURN_IF_ERROR(CheckBetween("--long-prefill-token-threshold",
                                    c->long_prefill_token_threshold, 0, INT32_MAX, "0: no cap"));
  if (!c->enable_chunked_prefill) {
    if (c->max_num_batched_tokens < c->max_model_len) {
      return Status::Invalid(
          "--no-enable-chunked-prefill needs --max-num-batched-tokens ({}) of at "
          "least --max-model-len ({})",
          c->max_num_batched_tokens, c->max_model_len);
    }
    if (c->long_prefill_token_threshold > 0) {
      return Status::Invalid(
          "--long-prefill-token-threshold {} cuts prompts, which "
          "--no-enable-chunked-prefill forbids",
          c->long_prefill_token_threshold);
    }
  }
  if (FindPolicy(c->scheduling_policy) == nullptr) {
    return Status::Invalid("--scheduling-policy is '{}'; there are: {}", c->scheduling_policy,
                           PolicyNames());
  }
  WEFT_RETURN_IF_ERROR(CheckBetween("--queue-max", c->queue_max, 1, 1 << 20, "waiting requests"));
  WEFT_RETURN_IF_ERROR(Validate(c->speculation));
  if (c->speculation.method != SpeculationMethod::kNone &&
      c->speculation.tokens > limits.draft_tokens) {
    return Status::Invalid(
        "--speculative-config: num_speculative_tokens is {}; the plans were made for {}",
        c->speculation.tokens, limits.draft_tokens);
  }
  if (c->speculation.method == SpeculationMethod::kMtp && !limits.draft_head) {
    return Status::Invalid(
        "--speculative-config: method mtp needs the checkpoint's draft head, which was not loaded");
  }
  for (int32_t id : c->eos_token_ids) {
    if (id < 0 || id >= limits.vocab_size) {
      return Status::Invalid("the model's end-of-sequence id {} is outside of its {} token ids", id,
                             limits.vocab_size);
    }
  }
  return Status::Ok();
}

// How many drafts each sequence of a step verifies, if all decode and have as many; else -1.
int32_t DraftsOfAll(std::span<Sequence* const> step) {
  const int32_t drafts = step.front()->chunk_drafts;
  const bool alike = std::all_of(step.begin(), step.end(), [&](const Sequence* s) {
    return s->outputs() > 0 && s->chunk_drafts == drafts && s->chunk == 1 + drafts;
  });
  return alike ? drafts : -1;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Create(EngineConfig config, plan::Executor* executor,
                                               const Clock* clock, LogSink* log) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<EngineImpl> engine,
                        EngineImpl::Create(std::move(config), executor, clock, log));
  return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<EngineImpl>> EngineImpl::Create(EngineConfig config,
                                                       plan::Executor* executor, const Clock* clock,
                                                       LogSink* log, const EngineFaults& faults) {
  WEFT_RETURN_IF_ERROR(Complete(&config, executor->limits()));
  return std::unique_ptr<EngineImpl>(
      new EngineImpl(std::move(config), executor, clock, log, faults));
}

EngineImpl::EngineImpl(EngineConfig config, plan::Executor* executor, const Clock* clock,
                       LogSink* log, const EngineFaults& faults)
    : config_(std::move(config)),
      executor_(executor),
      clock_(clock),
      log_(log),
      limits_(executor->limits()),
      request_limits_{.vocab_size = limits_.vocab_size,
                      .max_model_len = config_.max_model_len,
                      .kv_tokens = KvTokens(limits_),
                      .top_logprobs_max = limits_.top_logprobs_max},
      faults_(faults),
      commands_(config_.queue_max + kCommandsBeyondQueue),
      cache_({.pages = limits_.pages,
              .page_tokens = limits_.page_tokens,
              // A hit needs the recurrent state behind it.
              .prefix_caching = config_.enable_prefix_caching &&
                                (limits_.states == 0 || CheckpointsOf(limits_) > 0),
              .key = config_.seed,
              .recurrent = limits_.states > 0,
              .first_checkpoint = limits_.seqs_max + 1,
              .checkpoints = CheckpointsOf(limits_),
              .faults = faults}),
      slots_(config_.max_num_seqs, cache_.BlocksFor(config_.max_model_len), limits_.page_tokens,
             faults),
      scheduler_({.max_num_seqs = config_.max_num_seqs,
                  .max_num_batched_tokens = config_.max_num_batched_tokens,
                  .rows_max = limits_.rows_max,
                  .chunked_prefill = config_.enable_chunked_prefill,
                  .long_prefill_token_threshold = config_.long_prefill_token_threshold,
                  .state_checkpoint_interval = config_.state_checkpoint_interval,
                  .policy = FindPolicy(config_.scheduling_policy)},
                 &cache_, &slots_),
      inputs_(config_.max_num_batched_tokens, config_.max_num_seqs, limits_.rows_max, &slots_),
      pace_(config_.speculation),
      draft_inputs_(config_.max_num_batched_tokens, config_.max_num_seqs, config_.speculation.drawn,
                    &slots_),
      live_(MakeMetrics(config_.max_model_len)) {
  const auto rows = static_cast<size_t>(limits_.rows_max);
  outputs_.rows.resize(rows);
  outputs_.top_ids.resize(rows * limits_.top_logprobs_max);
  outputs_.top_logprobs.resize(rows * limits_.top_logprobs_max);
  outputs_.logits_hash.resize(rows);
  live_.spec_decode_tokens = config_.speculation.tokens;
  parts_.reserve(static_cast<size_t>(config_.max_num_seqs));
  drafting_.reserve(static_cast<size_t>(config_.max_num_seqs));
  arrived_.reserve(commands_.capacity());
  copies_.reserve(2 * static_cast<size_t>(config_.max_num_seqs));
  published_ = live_;
  if (config_.enable_prefix_caching && !cache_.prefix_caching()) {
    log_->Info(
        "prefix caching is off: this model has recurrent states, and there is no slot to keep "
        "those of a prefix (--state-checkpoints 0)");
  }
}

EngineImpl::~EngineImpl() {
  commands_.Close();
  TakeCommands();
  EndAll(FinishReason::kAbort, Status::Unavailable("the engine is gone"));
}

Status EngineImpl::Submit(std::unique_ptr<Request> request) {
  if (state_.load(std::memory_order_acquire) != State::kServing) {
    WEFT_RETURN_IF_ERROR(Health());
    return Status::Unavailable("the server is shutting down");
  }
  WEFT_RETURN_IF_ERROR(Validate(*request, request_limits_));
  const Status full = Status::Exhausted("{} requests are waiting; try again later (--queue-max {})",
                                        config_.queue_max, config_.queue_max);
  if (queued_.fetch_add(1, std::memory_order_relaxed) >= config_.queue_max) {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    return full;
  }
  // Here and not in the engine's thread: it copies and sorts the prompt.
  Command command{.sequence = MakeSequence(std::move(request))};
  const PushResult pushed = commands_.TryPush(std::move(command));
  if (pushed == PushResult::kAccepted) return Status::Ok();
  queued_.fetch_sub(1, std::memory_order_relaxed);
  return pushed == PushResult::kFull ? full : Status::Unavailable("the server is shutting down");
}

void EngineImpl::Abort(const std::string& request_id) {
  Command command{.abort_id = request_id};
  if (request_id.empty() || commands_.TryPush(std::move(command)) != PushResult::kFull) return;
  // A full mailbox is drained at the next step boundary anyway, and this list right after it.
  std::lock_guard lock(overflow_mutex_);
  overflow_aborts_.push_back(request_id);
  overflowed_.store(true, std::memory_order_release);
}

void EngineImpl::Stop(bool drain) {
  const State wanted = drain ? State::kDraining : State::kAborting;
  State state = state_.load(std::memory_order_acquire);
  // Draining may turn into aborting (a second SIGTERM), never back.
  while (static_cast<int>(state) < static_cast<int>(wanted) &&
         !state_.compare_exchange_weak(state, wanted, std::memory_order_acq_rel)) {
  }
  (void)commands_.TryPush(Command{});  // full: the engine is not asleep
}

MetricsSnapshot EngineImpl::Metrics() const {
  std::unique_lock lock(metrics_mutex_);
  MetricsSnapshot metrics = published_;
  lock.unlock();
  metrics.schedules = executor_->schedules();  // the same since start
  return metrics;
}

Status EngineImpl::Health() const {
  std::lock_guard lock(health_mutex_);
  return health_;
}

void EngineImpl::Run() {
  while (true) {
    if (Step()) continue;
    if (state_.load(std::memory_order_acquire) != State::kServing) {
      // After Close() nothing new is accepted; what was accepted before is still served.
      commands_.Close();
      if (commands_.size() == 0) return;
      continue;
    }
    commands_.WaitPop(&arrived_, SteadyNowNs() + kIdleWaitNs);
  }
}

bool EngineImpl::Step() {
  const int64_t began_ns = clock_->NowNs();
  bool busy = TakeCommands();
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::kAborting) {
    EndAll(FinishReason::kAbort, Status::Unavailable("the server is shutting down"));
  } else if (state == State::kDead) {
    EndAll(FinishReason::kError, Health());
  }
  if (with_deadline_ > 0) ExpireDeadlines(began_ns);
  if (sequences_.empty()) {
    if (busy) Publish();
    return busy;
  }

  const std::span<Sequence* const> step = scheduler_.Plan(began_ns);
  if (step.empty()) {
    Sequence* stuck = scheduler_.Stuck();
    WEFT_CHECK(stuck != nullptr, "{} requests run but none is in the step",
               scheduler_.running().size());
    End(stuck, FinishReason::kError,
        Status::Internal("no step has room for request '{}'", stuck->request->id));
    Publish();
    return true;
  }
  NoteAdmitted(step);
  // Kept first: a slot that was left may have a new owner, who gets his state after that.
  if (!faults_.stale_state)
    copies_.insert(copies_.end(), scheduler_.restores().begin(), scheduler_.restores().end());
  live_.state_checkpoint_hits += scheduler_.restores().size();
  const plan::StepInputs& inputs = inputs_.Build(step, copies_);
  top_stride_ = inputs.top_logprobs;
  hashed_ = inputs.hash_logits;
  const auto tokens = static_cast<int64_t>(inputs.ids.size());

  const int32_t verified = DraftsOfAll(step);
  const int64_t launched_ns = clock_->NowNs();
  const Status status = executor_->Run(inputs, &outputs_);
  const int64_t returned_ns = clock_->NowNs();
  copies_.clear();

  ++live_.steps;
  live_.tokens_scheduled += tokens;
  live_.iteration_tokens.Observe(static_cast<double>(tokens));
  int64_t draft_ns = 0;
  if (status.ok()) {
    Commit(step, returned_ns);
    if (config_.speculation.method != SpeculationMethod::kNone) {
      const int64_t draft_began_ns = clock_->NowNs();
      const Status drafted = Draft();
      draft_ns = clock_->NowNs() - draft_began_ns;
      NotePace(step, verified, returned_ns - launched_ns, draft_ns);
      if (!drafted.ok()) FailDraft(drafted, returned_ns);
    }
    Settle(returned_ns);
  } else {
    FailStep(step, status);
  }
  const int64_t ended_ns = clock_->NowNs(), outside_ns = returned_ns - launched_ns + draft_ns;
  live_.step_s += static_cast<double>(outside_ns) / kNsPerSecond;
  live_.host_s += static_cast<double>(ended_ns - began_ns - outside_ns) / kNsPerSecond;
  Publish();
  return true;
}

std::unique_ptr<Sequence> EngineImpl::MakeSequence(std::unique_ptr<Request> request) const {
  auto s = std::make_unique<Sequence>();
  if (request->arrival_ns == 0) request->arrival_ns = clock_->NowNs();
  const SamplingParams& p = request->sampling;
  s->prompt_tokens = static_cast<int32_t>(request->prompt.size());
  s->tokens_max = static_cast<int32_t>(
      std::min<int64_t>(int64_t{s->prompt_tokens} + p.max_tokens, config_.max_model_len));
  s->tokens.reserve(s->tokens_max);
  s->drafts.reserve(static_cast<size_t>(config_.speculation.tokens));
  s->tokens.assign(request->prompt.begin(), request->prompt.end());
  const int32_t blocks = cache_.BlocksFor(s->tokens_max);
  s->kv.blocks.reserve(blocks);
  s->kv.hashes.reserve(blocks);
  s->stop = StopMask(p, config_.eos_token_ids);
  if (p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0) {
    s->seen = SeenTokens(request->prompt, s->tokens_max - s->prompt_tokens);
  }
  for (const auto& [id, bias] : p.logit_bias) {
    s->bias_ids.push_back(id);
    s->bias.push_back(bias);
  }
  if (p.prompt_logprobs) s->prompt_logprobs.reserve(s->prompt_tokens - 1);
  s->request = std::move(request);
  return s;
}

bool EngineImpl::TakeCommands() {
  commands_.PopAll(&arrived_);
  const bool busy = !arrived_.empty();
  for (Command& command : arrived_) {
    if (command.sequence != nullptr) {
      Accept(std::move(command.sequence));
    } else if (const auto at = sequences_.find(command.abort_id); at != sequences_.end()) {
      End(at->second.get(), FinishReason::kAbort, Status::Ok());
    }
  }
  arrived_.clear();
  if (overflowed_.exchange(false, std::memory_order_acq_rel)) {
    {
      std::lock_guard lock(overflow_mutex_);
      late_aborts_.swap(overflow_aborts_);
    }
    for (const std::string& id : late_aborts_) {
      if (const auto at = sequences_.find(id); at != sequences_.end()) {
        End(at->second.get(), FinishReason::kAbort, Status::Ok());
      }
    }
    late_aborts_.clear();
    return true;
  }
  return busy;
}

void EngineImpl::Accept(std::unique_ptr<Sequence> sequence) {
  Sequence* s = sequence.get();
  s->number = ++next_number_;
  uint64_t state = config_.seed + s->number * 0x9e3779b97f4a7c15u;
  s->seed = s->sampling().seed.value_or(SplitMix64(&state));
  const auto [at, fresh] = sequences_.try_emplace(s->request->id, std::move(sequence));
  if (!fresh) {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    ++live_.finished[static_cast<size_t>(FinishReason::kError)];
    Emit(s, TokenEvent{.finish = FinishReason::kError,
                       .error = Status::Invalid("a request with id '{}' is already being served",
                                                s->request->id)});
    return;
  }
  if (s->request->deadline_ns != 0) ++with_deadline_;
  scheduler_.Add(s);
}

void EngineImpl::ExpireDeadlines(int64_t now_ns) {
  std::vector<Sequence*> late;
  for (const auto& [id, s] : sequences_) {
    if (s->request->deadline_ns != 0 && now_ns >= s->request->deadline_ns) late.push_back(s.get());
  }
  for (Sequence* s : late) {
    End(s, FinishReason::kError,
        Status::Deadline("request '{}' ran out of time after {} tokens", s->request->id,
                         s->outputs()));
  }
}

void EngineImpl::NoteAdmitted(std::span<Sequence* const> step) {
  for (Sequence* s : step) {
    if (!s->queued) continue;
    s->queued = false;
    queued_.fetch_sub(1, std::memory_order_relaxed);
    live_.request_queue_time_s.Observe(
        static_cast<double>(s->admitted_ns - s->request->arrival_ns) / kNsPerSecond);
  }
}

void EngineImpl::Publish() {
  live_.requests_running = static_cast<int64_t>(scheduler_.running().size());
  live_.requests_waiting = scheduler_.waiting();
  live_.kv_cache_usage = cache_.usage();
  live_.preemptions = scheduler_.preemptions();
  live_.prefix_cache_queries = scheduler_.prefix_queries();
  live_.prefix_cache_hits = scheduler_.prefix_hits();
  std::lock_guard lock(metrics_mutex_);
  published_ = live_;
}

}  // namespace weft::engine
