#include <gtest/gtest.h>

#include "test_data.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

Status Try(const Json& json, std::string_view config = "") {
  auto spec =
      SpecFromTokenizerJson({.tokenizer_json = DumpJson(json), .tokenizer_config_json = config});
  return spec.ok() ? Tokenizer::Create(std::move(*spec)).status() : spec.status();
}

TEST(TokenizerJson, RefusesWhatItWouldHaveToGuessOrWhatContradictsItself) {
  const Json good = ReadTestJson("tokenizer_llama3.json");
  ASSERT_TRUE(Try(good).ok());
  const auto refuses = [&](auto change, StatusCode code, std::string_view says) {
    Json json = good;
    change(json);
    const Status status = Try(json);
    EXPECT_EQ(status.code(), code) << says;
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  };
  const auto model = [](Json& j) -> Json& { return const_cast<Json&>(*j.Find("model")); };
  const auto regex = [](Json& j) -> Json& {
    return const_cast<Json&>(*j.Find("pre_tokenizer")
                                  ->Find("pretokenizers")
                                  ->as_array()[0]
                                  .Find("pattern")
                                  ->Find("Regex"));
  };
  refuses([&](Json& j) { regex(j) = regex(j).as_string() + "|x"; }, StatusCode::kUnsupported,
          "guess");
  refuses([](Json& j) { j.Set("pre_tokenizer", Json()); }, StatusCode::kUnsupported,
          "no pre_tokenizer");
  refuses(
      [](Json& j) {
        j.Set("normalizer", Json(Json::Object{{"type", "NFKC"}}));
      },
      StatusCode::kUnsupported, "NFKC");
  refuses([&](Json& j) { model(j).Set("type", "Unigram"); }, StatusCode::kUnsupported, "Unigram");
  refuses([&](Json& j) { model(j).Set("continuing_subword_prefix", "##"); },
          StatusCode::kUnsupported, "continuing_subword_prefix");
  refuses([&](Json& j) { model(j).Set("merges", Json::Array{"a b c"}); }, StatusCode::kInvalid,
          "merges[0]");
  refuses([&](Json& j) { model(j).Set("merges", Json::Array{"a nowhere"}); }, StatusCode::kInvalid,
          "does not exist");
  refuses(
      [&](Json& j) {
        model(j).Set("vocab", Json(Json::Object{{"a", 1 << 30}}));
      },
      StatusCode::kInvalid, "token id 1073741824");
  refuses(
      [&](Json& j) {
        model(j).Set("vocab", Json(Json::Object{{"a", -1}}));
      },
      StatusCode::kInvalid, "token id -1");
  refuses(
      [&](Json& j) {
        model(j).Set("vocab", Json(Json::Object{{"a", 5}, {"b", 5}}));
      },
      StatusCode::kInvalid, "both 'a' and 'b'");
  refuses([](Json& j) { j.Set("added_tokens", Json::Array{}); }, StatusCode::kInvalid,
          "no added token");
  EXPECT_FALSE(SpecFromTokenizerJson({.tokenizer_json = "{"}).ok());
}

TEST(TokenizerJson, ReadsSpecialTokensAndTheTemplateFromTheConfig) {
  const std::string json = ReadTestFile("tokenizer_qwen2.json");
  const char* config =
      R"({"bos_token":null,"eos_token":{"content":"<|im_end|>"},"pad_token":"<|endoftext|>",
                           "chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})";
  auto spec = SpecFromTokenizerJson({.tokenizer_json = json, .tokenizer_config_json = config});
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->bos, std::nullopt);
  EXPECT_EQ(spec->eos, std::optional<int32_t>(2));
  EXPECT_EQ(spec->pad, std::optional<int32_t>(0));
  EXPECT_EQ(spec->chat_template, "D");
  spec = SpecFromTokenizerJson(
      {.tokenizer_json = json, .tokenizer_config_json = config, .chat_template_jinja = "J"});
  EXPECT_EQ(spec->chat_template, "J");
}

}  // namespace
}  // namespace weft::text
