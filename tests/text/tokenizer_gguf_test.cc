#include <gtest/gtest.h>

#include "test_data.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

// A vocabulary of the golden families, told the way a GGUF file tells it.
GgufTokenizerFields FieldsOf(const std::string& family, const std::string& pre) {
  const std::string json = ReadTestFile("tokenizer_" + family + ".json");
  const auto spec = SpecFromTokenizerJson({.tokenizer_json = json});
  EXPECT_TRUE(spec.ok());
  GgufTokenizerFields fields{.model = "gpt2", .pre = pre, .tokens = spec->tokens};
  for (const TokenType type : spec->types) fields.types.push_back(static_cast<int32_t>(type));
  for (const auto& [left, right] : spec->merges) fields.merges.push_back(left + " " + right);
  return fields;
}

TEST(TokenizerGguf, GivesTheIdsOfTheSameVocabularyInJson) {
  const std::pair<const char*, const char*> families[] = {
      {"gpt2", "gpt-2"},      {"smollm", "smollm"}, {"llama3", "llama-bpe"},
      {"qwen2", "qwen2"},     {"qwen35", "qwen35"}, {"deepseek", "deepseek-v3"},
      {"gpt4o", "minimax-m2"}};
  const Json corpus = ReadTestJson("corpus.json");
  for (const auto& [family, pre] : families) {
    auto spec = SpecFromGguf(FieldsOf(family, pre));
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    const auto gguf = Tokenizer::Create(std::move(*spec));
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    const auto json = MakeTestTokenizer(family);
    for (const Json& text : corpus.Find("strings")->as_array()) {
      EXPECT_EQ(*(*gguf)->Encode(text.as_string()), *json->Encode(text.as_string())) << family;
    }
  }
}

TEST(TokenizerGguf, RefusesWhatItWouldHaveToGuessOrWhatContradictsItself) {
  const GgufTokenizerFields good = FieldsOf("smollm", "smollm");
  ASSERT_TRUE(SpecFromGguf(good).ok());
  const auto refuses = [&](auto change, StatusCode code, std::string_view says) {
    GgufTokenizerFields fields = good;
    change(fields);
    auto spec = SpecFromGguf(fields);
    Status status = spec.status();
    if (spec.ok()) status = Tokenizer::Create(std::move(*spec)).status();
    EXPECT_EQ(status.code(), code) << says;
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  };
  using F = GgufTokenizerFields;
  refuses([](F& f) { f.model = "llama"; }, StatusCode::kUnsupported, "byte-level BPE");
  refuses([](F& f) { f.pre = "default"; }, StatusCode::kUnsupported, "'default'");
  refuses([](F& f) { f.pre = ""; }, StatusCode::kUnsupported, "guess");
  refuses([](F& f) { f.add_space_prefix = true; }, StatusCode::kUnsupported, "add_space_prefix");
  refuses([](F& f) { f.tokens.clear(); }, StatusCode::kInvalid, "0 entries");
  refuses([](F& f) { f.types.pop_back(); }, StatusCode::kInvalid, "token_type");
  refuses([](F& f) { f.types[3] = 7; }, StatusCode::kInvalid, "token_type[3] is 7");
  refuses([](F& f) { f.bos = 128000; }, StatusCode::kInvalid, "bos_token_id is 128000");
  refuses([](F& f) { f.eos = -1; }, StatusCode::kInvalid, "eos_token_id is -1");
  refuses([](F& f) { f.pad = int64_t{1} << 32; }, StatusCode::kInvalid, "padding_token_id");
  refuses([](F& f) { f.unk = 1 << 30; }, StatusCode::kInvalid, "unknown_token_id");
  refuses([](F& f) { f.add_bos = true; }, StatusCode::kInvalid, "without a bos id");
  refuses([](F& f) { f.merges[0] = "ab"; }, StatusCode::kInvalid, "no space");
  refuses([](F& f) { f.merges[0] = "a nowhere"; }, StatusCode::kInvalid, "does not exist");
  refuses([](F& f) { f.tokens[50].assign(70000, 'x'); }, StatusCode::kInvalid, "70000 bytes");
  refuses([](F& f) { f.tokens[50] = "\xff"; }, StatusCode::kInvalid, "UTF-8");
  refuses([](F& f) { f.tokens[0].assign(2000, 'x'); }, StatusCode::kInvalid,
          "added token 0 has 2000");
}

TEST(TokenizerGguf, PutsTheBosInFrontWhenTold) {
  GgufTokenizerFields fields = FieldsOf("llama3", "llama-bpe");
  fields.bos = 1;
  fields.add_bos = true;
  auto spec = SpecFromGguf(fields);
  ASSERT_TRUE(spec.ok());
  const auto tokenizer = Tokenizer::Create(std::move(*spec));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Encode("x", {.add_special_tokens = true})->front(), 1);
  EXPECT_EQ((*tokenizer)->Encode("x")->size(), 1u);
}

}  // namespace
}  // namespace weft::text
