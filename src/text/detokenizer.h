// Token ids to text, one id at a time, as tokens arrive from the engine.
// What Push() and Finish() append is, put together, exactly Tokenizer::Decode() of all ids: bytes
// of a character that is not complete yet wait for the next token, and become U+FFFD only when
// nothing can complete them. Thread: one.  The tokenizer outlives it.
#pragma once

#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace weft::text {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(&tokenizer), options_(options) {}

  // Appends the text that is settled with this token, often none.
  void Push(int32_t id, std::string& out) {
    if (options_.skip_special_tokens && tokenizer_->IsSpecial(id)) return;
    assembler_.Feed(tokenizer_->TokenBytes(id), out);
  }
  void Finish(std::string& out) { assembler_.Finish(out); }
  // Bytes of an incomplete character are held back.
  bool pending() const { return assembler_.pending(); }

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  Utf8Assembler assembler_;
};

}  // namespace weft::text
