// Which scanner a model file asks for.
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "text/pre_tokenizer.h"

namespace weft::text {
namespace {

#define WEFT_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define WEFT_TAIL R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"

struct Family {
  PreTokenizer pre;
  std::vector<std::string_view> stages;
};

std::vector<Family> Families() {
  return {
      {PreTokenizer::kGpt2, {"ByteLevel regex"}},
      {PreTokenizer::kSmolLm, {"Digits", "ByteLevel regex"}},
      {PreTokenizer::kLlama3,
       {"Split " WEFT_CONTRACTIONS
        R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" WEFT_TAIL,
        "ByteLevel"}},
      {PreTokenizer::kQwen2,
       {"Split " WEFT_CONTRACTIONS
        R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" WEFT_TAIL,
        "ByteLevel"}},
      {PreTokenizer::kQwen35,
       {"Split " WEFT_CONTRACTIONS
        R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" WEFT_TAIL,
        "ByteLevel"}},
      {PreTokenizer::kDeepSeekV3,
       {R"(Split \p{N}{1,3})", "Split [一-龥぀-ゟ゠-ヿ]+",
        R"(Split [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
        R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" WEFT_TAIL,
        "ByteLevel"}},
      {PreTokenizer::kGpt4o,
       {R"(Split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" WEFT_CONTRACTIONS
        R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" WEFT_CONTRACTIONS
        R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" WEFT_TAIL,
        "ByteLevel"}},
  };
}

#undef WEFT_CONTRACTIONS
#undef WEFT_TAIL

constexpr std::pair<std::string_view, PreTokenizer> kGgufNames[] = {
    {"gpt-2", PreTokenizer::kGpt2},    {"phi-2", PreTokenizer::kGpt2},
    {"smollm", PreTokenizer::kSmolLm}, {"llama-bpe", PreTokenizer::kLlama3},
    {"llama3", PreTokenizer::kLlama3}, {"llama-v3", PreTokenizer::kLlama3},
    {"glm4", PreTokenizer::kLlama3},   {"chatglm-bpe", PreTokenizer::kLlama3},
    {"qwen2", PreTokenizer::kQwen2},   {"deepseek-r1-qwen", PreTokenizer::kQwen2},
    {"qwen35", PreTokenizer::kQwen35}, {"deepseek-v3", PreTokenizer::kDeepSeekV3},
    {"gpt-4o", PreTokenizer::kGpt4o},  {"minimax-m2", PreTokenizer::kGpt4o},
};

}  // namespace

std::string_view PreTokenizerName(PreTokenizer pre) {
  switch (pre) {
    case PreTokenizer::kGpt2: return "gpt-2";
    case PreTokenizer::kSmolLm: return "smollm";
    case PreTokenizer::kLlama3: return "llama-3";
    case PreTokenizer::kQwen2: return "qwen2";
    case PreTokenizer::kQwen35: return "qwen35";
    case PreTokenizer::kDeepSeekV3: return "deepseek-v3";
    case PreTokenizer::kGpt4o: return "gpt-4o";
  }
  return "?";
}

Result<PreTokenizer> PreTokenizerFromStages(std::span<const std::string> stages) {
  for (const Family& family : Families()) {
    if (std::equal(stages.begin(), stages.end(), family.stages.begin(), family.stages.end())) {
      return family.pre;
    }
  }
  return Status::Unsupported(
      "the pre-tokenizer is none that weft knows, and a guess would give wrong tokens: {:.400}",
      fmt::format("{}", fmt::join(stages, " ; ")));
}

Result<PreTokenizer> PreTokenizerFromGgufName(std::string_view name) {
  for (const auto& [known, pre] : kGgufNames) {
    if (name == known) return pre;
  }
  return Status::Unsupported(
      "tokenizer.ggml.pre '{:.64}' is none that weft knows, and a guess would give wrong tokens",
      name);
}

}  // namespace weft::text
