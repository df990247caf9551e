// Text to token ids and back: byte-level BPE as the model's own tokenizer does it.
// Encode: added tokens are found first, then the text between them is normalised (NFC where the
// model says so), cut into words and merged.  Bytes that are no UTF-8 become U+FFFD first (utf8.h),
// as they do on the way into the reference.
// Thread: immutable; every function may run on many threads at once.
// Errors: Create() refuses a spec that contradicts itself or its bounds; Encode() gives kInvalid
// when there would be more than tokens_max tokens, before it spends memory on them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer_spec.h"

namespace weft::text {

struct EncodeOptions {
  bool add_special_tokens = false;  // off for rendered chat templates: they contain them
  bool parse_special = true;        // off: "<|im_end|>" in the text is just text
  size_t tokens_max = size_t{1} << 31;
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

class Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);

  Result<std::vector<int32_t>> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;
  // Ids outside the vocabulary give no bytes.  The result is valid UTF-8.
  std::string Decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // The bytes that the token stands for; "" outside the vocabulary.
  std::string_view TokenBytes(int32_t id) const {
    return InVocabulary(id) ? std::string_view(bytes_[static_cast<size_t>(id)]) : "";
  }
  // Left out by skip_special_tokens.
  bool IsSpecial(int32_t id) const { return InVocabulary(id) && special_[static_cast<size_t>(id)]; }
  // The id of an added token by its content, as "</think>".
  std::optional<int32_t> AddedTokenId(std::string_view content) const;

  size_t vocab_size() const { return bytes_.size(); }
  std::optional<int32_t> bos() const { return spec_.bos; }
  std::optional<int32_t> eos() const { return spec_.eos; }
  std::optional<int32_t> eot() const { return spec_.eot; }
  std::optional<int32_t> pad() const { return spec_.pad; }
  PreTokenizer pre() const { return spec_.pre; }
  const std::string& chat_template() const { return spec_.chat_template; }
  const std::vector<AddedToken>& added_tokens() const { return spec_.added; }

 private:
  explicit Tokenizer(TokenizerSpec spec);

  bool InVocabulary(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < bytes_.size(); }
  // Both false when tokens_max is exceeded.
  bool EncodeNormalized(std::string_view text, const EncodeOptions& options,
                        std::vector<int32_t>& out) const;
  bool EncodeWords(std::string_view text, size_t tokens_max, std::vector<int32_t>& out) const;

  TokenizerSpec spec_;  // its tokens and merges are dropped: bytes_ and bpe_ hold them
  std::vector<std::string> bytes_;
  std::vector<bool> special_;
  std::unordered_map<std::string_view, int32_t> words_;  // into bytes_; only for ignore_merges
  size_t token_bytes_max_ = 1;                           // of the tokens that merging can give
  bool all_bytes_ = true;                                // each byte has a token
  AddedTokenMatcher raw_added_;
  AddedTokenMatcher normalized_added_;
  std::unique_ptr<BpeMerger> bpe_;
};

}  // namespace weft::text
