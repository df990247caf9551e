#include "cli/run_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>

#include "cli/arguments.h"

namespace weft::cli {

void AddRunFlags(CLI::App& app, RunFlags* f) {
  const char* ask = "Prompt and answer";
  app.add_option("--prompt", f->prompt, "what to answer; without it a chat starts on a terminal")
      ->type_name("TEXT")
      ->check(NotEmpty())
      ->group(ask);
  app.add_option("--prompt-ids", f->prompt_ids, "token ids instead: 1,2,3")
      ->type_name("IDS")
      ->check(NotEmpty())
      ->group(ask);
  app.add_option("--system", f->system, "system message")
      ->type_name("TEXT")
      ->check(NotEmpty())
      ->group(ask);
  app.add_flag("--raw", f->raw, "the prompt is completed as it is, without the chat template")
      ->group(ask);
  app.add_option("--max-tokens", f->max_tokens,
                 "of the answer [256, or what the context has room for]")
      ->type_name("N")
      ->check(Between(1, INT32_MAX))
      ->group(ask);
  app.add_option("--min-tokens", f->min_tokens, "no end before")
      ->type_name("N")
      ->check(Between(0, INT32_MAX))
      ->capture_default_str()
      ->group(ask);
  app.add_flag("--ignore-eos", f->ignore_eos, "go on to --max-tokens")->group(ask);
  app.add_option("--stop", f->stop, "a text that ends the answer; repeatable")
      ->type_name("TEXT")
      ->check(NotEmpty())
      ->group(ask);
  app.add_option("--logprobs", f->logprobs, "log-probabilities of each token and of the N best")
      ->type_name("N")
      ->check(Between(0, 20))
      ->group(ask);
  app.add_flag("--json", f->json, "one JSON object instead of text")->group(ask);
  app.add_flag("--verbose", f->verbose, "log what is loaded and chosen")->group(ask);
  app.add_option("--trace", f->trace,
                 "when each worker began and ended each step, for ui.perfetto.dev")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->group(ask);
  app.add_option("--trace-events", f->trace_events,
                 fmt::format("of each worker that find room, 48 bytes each [{}]", kTraceEvents))
      ->type_name("N")
      ->check(Between(1, 1 << 26))
      ->group(ask);

  const auto add = [&app](const char* name, auto* value, const CLI::Validator& check,
                          const char* text) {
    app.add_option(name, *value, text)
        ->type_name("X")
        ->check(check)
        ->capture_default_str()
        ->group("Sampling");
  };
  add("--temperature", &f->temperature, Between(0, 1e6), "0: the most likely token");
  add("--top-p", &f->top_p, Above(0, 1), "only the most likely tokens with this much probability");
  add("--top-k", &f->top_k, Between(-1, INT32_MAX), "only so many; 0 or -1: all");
  add("--min-p", &f->min_p, Between(0, 1),
      "only tokens with this fraction of the best one's probability");
  add("--repetition-penalty", &f->repetition_penalty, Above(0, 1e6),
      "of tokens in prompt and answer; 1: none");
  add("--presence-penalty", &f->presence_penalty, Between(-2, 2), "of tokens in the answer");
  add("--frequency-penalty", &f->frequency_penalty, Between(-2, 2), "likewise, each time");
  app.add_option("--request-seed", f->request_seed, "of this answer's draws [drawn from --seed]")
      ->type_name("N")
      ->group("Sampling");
}

Status CheckRunFlags(const RunFlags& f, bool terminal) {
  if (f.prompt && f.prompt_ids)
    return Status::Invalid("--prompt and --prompt-ids exclude each other");
  if (f.chats() && f.json) return Status::Invalid("--json needs --prompt or --prompt-ids");
  if (f.chats() && f.logprobs) return Status::Invalid("--logprobs needs --prompt or --prompt-ids");
  if (f.chats() && !terminal)
    return Status::Invalid("no --prompt, and standard input is no terminal to chat on");
  if (!f.system.empty() && (f.raw || f.prompt_ids)) {
    return Status::Invalid("--system has no place with {}: no chat template is used",
                           f.raw ? "--raw" : "--prompt-ids");
  }
  if (f.raw && f.prompt_ids) return Status::Invalid("--raw has no effect on --prompt-ids");
  const int tokens = f.max_tokens.value_or(kMaxTokens);
  if (f.min_tokens > tokens)
    return Status::Invalid("--min-tokens {} must be at most --max-tokens {}", f.min_tokens, tokens);
  if (f.request_seed && f.temperature == 0)
    return Status::Invalid("--request-seed {} has no effect with --temperature 0", *f.request_seed);
  if (!f.trace.empty() && f.model.reference)
    return Status::Invalid("--trace {}: --reference walks all ranks on one thread and has no times",
                           f.trace);
  if (f.trace_events && f.trace.empty())
    return Status::Invalid("--trace-events {} has no effect without --trace", *f.trace_events);
  return Status::Ok();
}

Result<std::vector<int32_t>> ParseIds(const std::string& text) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i <= text.size();) {
    const size_t end = std::min(text.find(',', i), text.size());
    int32_t id = 0;
    const auto [rest, error] = std::from_chars(text.data() + i, text.data() + end, id);
    if (error != std::errc() || rest != text.data() + end || id < 0) {
      return Status::Invalid("--prompt-ids: '{}' is no token id; wanted is a list like 1,2,3",
                             text.substr(i, end - i));
    }
    ids.push_back(id);
    i = end + 1;
  }
  return ids;
}

Result<engine::SamplingParams> SamplingOf(const RunFlags& f, size_t prompt_tokens,
                                          int32_t max_model_len) {
  engine::SamplingParams s;
  s.temperature = f.temperature;
  s.top_p = f.top_p;
  s.top_k = f.top_k;
  s.min_p = f.min_p;
  s.repetition_penalty = f.repetition_penalty;
  s.presence_penalty = f.presence_penalty;
  s.frequency_penalty = f.frequency_penalty;
  s.seed = f.request_seed;
  s.ignore_eos = f.ignore_eos;
  s.logprobs = f.logprobs;
  s.min_tokens = f.min_tokens;
  // A prompt that fills the context is the engine's error; it says so better.
  const int64_t room =
      std::max<int64_t>(1, int64_t{max_model_len} - static_cast<int64_t>(prompt_tokens));
  if (f.max_tokens && *f.max_tokens > room) {
    return Status::Invalid(
        "--max-tokens {} and {} tokens of prompt exceed --max-model-len {}; there is room for {}",
        *f.max_tokens, prompt_tokens, max_model_len, room);
  }
  s.max_tokens = static_cast<int32_t>(std::min<int64_t>(f.max_tokens.value_or(kMaxTokens), room));
  if (s.min_tokens > s.max_tokens) {
    return Status::Invalid(
        "--min-tokens {}: the context has room for {} after {} tokens of prompt (--max-model-len "
        "{})",
        s.min_tokens, s.max_tokens, prompt_tokens, max_model_len);
  }
  return s;
}

}  // namespace weft::cli
