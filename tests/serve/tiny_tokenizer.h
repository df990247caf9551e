// A byte-level vocabulary of 256 bytes and four special tokens, no merges: every byte is a token,
// so tests can say exactly which ids a text has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace weft::serve {

inline constexpr int32_t kImStart = 256;
inline constexpr int32_t kImEnd = 257;
inline constexpr int32_t kBos = 258;
inline constexpr int32_t kEos = 259;
inline constexpr int32_t kTinyVocabulary = 260;

inline text::TokenizerSpec TinySpec() {
  text::TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    std::string entry;
    text::AppendUtf8(entry, text::kByteAlphabet.CodeOf(static_cast<unsigned char>(byte)));
    spec.tokens.push_back(std::move(entry));
    spec.types.push_back(text::TokenType::kNormal);
  }
  const std::vector<std::string> special = {"<|im_start|>", "<|im_end|>", "<s>", "</s>"};
  for (size_t i = 0; i < special.size(); ++i) {
    spec.tokens.push_back(special[i]);
    spec.types.push_back(text::TokenType::kControl);
    spec.added.push_back(
        {.content = special[i], .id = static_cast<int32_t>(256 + i), .special = true});
  }
  spec.bos = kBos;
  spec.eos = kEos;
  return spec;
}

inline std::unique_ptr<text::Tokenizer> MakeTinyTokenizer() {
  auto tokenizer = text::Tokenizer::Create(TinySpec());
  WEFT_CHECK(tokenizer.ok(), "{}", tokenizer.status().message());
  return std::move(*tokenizer);
}

}  // namespace weft::serve
