// tokenizer.json and tokenizer_config.json.  What changes tokens is understood or refused; what
// only serves training, padding or offsets is passed over.
#include <limits>

#include "base/json.h"
#include "text/tokenizer_spec.h"

namespace weft::text {
namespace {

constexpr size_t kJsonBytesMax = 128 << 20;

std::string_view StringAt(const Json& json, std::string_view key) {
  const Json* value = json.Find(key);
  return value && value->is_string() ? std::string_view(value->as_string()) : "";
}

bool BoolAt(const Json& json, std::string_view key, bool otherwise = false) {
  const Json* value = json.Find(key);
  return value && value->is_bool() ? value->as_bool() : otherwise;
}

const Json* PartAt(const Json& json, std::string_view key) {
  const Json* value = json.Find(key);
  return value && !value->is_null() ? value : nullptr;
}

// The stages of a pre-tokenizer, a Sequence opened; see PreTokenizerFromStages().
Status AppendStages(const Json& pre, std::vector<std::string>& stages) {
  const std::string_view type = StringAt(pre, "type");
  if (type == "Sequence") {
    const Json* parts = pre.Find("pretokenizers");
    if (!parts || !parts->is_array())
      return Status::Invalid("pre_tokenizer.pretokenizers is no list");
    for (const Json& part : parts->as_array()) {
      if (StringAt(part, "type") == "Sequence") {
        return Status::Unsupported("pre_tokenizer: a Sequence in a Sequence");
      }
      WEFT_RETURN_IF_ERROR(AppendStages(part, stages));
    }
    return Status::Ok();
  }
  if (type == "ByteLevel") {
    if (BoolAt(pre, "add_prefix_space", true)) {
      return Status::Unsupported("pre_tokenizer: ByteLevel with add_prefix_space");
    }
    stages.push_back(BoolAt(pre, "use_regex", true) ? "ByteLevel regex" : "ByteLevel");
  } else if (type == "Digits") {
    stages.push_back(BoolAt(pre, "individual_digits") ? "Digits" : "Digits in runs");
  } else if (type == "Split") {
    const Json* pattern = pre.Find("pattern");
    const std::string_view regex = pattern ? StringAt(*pattern, "Regex") : "";
    if (StringAt(pre, "behavior") != "Isolated" || BoolAt(pre, "invert") || regex.empty()) {
      return Status::Unsupported("pre_tokenizer: a Split that is no isolated regular expression");
    }
    stages.push_back("Split " + std::string(regex));
  } else {
    return Status::Unsupported("pre_tokenizer type '{:.64}'", type);
  }
  return Status::Ok();
}

Status ReadNormalizer(const Json& json, TokenizerSpec& spec) {
  const Json* normalizer = PartAt(json, "normalizer");
  if (!normalizer) return Status::Ok();
  const std::string_view type = StringAt(*normalizer, "type");
  if (type == "Sequence") {
    const Json* parts = normalizer->Find("normalizers");
    if (parts && parts->is_array() && parts->as_array().empty()) return Status::Ok();
  }
  if (type != "NFC") return Status::Unsupported("normalizer type '{:.64}'; NFC is known", type);
  spec.nfc = true;
  return Status::Ok();
}

Status PlaceToken(TokenizerSpec& spec, int64_t id, const std::string& content) {
  if (id < 0 || id >= static_cast<int64_t>(kVocabularyMax)) {
    return Status::Invalid("token id {} of '{:.64}' is not in 0..{}", id, content,
                           kVocabularyMax - 1);
  }
  const auto at = static_cast<size_t>(id);
  if (at >= spec.tokens.size()) {
    spec.tokens.resize(at + 1);
    spec.types.resize(at + 1, TokenType::kUnused);
  }
  if (spec.types[at] != TokenType::kUnused && spec.tokens[at] != content) {
    return Status::Invalid("token id {} is both '{:.64}' and '{:.64}'", id, spec.tokens[at],
                           content);
  }
  spec.tokens[at] = content;
  spec.types[at] = TokenType::kNormal;
  return Status::Ok();
}

Status ReadModel(const Json& model, TokenizerSpec& spec) {
  if (const auto type = StringAt(model, "type"); type != "BPE" && !type.empty()) {
    return Status::Unsupported("model.type '{:.64}'; BPE is known", type);
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!StringAt(model, key).empty()) return Status::Unsupported("model.{} is set", key);
  }
  if (const Json* dropout = PartAt(model, "dropout");
      dropout && dropout->is_number() && dropout->as_double() != 0) {
    return Status::Unsupported("model.dropout is set");
  }
  const Json* vocab = model.Find("vocab");
  const Json* merges = model.Find("merges");
  if (!vocab || !vocab->is_object() || !merges || !merges->is_array()) {
    return Status::Invalid("model.vocab must be an object and model.merges a list");
  }
  for (const auto& [content, id] : vocab->as_object()) {
    if (!id.is_int()) return Status::Invalid("model.vocab['{:.64}'] is no integer", content);
    WEFT_RETURN_IF_ERROR(PlaceToken(spec, id.as_int(), content));
  }
  spec.merges.reserve(merges->as_array().size());
  for (const Json& merge : merges->as_array()) {
    const size_t rank = spec.merges.size();
    if (merge.is_string()) {
      const std::string& both = merge.as_string();
      const size_t space = both.find(' ');
      if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
        return Status::Invalid("model.merges[{}] is not two parts with one space between", rank);
      }
      spec.merges.emplace_back(both.substr(0, space), both.substr(space + 1));
    } else if (merge.is_array() && merge.as_array().size() == 2 &&
               merge.as_array()[0].is_string() && merge.as_array()[1].is_string()) {
      spec.merges.emplace_back(merge.as_array()[0].as_string(), merge.as_array()[1].as_string());
    } else {
      return Status::Invalid("model.merges[{}] is neither a pair nor a string", rank);
    }
  }
  spec.ignore_merges = BoolAt(model, "ignore_merges");
  if (const std::string_view unk = StringAt(model, "unk_token"); !unk.empty()) {
    const Json* id = vocab->Find(unk);
    if (!id) return Status::Invalid("model.unk_token '{:.64}' is not in the vocabulary", unk);
    spec.unk = static_cast<int32_t>(id->as_int());
  }
  return Status::Ok();
}

