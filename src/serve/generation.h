// What a token stream says: detokenising, stop strings and the end, for the API and `weft run`
// alike. Text appears as soon as nothing can change it any more: bytes of an incomplete character
// and anything that may become a stop string wait.
// Thread: one; the tokenizer outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace weft::serve {

struct TextOptions {
  std::vector<std::string> stop;
  bool include_stop = false;  // the stop string, or the stop token's text, is shown
  bool skip_special_tokens = true;
  int32_t min_tokens = 0;  // no stop string ends the text before
};

class TextStream {
 public:
  TextStream(const text::Tokenizer& tokenizer, TextOptions options);

  // Takes one event and appends what is settled now to `out`. Events after the end are ignored.
  void Push(const engine::TokenEvent& event, std::string& out);

  // The end has come: an event said so, or a stop string was found. In the second case the engine
  // does not know yet: abort the request.
  bool ended() const { return finish_ != engine::FinishReason::kNone; }
  engine::FinishReason finish() const { return finish_; }
  // Which stop string, or which stop token, if one it was.
  const std::string* stop_string() const {
    return stop_index_ ? &options_.stop[*stop_index_] : nullptr;
  }
  std::optional<int32_t> stop_token() const { return stop_token_; }
  const Status& error() const { return error_; }

  int32_t tokens() const { return tokens_; }  // generated, a stop token included
  int32_t cached_tokens() const { return cached_tokens_; }

 private:
  TextOptions options_;
  text::Detokenizer detokenizer_;
  text::StopStrings stops_;
  std::string decoded_;
  engine::FinishReason finish_ = engine::FinishReason::kNone;
  std::optional<size_t> stop_index_;
  std::optional<int32_t> stop_token_;
  Status error_;
  int32_t tokens_ = 0;
  int32_t cached_tokens_ = 0;
};

}  // namespace weft::serve
