// One person's talk with a model: prompts in, answers out, all in the caller's thread, which is
// also the engine's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/load.h"
#include "cli/run_flags.h"
#include "engine/engine.h"

namespace weft::cli {

struct Answer {
  std::vector<engine::TokenEvent> events;
  std::string text;
  engine::FinishReason finish = engine::FinishReason::kNone;
  Status error;
  uint64_t seed = 0;
  int64_t start_ns = 0, first_ns = 0, end_ns = 0;

  size_t tokens() const;
};

class Session {
 public:
  // `flags` and `engine` outlive the session; `executor` is the engine's.
  Session(const RunFlags& flags, const LoadedModel& model, plan::Executor* executor,
          engine::Engine* engine)
      : flags_(flags), model_(model), executor_(executor), engine_(engine) {}

  // One prompt; text, or JSON, on standard output.
  Status Once();
  // Until the end of standard input or /bye.
  Status Chat();

 private:
  Result<std::vector<int32_t>> PromptIds(const Json& messages, const std::string& text) const;
  // show: called with each piece of settled text.
  Result<Answer> Ask(std::vector<int32_t> prompt,
                     const std::function<void(std::string_view)>& show);
  void PrintSpeed(size_t prompt_tokens, const Answer& answer) const;
  void PrintLogprobs(const Answer& answer) const;

  const RunFlags& flags_;
  const LoadedModel& model_;
  plan::Executor* executor_;
  engine::Engine* engine_;
  int asked_ = 0;
};

}  // namespace weft::cli
