#include "text/tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace weft::text {
namespace {

// Texts are indexed with 31 bits inside; this also bounds what one call can take.
constexpr size_t kTextBytesMax = size_t{1} << 30;

std::vector<AddedToken> AddedOf(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : spec.added) {
    if (token.normalized != normalized) continue;
    out.push_back(token);
    if (normalized && spec.nfc) out.back().content = ToNfc(token.content);
  }
  return out;
}

Status CheckId(std::optional<int32_t> id, size_t vocabulary, std::string_view name) {
  if (!id || (*id >= 0 && static_cast<size_t>(*id) < vocabulary)) return Status::Ok();
  return Status::Invalid("the {} token has id {}, but the vocabulary has {} tokens", name, *id,
                         vocabulary);
}

Status CheckSpec(const TokenizerSpec& spec) {
  const size_t vocabulary = spec.tokens.size();
  if (vocabulary == 0 || vocabulary > kVocabularyMax) {
    return Status::Invalid("a vocabulary of {} tokens; 1 to {} are possible", vocabulary,
                           kVocabularyMax);
  }
  if (spec.types.size() != vocabulary) {
    return Status::Invalid("{} token types for {} tokens", spec.types.size(), vocabulary);
  }
  for (size_t id = 0; id < vocabulary; ++id) {
    if (spec.tokens[id].size() > kTokenBytesMax) {
      return Status::Invalid("token {} has {} bytes; at most {} are possible", id,
                             spec.tokens[id].size(), kTokenBytesMax);
    }
    if (!IsValidUtf8(spec.tokens[id])) return Status::Invalid("token {} is no valid UTF-8", id);
  }
  for (const AddedToken& token : spec.added) {
    WEFT_RETURN_IF_ERROR(CheckId(token.id, vocabulary, "added"));
    if (token.content.size() > kAddedTokenBytesMax) {
      return Status::Invalid("added token {} has {} bytes; at most {} are possible", token.id,
                             token.content.size(), kAddedTokenBytesMax);
    }
    if (!IsValidUtf8(token.content)) return Status::Invalid("added token {} is no UTF-8", token.id);
  }
  WEFT_RETURN_IF_ERROR(CheckId(spec.bos, vocabulary, "bos"));
  WEFT_RETURN_IF_ERROR(CheckId(spec.eos, vocabulary, "eos"));
  WEFT_RETURN_IF_ERROR(CheckId(spec.eot, vocabulary, "eot"));
  WEFT_RETURN_IF_ERROR(CheckId(spec.unk, vocabulary, "unk"));
  WEFT_RETURN_IF_ERROR(CheckId(spec.pad, vocabulary, "pad"));
  for (const auto* ids : {&spec.prefix_ids, &spec.suffix_ids}) {
    for (const int32_t id : *ids) WEFT_RETURN_IF_ERROR(CheckId(id, vocabulary, "added special"));
  }
  return Status::Ok();
}

using Vocabulary = std::unordered_map<std::string_view, int32_t>;

Result<std::vector<BpeMerge>> ResolveMerges(const TokenizerSpec& spec, const Vocabulary& ids) {
  std::vector<BpeMerge> merges;
  merges.reserve(spec.merges.size());
  std::string both;
  for (const auto& [left, right] : spec.merges) {
    both.assign(left).append(right);
    const auto l = ids.find(left);
    const auto r = ids.find(right);
    const auto merged = ids.find(both);
    if (l == ids.end() || r == ids.end() || merged == ids.end()) {
      return Status::Invalid("merge {} ('{:.64}' and '{:.64}') names a token that does not exist",
                             merges.size(), left, right);
    }
    merges.push_back({l->second, r->second, merged->second});
  }
  return merges;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec)
    : spec_(std::move(spec)),
      raw_added_(AddedOf(spec_, false)),
      normalized_added_(AddedOf(spec_, true)) {}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  WEFT_RETURN_IF_ERROR(CheckSpec(spec));
  std::unique_ptr<Tokenizer> self(new Tokenizer(std::move(spec)));
  const TokenizerSpec& made = self->spec_;
  const size_t vocabulary = made.tokens.size();

  Vocabulary ids;
  ids.reserve(vocabulary);
  for (size_t id = 0; id < vocabulary; ++id) {
    if (!made.tokens[id].empty()) ids.emplace(made.tokens[id], static_cast<int32_t>(id));
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<BpeMerge> merges, ResolveMerges(made, ids));
  // A byte without a token becomes the unknown token if a tokenizer.json names one.
  std::array<int32_t, 256> byte_ids;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string entry;
    AppendUtf8(entry, kByteAlphabet.CodeOf(static_cast<unsigned char>(byte)));
    const auto found = ids.find(entry);
    self->all_bytes_ = self->all_bytes_ && found != ids.end();
    byte_ids[byte] = found != ids.end() ? found->second : made.unk.value_or(BpeMerger::kNoToken);
  }
  self->bpe_ = std::make_unique<BpeMerger>(merges, byte_ids);

  self->bytes_.resize(vocabulary);
  self->special_.resize(vocabulary);
  for (size_t id = 0; id < vocabulary; ++id) {
    auto bytes = kByteAlphabet.Bytes(made.tokens[id]);
    self->bytes_[id] = bytes ? std::move(*bytes) : made.tokens[id];
  }
  for (const AddedToken& token : made.added) {
    const auto id = static_cast<size_t>(token.id);
    self->bytes_[id] = token.content;
    if (token.special) self->special_[id] = true;
  }
  for (const BpeMerge& merge : merges) {
    self->token_bytes_max_ =
        std::max(self->token_bytes_max_, self->bytes_[static_cast<size_t>(merge.merged)].size());
  }
  if (made.ignore_merges) {
    for (size_t id = 0; id < vocabulary; ++id) {
      const TokenType type = made.types[id];
      if (type != TokenType::kNormal || self->bytes_[id].empty()) continue;
      self->words_.emplace(self->bytes_[id], static_cast<int32_t>(id));
      self->token_bytes_max_ = std::max(self->token_bytes_max_, self->bytes_[id].size());
    }
  }
  self->spec_.tokens = {};
  self->spec_.types = {};
  self->spec_.merges = {};
  return self;
}

