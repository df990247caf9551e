// Many requests, one step at a time: the loop that turns submitted requests into steps.
//
// Thread: Submit, Abort, Stats and Wake may be called by any thread; everything else belongs to the
// one thread that calls Step()/Run(). Between threads there is only the mailbox.
// Invariant: every accepted request gets exactly one final TokenEvent, also on abort, error,
// shutdown and a failed executor.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "engine/speculation/speculation.h"
#include "plan/executor.h"

namespace weft::engine {

// vLLM's names; defaults are filled in from the model and the executor's limits.
struct EngineConfig {
  int32_t max_num_seqs = 128;
  int32_t max_num_batched_tokens = 2048;
  int32_t max_model_len = 0;  // 0: the executor's positions_max
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  // Of models with recurrent layers: also keep the state of a prompt every so many tokens, beside
  // its end and where prompts part. 0: only there. A multiple of the block size.
  int32_t state_checkpoint_interval = 0;
  int32_t long_prefill_token_threshold = 0;  // 0: no cap on one request's chunk
  std::string scheduling_policy = "fcfs";    // or "priority"
  int32_t queue_max = 1024;                  // waiting requests; beyond: kExhausted (HTTP 429)
  std::vector<int32_t> eos_token_ids;
  uint64_t seed = 0;  // of the generator that seeds requests without one
  SpeculationConfig speculation;
};

class Engine {
 public:
  // `executor`, `clock` and `log` outlive the engine. Errors: kInvalid naming the flag.
  static Result<std::unique_ptr<Engine>> Create(EngineConfig config, plan::Executor* executor,
                                                const Clock* clock, LogSink* log);
  virtual ~Engine() = default;

  // Checks the request (ids in the vocabulary, lengths, parameters) and queues it.
  // Errors: kInvalid (4xx), kExhausted (queue full: 429), kUnavailable (shutting down: 503).
  virtual Status Submit(std::unique_ptr<Request> request) = 0;
  // The request ends with kAbort at the next step boundary; unknown ids are ignored.
  virtual void Abort(const std::string& request_id) = 0;

  // Drains the mailbox, schedules, runs and commits one step. False: there was nothing to do.
  virtual bool Step() = 0;
  // Step() until Stop(); sleeps on the mailbox while idle.
  virtual void Run() = 0;
  // From any thread. drain: finish what was accepted, refuse what is new; else abort everything.
  virtual void Stop(bool drain) = 0;

  virtual MetricsSnapshot Metrics() const = 0;

  // With every default filled in: what --max-model-len and the others came to. Any thread.
  virtual const EngineConfig& config() const = 0;
  // kUnavailable with the reason once the executor is unusable: every request has then ended, new
  // ones are refused and Run() returns. Any thread.
  virtual Status Health() const = 0;
};

}  // namespace weft::engine