Status ReadAddedTokens(const Json& json, TokenizerSpec& spec) {
  const Json* list = PartAt(json, "added_tokens");
  if (!list) return Status::Ok();
  if (!list->is_array()) return Status::Invalid("added_tokens is no list");
  for (const Json& entry : list->as_array()) {
    const Json* id = entry.Find("id");
    if (!id || !id->is_int()) return Status::Invalid("an entry of added_tokens has no id");
    AddedToken token{.content = std::string(StringAt(entry, "content")),
                     .special = BoolAt(entry, "special"),
                     .lstrip = BoolAt(entry, "lstrip"),
                     .rstrip = BoolAt(entry, "rstrip"),
                     .single_word = BoolAt(entry, "single_word"),
                     .normalized = BoolAt(entry, "normalized")};
    WEFT_RETURN_IF_ERROR(PlaceToken(spec, id->as_int(), token.content));
    token.id = static_cast<int32_t>(id->as_int());
    spec.types[static_cast<size_t>(token.id)] =
        token.special ? TokenType::kControl : TokenType::kUserDefined;
    spec.added.push_back(std::move(token));
  }
  return Status::Ok();
}

// The id of an added token by its content.
std::optional<int32_t> AddedId(const TokenizerSpec& spec, std::string_view content) {
  for (const AddedToken& token : spec.added) {
    if (!content.empty() && token.content == content) return token.id;
  }
  return std::nullopt;
}

// TemplateProcessing's "single": the special tokens before and after the text.
Status ReadTemplateProcessing(const Json& processor, TokenizerSpec& spec) {
  const Json* single = processor.Find("single");
  if (!single || !single->is_array()) return Status::Invalid("post_processor.single is no list");
  bool after = false;
  for (const Json& item : single->as_array()) {
    if (item.Find("Sequence")) {
      if (after) return Status::Unsupported("post_processor.single has the text twice");
      after = true;
      continue;
    }
    const Json* special = item.Find("SpecialToken");
    if (!special) return Status::Invalid("post_processor.single has an unknown entry");
    const auto id = AddedId(spec, StringAt(*special, "id"));
    if (!id) {
      return Status::Invalid("post_processor names '{:.64}', which is no added token",
                             StringAt(*special, "id"));
    }
    (after ? spec.suffix_ids : spec.prefix_ids).push_back(*id);
  }
  return Status::Ok();
}