bool Tokenizer::EncodeWords(std::string_view text, size_t tokens_max,
                            std::vector<int32_t>& out) const {
  bool fits = true;
  SplitWords(spec_.pre, text, [&](std::string_view word) {
    // No merge gives a token longer than token_bytes_max_: too long a word is refused unmerged.
    if (all_bytes_ && word.size() / token_bytes_max_ > tokens_max - out.size()) return fits = false;
    if (!words_.empty()) {
      if (const auto found = words_.find(word); found != words_.end()) {
        out.push_back(found->second);
        return fits = out.size() <= tokens_max;
      }
    }
    bpe_->Encode(word, out);
    return fits = out.size() <= tokens_max;
  });
  return fits;
}

bool Tokenizer::EncodeNormalized(std::string_view text, const EncodeOptions& options,
                                 std::vector<int32_t>& out) const {
  const std::string nfc = spec_.nfc ? ToNfc(text) : std::string();
  const std::string_view normal = spec_.nfc ? std::string_view(nfc) : text;
  std::vector<AddedTokenMatcher::Piece> pieces;
  if (normalized_added_.empty()) {
    pieces.push_back({normal, -1});
  } else {
    normalized_added_.Split(normal, options.parse_special, pieces);
  }
  for (const auto& piece : pieces) {
    if (piece.id >= 0) {
      out.push_back(piece.id);
    } else if (!EncodeWords(piece.text, options.tokens_max, out)) {
      return false;
    }
    if (out.size() > options.tokens_max) return false;
  }
  return true;
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                               const EncodeOptions& options) const {
  const auto too_many = [&] {
    return Status::Invalid("the text of {} bytes has more than {} tokens", text.size(),
                           options.tokens_max);
  };
  if (text.size() > kTextBytesMax) {
    return Status::Invalid("a text of {} bytes; at most {} are possible", text.size(),
                           kTextBytesMax);
  }
  std::string replaced;
  std::string_view valid = text;
  if (!IsValidUtf8(text)) valid = replaced = ReplaceInvalidUtf8(text);

  std::vector<AddedTokenMatcher::Piece> pieces;
  if (raw_added_.empty()) {
    if (!valid.empty()) pieces.push_back({valid, -1});
  } else {
    raw_added_.Split(valid, options.parse_special, pieces);
  }
  std::vector<int32_t> out;
  if (options.add_special_tokens) out = spec_.prefix_ids;
  for (const auto& piece : pieces) {
    if (piece.id >= 0) {
      out.push_back(piece.id);
      if (out.size() > options.tokens_max) return too_many();
    } else if (!EncodeNormalized(piece.text, options, out)) {
      return too_many();
    }
  }
  if (options.add_special_tokens) {
    out.insert(out.end(), spec_.suffix_ids.begin(), spec_.suffix_ids.end());
  }
  if (out.size() > options.tokens_max) return too_many();
  return out;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string out;
  Utf8Assembler assembler;
  for (const int32_t id : ids) {
    if (options.skip_special_tokens && IsSpecial(id)) continue;
    assembler.Feed(TokenBytes(id), out);
  }
  assembler.Finish(out);
  return out;
}

std::optional<int32_t> Tokenizer::AddedTokenId(std::string_view content) const {
  for (const AddedToken& token : spec_.added) {
    if (token.content == content) return token.id;
  }
  return std::nullopt;
}

}  // namespace weft::text
