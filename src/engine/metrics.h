// What the engine counts, under vLLM's names once serve prints them (`vllm:...`).
// Thread: written by the engine's thread, read as a snapshot by any.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/speculation/speculation.h"
#include "plan/executor.h"

namespace weft::engine {

// Cumulative histogram with fixed upper bounds, as Prometheus wants it.
struct Histogram {
  std::vector<double> bounds;    // ascending; the last bucket is +Inf
  std::vector<uint64_t> counts;  // bounds.size() + 1, not cumulative
  double sum = 0;
  void Observe(double value);
};

struct MetricsSnapshot {
  int64_t requests_running = 0;
  int64_t requests_waiting = 0;
  double kv_cache_usage = 0;  // 0..1
  uint64_t preemptions = 0;
  uint64_t prompt_tokens = 0;  // computed or cached
  uint64_t generation_tokens = 0;
  uint64_t prefix_cache_queries = 0;   // tokens
  uint64_t prefix_cache_hits = 0;      // tokens
  uint64_t state_checkpoints = 0;      // recurrent states kept, since start
  uint64_t state_checkpoint_hits = 0;  // and taken up again
  int32_t spec_decode_tokens = 0;      // the most drafts of a sequence and step; 0: none are made
  uint64_t spec_decode_drafts = 0;     // sequences' steps with drafts
  uint64_t spec_decode_draft_tokens = 0;
  uint64_t spec_decode_accepted_tokens = 0;
  std::array<uint64_t, kDraftTokensMax> spec_decode_accepted_per_pos{};
  uint64_t steps = 0;
  uint64_t tokens_scheduled = 0;
  std::array<uint64_t, 5> finished{};  // by FinishReason
  Histogram time_to_first_token_s;
  Histogram inter_token_latency_s;
  Histogram e2e_request_latency_s;
  Histogram request_queue_time_s;
  Histogram request_prompt_tokens;
  Histogram request_generation_tokens;
  Histogram iteration_tokens;
  std::vector<plan::SchedulePart> schedules;  // of the executor
  double host_s = 0;                          // engine time outside of Executor::Run
  double step_s = 0;                          // time inside it
};

}  // namespace weft::engine
