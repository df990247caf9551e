// What a tokenizer is made of, as plain data, and reading it from the two kinds of model files.
// Thread: plain data, pure functions.
// Errors: kInvalid for a file that contradicts itself, kUnsupported for what weft would have to
// guess (another model type, an unknown pre-tokenizer, an unknown normaliser).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"

namespace weft::text {

inline constexpr size_t kTokenBytesMax = 64 << 10;
inline constexpr size_t kVocabularyMax = 4 << 20;

enum class TokenType : uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct TokenizerSpec {
  std::vector<std::string> tokens;  // by id, in the byte-level alphabet; "" for a hole
  std::vector<TokenType> types;     // by id
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  PreTokenizer pre = PreTokenizer::kGpt2;
  bool nfc = false;
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  std::vector<AddedToken> added;
  std::optional<int32_t> bos, eos, eot, unk, pad;
  std::vector<int32_t> prefix_ids;  // put before the text by add_special_tokens
  std::vector<int32_t> suffix_ids;  // and after it
  std::string chat_template;        // "" if there is none
};

// The files of a checkpoint directory; "" for one that does not exist, but for the first.
struct TokenizerFiles {
  std::string_view tokenizer_json;
  std::string_view tokenizer_config_json;
  std::string_view chat_template_jinja;  // wins over the one in tokenizer_config.json
};
Result<TokenizerSpec> SpecFromTokenizerJson(const TokenizerFiles& files);

// The keys tokenizer.* of a GGUF file, in its order and units.
struct GgufTokenizerFields {
  std::string model;  // tokenizer.ggml.model
  std::string pre;    // tokenizer.ggml.pre
  std::vector<std::string> tokens;
  std::vector<int32_t> types;       // may be empty: all normal
  std::vector<std::string> merges;  // "left right"
  std::optional<int64_t> bos, eos, eot, unk, pad;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  std::string chat_template;
};
Result<TokenizerSpec> SpecFromGguf(const GgufTokenizerFields& fields);

}  // namespace weft::text
