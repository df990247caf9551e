// The real model's tokenizer and template as its GGUF file has them, against Hugging Face
// `tokenizers` and jinja2 (tools/oracle/make_smollm2_tokenizer.py, make_smollm2_golden.py).
#include <gtest/gtest.h>

#include "base/hash.h"
#include "cli/load.h"
#include "support/checkpoints.h"
#include "text/test_data.h"

namespace weft::cli {
namespace {

class SmolLm2Text : public ::testing::Test {
 protected:
  void SetUp() override {
    if (support::RealModel().empty()) GTEST_SKIP() << "WEFT_TEST_MODEL is not set";
    NullLog log;
    ModelFlags flags;
    flags.model = support::RealModel();
    auto model = LoadModel(flags, &log);
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = std::move(*model);
    ASSERT_NE(model_.tokenizer, nullptr);
    ASSERT_NE(model_.chat_template, nullptr);
  }
  std::vector<int32_t> Encode(const std::string& text, const text::EncodeOptions& options = {}) {
    auto ids = model_.tokenizer->Encode(text, options);
    EXPECT_TRUE(ids.ok()) << ids.status().message();
    return ids.ok() ? *ids : std::vector<int32_t>{};
  }
  LoadedModel model_;
};

TEST_F(SmolLm2Text, IdsAreThoseOfTokenizers) {
  const Json corpus = text::ReadTestJson("corpus.json");
  const Json golden = text::ReadTestJson("golden_smollm2.json");
  const Json::Array& strings = corpus.Find("strings")->as_array();
  const Json::Array& ids = golden.Find("ids")->as_array();
  ASSERT_EQ(strings.size(), ids.size());
  ASSERT_GT(ids.size(), 400u);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string& text = strings[i].as_string();
    const auto expected = text::IdsOf(ids[i]);
    EXPECT_EQ(Encode(text), expected) << i << ": " << DumpJson(text, {.ascii_only = true});
    const Json* unparsed = golden.Find("unparsed")->Find(std::to_string(i));
    EXPECT_EQ(Encode(text, {.parse_special = false}), text::IdsOf(unparsed ? *unparsed : ids[i]))
        << i;
    const Json* other = golden.Find("text")->Find(std::to_string(i));
    EXPECT_EQ(model_.tokenizer->Decode(expected, {.skip_special_tokens = false}),
              other ? other->as_string() : text)
        << i;
  }
}

TEST_F(SmolLm2Text, TemplateGivesTheIdsOfTheChat) {
  const auto context = ParseJson(R"({"add_generation_prompt": true, "messages": [
      {"role": "user", "content": "What is the capital of France?"}]})");
  ASSERT_TRUE(context.ok());
  auto text = model_.chat_template->Render(*context);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const support::Golden golden(WEFT_TESTS_DIR "/models/data/smollm2_golden.safetensors");
  EXPECT_EQ(Encode(*text), golden.Get<int32_t>("chat.ids")) << *text;
}

}  // namespace
}  // namespace weft::cli
