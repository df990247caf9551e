#include "text/tokenizer_spec.h"

namespace weft::text {
namespace {

Result<std::optional<int32_t>> CheckedId(std::optional<int64_t> id, size_t vocabulary,
                                         std::string_view name) {
  if (!id) return std::optional<int32_t>();
  if (*id < 0 || *id >= static_cast<int64_t>(vocabulary)) {
    return Status::Invalid("tokenizer.ggml.{} is {}, but the vocabulary has {} tokens", name, *id,
                           vocabulary);
  }
  return std::optional<int32_t>(static_cast<int32_t>(*id));
}

}  // namespace

Result<TokenizerSpec> SpecFromGguf(const GgufTokenizerFields& fields) {
  if (fields.model != "gpt2") {
    return Status::Unsupported(
        "tokenizer.ggml.model '{:.64}': weft reads byte-level BPE (\"gpt2\") only", fields.model);
  }
  if (fields.add_space_prefix) {
    return Status::Unsupported("tokenizer.ggml.add_space_prefix is true for byte-level BPE");
  }
  const size_t count = fields.tokens.size();
  if (count == 0 || count > kVocabularyMax) {
    return Status::Invalid("tokenizer.ggml.tokens has {} entries; 1 to {} are possible", count,
                           kVocabularyMax);
  }
  if (!fields.types.empty() && fields.types.size() != count) {
    return Status::Invalid("tokenizer.ggml.token_type has {} entries for {} tokens",
                           fields.types.size(), count);
  }
  TokenizerSpec spec;
  WEFT_ASSIGN_OR_RETURN(spec.pre, PreTokenizerFromGgufName(fields.pre));
  // The names of the Qwen family imply what GGUF has no key for: text in normal form C.  Llama-3
  // likewise takes whole words from the vocabulary.
  spec.nfc = fields.pre == "qwen2" || fields.pre == "qwen35";
  spec.ignore_merges =
      fields.pre == "llama-bpe" || fields.pre == "llama3" || fields.pre == "llama-v3";
  spec.tokens = fields.tokens;
  spec.types.assign(count, TokenType::kNormal);
  for (size_t id = 0; id < fields.types.size(); ++id) {
    const int32_t type = fields.types[id];
    if (type < 1 || type > 6) {
      return Status::Invalid("tokenizer.ggml.token_type[{}] is {}; 1 to 6 are possible", id, type);
    }
    spec.types[id] = static_cast<TokenType>(type);
    const bool control = spec.types[id] == TokenType::kControl;
    if (control || spec.types[id] == TokenType::kUserDefined) {
      spec.added.push_back(
          {.content = fields.tokens[id], .id = static_cast<int32_t>(id), .special = control});
    }
  }
  spec.merges.reserve(fields.merges.size());
  for (size_t rank = 0; rank < fields.merges.size(); ++rank) {
    const std::string& merge = fields.merges[rank];
    const size_t space = merge.size() > 1 ? merge.find(' ', 1) : std::string::npos;
    if (space == std::string::npos) {
      return Status::Invalid("tokenizer.ggml.merges[{}] has no space between its two parts", rank);
    }
    spec.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  WEFT_ASSIGN_OR_RETURN(spec.bos, CheckedId(fields.bos, count, "bos_token_id"));
  WEFT_ASSIGN_OR_RETURN(spec.eos, CheckedId(fields.eos, count, "eos_token_id"));
  WEFT_ASSIGN_OR_RETURN(spec.eot, CheckedId(fields.eot, count, "eot_token_id"));
  // Range-checked and not used: byte-level BPE drops what it has no token for.
  if (auto unk = CheckedId(fields.unk, count, "unknown_token_id"); !unk.ok()) return unk.status();
  WEFT_ASSIGN_OR_RETURN(spec.pad, CheckedId(fields.pad, count, "padding_token_id"));
  if (fields.add_bos) {
    if (!spec.bos) return Status::Invalid("tokenizer.ggml.add_bos_token is true without a bos id");
    spec.prefix_ids.push_back(*spec.bos);
  }
  if (fields.add_eos) {
    if (!spec.eos) return Status::Invalid("tokenizer.ggml.add_eos_token is true without an eos id");
    spec.suffix_ids.push_back(*spec.eos);
  }
  spec.chat_template = fields.chat_template;
  return spec;
}

}  // namespace weft::text
