#include "serve/generation.h"

#include <utility>

namespace weft::serve {

TextStream::TextStream(const text::Tokenizer& tokenizer, TextOptions options)
    : options_(std::move(options)),
      detokenizer_(tokenizer, {.skip_special_tokens = options_.skip_special_tokens}),
      stops_(options_.stop, options_.include_stop) {}

void TextStream::Push(const engine::TokenEvent& event, std::string& out) {
  if (ended()) return;
  if (event.cached_tokens > 0) cached_tokens_ = event.cached_tokens;
  const bool by_token = event.finish == engine::FinishReason::kStop && event.stop_token >= 0;
  decoded_.clear();
  if (event.id >= 0) {
    ++tokens_;
    // A token that ends the text is no part of it.
    const bool is_stop = by_token && event.id == event.stop_token;
    if (!is_stop || options_.include_stop) detokenizer_.Push(event.id, decoded_);
  }
  if (event.finish != engine::FinishReason::kNone) detokenizer_.Finish(decoded_);
  if (stops_.Push(decoded_, out, tokens_ >= options_.min_tokens)) {
    stop_index_ = stops_.found();
    finish_ = engine::FinishReason::kStop;
    return;
  }
  if (event.finish == engine::FinishReason::kNone) return;
  stops_.Finish(out);
  finish_ = event.finish;
  error_ = event.error;
  if (by_token) stop_token_ = event.stop_token;
}

}  // namespace weft::serve
