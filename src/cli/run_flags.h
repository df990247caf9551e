// What `weft run` takes besides the model's flags.
// Thread: plain data and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "engine/request.h"

namespace weft::cli {

inline constexpr int kMaxTokens = 256;  // of an answer, if the context has that much room
// Of each worker, 12 MiB: an answer of kMaxTokens by a model of 60 layers fits.
inline constexpr int kTraceEvents = 1 << 18;

struct RunFlags {
  ModelFlags model;
  std::optional<std::string> prompt, prompt_ids;
  std::string system;
  bool raw = false;  // no chat template
  std::optional<int> max_tokens;
  float temperature = 0;
  float top_p = 1;
  int top_k = 0;
  float min_p = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::optional<uint64_t> request_seed;
  std::optional<int> logprobs;
  int min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  bool json = false;
  bool verbose = false;
  std::string trace;                // --trace: a file for the times of every step
  std::optional<int> trace_events;  // of each worker

  bool chats() const { return !prompt && !prompt_ids; }
};

void AddRunFlags(CLI::App& app, RunFlags* flags);

// Flags that contradict each other or would have no effect. Errors: kInvalid naming them.
Status CheckRunFlags(const RunFlags& flags, bool terminal);
// --prompt-ids. Errors: kInvalid naming the id.
Result<std::vector<int32_t>> ParseIds(const std::string& text);
// For a prompt of that many tokens. Errors: kInvalid if a --max-tokens that was asked for has no
// room.
Result<engine::SamplingParams> SamplingOf(const RunFlags& flags, size_t prompt_tokens,
                                          int32_t max_model_len);

}  // namespace weft::cli