Status ReadPostProcessor(const Json& processor, TokenizerSpec& spec) {
  const std::string_view type = StringAt(processor, "type");
  if (type == "TemplateProcessing") return ReadTemplateProcessing(processor, spec);
  if (type == "ByteLevel") return Status::Ok();  // moves offsets only
  if (type != "Sequence") return Status::Unsupported("post_processor type '{:.64}'", type);
  const Json* parts = processor.Find("processors");
  if (!parts || !parts->is_array()) return Status::Invalid("post_processor.processors is no list");
  for (const Json& part : parts->as_array()) {
    if (StringAt(part, "type") == "Sequence") {
      return Status::Unsupported("post_processor: a Sequence in a Sequence");
    }
    WEFT_RETURN_IF_ERROR(ReadPostProcessor(part, spec));
  }
  return Status::Ok();
}

// "bos_token" and the like are a string or an object with "content".
std::string_view SpecialTokenAt(const Json& config, std::string_view key) {
  const Json* value = config.Find(key);
  if (!value) return "";
  return value->is_object() ? StringAt(*value, "content") : StringAt(config, key);
}

// A template, or a list of named ones of which "default" counts.
std::string_view ChatTemplateIn(const Json& config) {
  const Json* value = config.Find("chat_template");
  if (!value || !value->is_array()) return StringAt(config, "chat_template");
  for (const Json& entry : value->as_array()) {
    if (StringAt(entry, "name") == "default") return StringAt(entry, "template");
  }
  return "";
}

Status ReadConfig(const Json& config, TokenizerSpec& spec) {
  spec.bos = AddedId(spec, SpecialTokenAt(config, "bos_token"));
  spec.eos = AddedId(spec, SpecialTokenAt(config, "eos_token"));
  spec.pad = AddedId(spec, SpecialTokenAt(config, "pad_token"));
  spec.chat_template = ChatTemplateIn(config);
  if (BoolAt(config, "add_bos_token") && spec.prefix_ids.empty()) {
    if (!spec.bos) return Status::Invalid("add_bos_token is true, but bos_token is no added token");
    spec.prefix_ids.push_back(*spec.bos);
  }
  return Status::Ok();
}

Status ReadTokenizer(const Json& json, TokenizerSpec& spec) {
  const Json* model = PartAt(json, "model");
  const Json* pre = PartAt(json, "pre_tokenizer");
  if (!model) return Status::Invalid("there is no model");
  if (!pre) return Status::Unsupported("there is no pre_tokenizer; weft reads byte-level BPE only");
  std::vector<std::string> stages;
  WEFT_RETURN_IF_ERROR(AppendStages(*pre, stages));
  WEFT_ASSIGN_OR_RETURN(spec.pre, PreTokenizerFromStages(stages));
  WEFT_RETURN_IF_ERROR(ReadNormalizer(json, spec));
  WEFT_RETURN_IF_ERROR(ReadModel(*model, spec));
  WEFT_RETURN_IF_ERROR(ReadAddedTokens(json, spec));
  if (const Json* processor = PartAt(json, "post_processor")) {
    WEFT_RETURN_IF_ERROR(ReadPostProcessor(*processor, spec));
  }
  return Status::Ok();
}

}  // namespace

Result<TokenizerSpec> SpecFromTokenizerJson(const TokenizerFiles& files) {
  TokenizerSpec spec;
  const auto json = ParseJson(files.tokenizer_json, {.bytes_max = kJsonBytesMax});
  if (!json.ok()) return json.status().In("tokenizer.json");
  if (Status status = ReadTokenizer(*json, spec); !status.ok()) return status.In("tokenizer.json");
  if (!files.tokenizer_config_json.empty()) {
    const auto config = ParseJson(files.tokenizer_config_json);
    if (!config.ok()) return config.status().In("tokenizer_config.json");
    if (Status status = ReadConfig(*config, spec); !status.ok()) {
      return status.In("tokenizer_config.json");
    }
  }
  if (!files.chat_template_jinja.empty()) spec.chat_template = files.chat_template_jinja;
  return spec;
}

}  // namespace weft::text
