// A request as the engine sees it: token ids in, token events out. JSON, text and HTTP have ended
// before it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace weft::engine {

// vLLM's sampling parameters, validated by Validate() before a request may be submitted.
struct SamplingParams {
  float temperature = 1.0f;         // >= 0; 0 is greedy
  float top_p = 1.0f;               // (0, 1]
  int32_t top_k = 0;                // 0 or -1: all
  float min_p = 0.0f;               // [0, 1]
  float repetition_penalty = 1.0f;  // > 0
  float presence_penalty = 0.0f;    // [-2, 2]
  float frequency_penalty = 0.0f;   // [-2, 2]
  std::optional<uint64_t> seed;     // none: the engine draws one and reports it
  int32_t max_tokens = 16;          // >= 1
  int32_t min_tokens = 0;           // <= max_tokens; stop ids are banned until then
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::optional<int32_t> logprobs;         // 0 .. top_logprobs_max, besides the chosen one
  std::optional<int32_t> prompt_logprobs;  // likewise, for every prompt position but the first
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kAbort, kError };
// "stop", "length", "abort", "error" as OpenAI's API spells them; "" for kNone.
std::string_view NameOf(FinishReason reason);

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;
  int32_t rank = 0;
};

// What prompt_logprobs says of one prompt token.
struct PromptLogprob {
  TokenLogprob token;
  std::vector<TokenLogprob> top;  // best first
};

// What a request's owner hears; in order, the last one has finish != kNone.
struct TokenEvent {
  int32_t id = -1;                      // -1: no token (only the end)
  std::optional<TokenLogprob> logprob;  // of id, when asked for
  std::vector<TokenLogprob> top;        // best first
  uint64_t logits_hash = 0;             // with hash_logits
  FinishReason finish = FinishReason::kNone;
  int32_t stop_token = -1;    // the stop id that ended it, if one did
  Status error;               // with kError
  int32_t cached_tokens = 0;  // prompt tokens served by the prefix cache (first event)
  int64_t at_ns = 0;          // the engine's clock
  uint64_t seed = 0;          // the one used, asked for or drawn (first event)
  std::vector<PromptLogprob> prompt_logprobs;  // of prompt[1], prompt[2], ... (first event)
};

// Called by the engine's thread; must not block: it moves the event into a ring or drops the
// reader.
using TokenSink = std::function<void(TokenEvent)>;

struct Request {
  std::string id;
  std::vector<int32_t> prompt;  // >= 1 token, each in [0, vocab)
  SamplingParams sampling;
  uint32_t choice = 0;     // index among the n choices of one client request
  int32_t priority = 0;    // lower runs first, with --scheduling-policy priority
  std::string cache_salt;  // separates prefix cache entries of different tenants
  bool hash_logits = false;
  int64_t arrival_ns = 0;   // set by the engine if 0
  int64_t deadline_ns = 0;  // 0: none
  TokenSink sink;
};

}  // namespace weft::engine
