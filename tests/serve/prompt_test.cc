#include "serve/prompt.h"

#include <gtest/gtest.h>

#include "serve/tiny_tokenizer.h"
#include "text/chat_template.h"

namespace weft::serve {
namespace {

class PromptTest : public testing::Test {
 protected:
  std::unique_ptr<text::Tokenizer> tokenizer_ = MakeTinyTokenizer();
  PromptBuilder builder_{
      .tokenizer = tokenizer_.get(), .max_model_len = 10, .vocab_size = kTinyVocabulary};
  std::vector<int32_t> ids_;
  CommonParams params_;
};

TEST_F(PromptTest, ATextLongerThanTheContextIsNoPrompt) {
  EXPECT_FALSE(builder_.FromText("0123456789", false, &ids_));
  EXPECT_EQ(ids_.size(), 10u);
  const auto error = builder_.FromText(std::string(1 << 20, 'a'), false, &ids_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "context_length_exceeded");
  EXPECT_TRUE(builder_.FromText("", false, &ids_));
}

TEST_F(PromptTest, WithoutATemplateThereIsNoChat) {
  const auto error = builder_.FromChat({}, &ids_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "no_chat_template");
}

TEST_F(PromptTest, TheTemplateSeesMessagesSpecialTokensAndWhatItAsksFor) {
  const auto parsed = text::ChatTemplate::Parse(
      "{{ bos_token }}{{ messages[0].content }}{% if loud %}!{% endif %}");
  ASSERT_TRUE(parsed.ok());
  builder_.chat_template = &parsed.value();
  ChatRequest chat;
  chat.messages = Json(Json::Array{Json(Json::Object{{"role", "user"}, {"content", "hi"}})});
  chat.template_kwargs = Json(Json::Object{{"loud", true}, {"unread", 1}});
  ASSERT_FALSE(builder_.FromChat(chat, &ids_));
  EXPECT_EQ(ids_, (std::vector<int32_t>{kBos, 'h', 'i', '!'}));
}

TEST_F(PromptTest, ATemplateThatRefusesIsTheClientsError) {
  const auto parsed = text::ChatTemplate::Parse("{{ raise_exception('no such role') }}");
  ASSERT_TRUE(parsed.ok());
  builder_.chat_template = &parsed.value();
  ChatRequest chat;
  chat.messages = Json(Json::Array{});
  const auto error = builder_.FromChat(chat, &ids_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, 400);
  EXPECT_NE(error->message.find("no such role"), std::string::npos);
}

TEST_F(PromptTest, TheAnswerFitsWhatThePromptLeaves) {
  EXPECT_FALSE(builder_.FitAnswer(4, std::nullopt, false, &params_));
  EXPECT_EQ(params_.sampling.max_tokens, 6);
  params_.max_tokens = 7;
  EXPECT_TRUE(builder_.FitAnswer(4, std::nullopt, false, &params_));
  EXPECT_FALSE(builder_.FitAnswer(4, std::nullopt, true, &params_));
  EXPECT_EQ(params_.sampling.max_tokens, 6);
  EXPECT_TRUE(builder_.FitAnswer(10, std::nullopt, true, &params_)) << "there is no room at all";
}

TEST_F(PromptTest, EveryListOfIdsIsCheckedAgainstTheVocabulary) {
  const std::vector<int32_t> good = {0, kTinyVocabulary - 1};
  EXPECT_FALSE(builder_.CheckIds(good, "prompt"));
  for (const int32_t bad : {-1, kTinyVocabulary, INT32_MAX, INT32_MIN}) {
    EXPECT_TRUE(builder_.CheckIds(std::span(&bad, 1), "prompt")) << bad;
    params_.sampling.stop_token_ids = {bad};
    EXPECT_TRUE(builder_.FitAnswer(1, std::nullopt, false, &params_));
    params_.sampling.stop_token_ids.clear();
    params_.sampling.logit_bias = {{bad, 1.0f}};
    EXPECT_TRUE(builder_.FitAnswer(1, std::nullopt, false, &params_));
    params_.sampling.logit_bias.clear();
  }
}

}  // namespace
}  // namespace weft::serve
