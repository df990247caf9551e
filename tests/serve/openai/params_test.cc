#include "serve/openai/params.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::serve {
namespace {

Json Parse(const std::string& text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << text << json.status().message();
  return json.ok() ? *json : Json();
}

std::optional<ApiError> Completion(const std::string& fields, CompletionRequest* out) {
  return ParseCompletion(Parse("{\"prompt\":\"a\"" + (fields.empty() ? "" : "," + fields) + "}"),
                         {}, out);
}
std::optional<ApiError> Chat(const std::string& fields, ChatRequest* out) {
  return ParseChat(Parse("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]" +
                         (fields.empty() ? "" : "," + fields) + "}"),
                   {}, out);
}

TEST(Params, AbsentAndNullMeanTheSame) {
  CompletionRequest plain, nulls;
  ASSERT_FALSE(Completion("", &plain));
  ASSERT_FALSE(Completion(
      R"("logprobs":null,"stop":null,"seed":null,"n":null,"temperature":null,"stream":null,
         "logit_bias":null,"stream_options":null,"response_format":null,"tools":null,
         "max_tokens":null,"suffix":null,"top_k":null,"user":null)",
      &nulls));
  for (const CompletionRequest* r : {&plain, &nulls}) {
    EXPECT_EQ(r->common.n, 1);
    EXPECT_FALSE(r->common.stream);
    EXPECT_EQ(r->common.sampling.temperature, 1.0f);
    EXPECT_EQ(r->common.sampling.top_k, 0);
    EXPECT_FALSE(r->common.sampling.seed);
    EXPECT_FALSE(r->common.sampling.logprobs);
    EXPECT_FALSE(r->common.max_tokens);
    EXPECT_TRUE(r->common.unknown.empty());
  }
}

TEST(Params, EveryIntegerFieldIsRangeChecked) {
  struct Field {
    std::string name;
    std::string lowest, highest;
  };
  const std::vector<Field> fields = {{"n", "1", "128"},
                                     {"max_tokens", "1", "2147483647"},
                                     {"top_k", "-1", "2147483647"},
                                     {"logprobs", "0", "20"},
                                     {"min_tokens", "0", "2147483647"},
                                     {"priority", "-2147483648", "2147483647"},
                                     {"seed", "-9223372036854775808", "9223372036854775807"}};
  for (const Field& field : fields) {
    CompletionRequest out;
    for (const std::string& good :
         {field.lowest, field.highest, std::string("1"), std::string("1.0")}) {
      EXPECT_FALSE(Completion("\"" + field.name + "\":" + good, &out)) << field.name << " " << good;
    }
    for (const char* bad : {"\"1\"", "true", "1.5", "[]", "{}", "1e300", "18446744073709551615"}) {
      const auto error = Completion("\"" + field.name + "\":" + bad, &out);
      ASSERT_TRUE(error) << field.name << " " << bad;
      EXPECT_EQ(error->status, 400);
      EXPECT_EQ(error->param, field.name);
    }
    if (field.name == "seed") continue;
    for (const char* bad : {"-9223372036854775808", "9007199254740992"}) {
      EXPECT_TRUE(Completion("\"" + field.name + "\":" + bad, &out)) << field.name << " " << bad;
    }
  }
}

TEST(Params, EveryFloatFieldHasAClosedFiniteRange) {
  struct Field {
    std::string name;
    std::vector<std::string> good, bad;
  };
  const std::vector<Field> fields = {{"temperature", {"0", "2", "1e-7", "0.5"}, {"-0.1", "2.1"}},
                                     {"top_p", {"1", "0.001"}, {"0", "1.01", "-1", "1e-300"}},
                                     {"min_p", {"0", "1"}, {"-0.1", "1.1"}},
                                     {"presence_penalty", {"-2", "2"}, {"-2.1", "2.1"}},
                                     {"frequency_penalty", {"-2", "2"}, {"-2.1", "2.1"}},
                                     {"repetition_penalty", {"0.1", "1.3"}, {"0", "-1", "1e9"}}};
  for (const Field& field : fields) {
    CompletionRequest out;
    for (const auto& good : field.good) {
      EXPECT_FALSE(Completion("\"" + field.name + "\":" + good, &out)) << field.name << " " << good;
    }
    std::vector<std::string> bad = field.bad;
    for (const char* b : {"\"1\"", "true", "[1]", "1e300"}) bad.push_back(b);
    for (const auto& b : bad) {
      const auto error = Completion("\"" + field.name + "\":" + b, &out);
      ASSERT_TRUE(error) << field.name << " " << b;
      EXPECT_EQ(error->param, field.name);
    }
  }
  // Numbers beyond a double never get this far.
  EXPECT_FALSE(ParseJson("{\"temperature\":1e999}").ok());
  EXPECT_FALSE(ParseJson("{\"temperature\":NaN}").ok());
}

TEST(Params, TinyTemperaturesAreGreedyOrRaised) {
  CompletionRequest out;
  ASSERT_FALSE(Completion("\"temperature\":1e-6", &out));
  EXPECT_EQ(out.common.sampling.temperature, 0.0f);
  ASSERT_FALSE(Completion("\"temperature\":0.001", &out));
  EXPECT_EQ(out.common.sampling.temperature, 0.01f);
}

TEST(Params, AbsentSamplingFieldsTakeTheModelsDefaults) {
  const ParamRules rules{.defaults = {.temperature = 0.6, .top_p = 0.95, .top_k = 20}};
  CompletionRequest out;
  ASSERT_FALSE(ParseCompletion(Parse(R"({"prompt":"a","top_k":-1})"), rules, &out));
  EXPECT_EQ(out.common.sampling.temperature, 0.6f);
  EXPECT_EQ(out.common.sampling.top_p, 0.95f);
  EXPECT_EQ(out.common.sampling.top_k, 0);
}

TEST(Params, PromptsComeInFourForms) {
  const auto count = [](const std::string& prompt) -> int {
    CompletionRequest out;
    if (ParseCompletion(Parse("{\"prompt\":" + prompt + "}"), {}, &out)) return -1;
    return static_cast<int>(out.prompts.size());
  };
  EXPECT_EQ(count("\"a\""), 1);
  EXPECT_EQ(count("[\"a\",\"b\"]"), 2);
  EXPECT_EQ(count("[1,2,3]"), 1);
  EXPECT_EQ(count("[[1,2],[3]]"), 2);
  for (const char* bad : {"[]", "[[]]", "3", "{}", "[-1]", "[1,\"a\"]", "[1.5]", "[2147483648]",
                          "[true]", "null", "[[1],[-5]]"}) {
    EXPECT_EQ(count(bad), -1) << bad;
  }
}

TEST(Params, FanOutIsBoundedBeforeAnythingIsMade) {
  std::string many = "[\"a\"";
  for (int i = 1; i < 1024; ++i) many += ",\"a\"";
  CompletionRequest out;
  EXPECT_FALSE(ParseCompletion(Parse("{\"prompt\":" + many + "]}"), {}, &out));
  CompletionRequest more;
  EXPECT_TRUE(ParseCompletion(Parse("{\"n\":2,\"prompt\":" + many + "]}"), {}, &more));
  EXPECT_TRUE(ParseCompletion(Parse("{\"prompt\":" + many + ",\"a\"]}"), {}, &more));
}

TEST(Params, StopStringsAreFewAndNeitherEmptyNorLong) {
  CompletionRequest out;
  ASSERT_FALSE(Completion("\"stop\":\"x\"", &out));
  EXPECT_EQ(out.common.stop, std::vector<std::string>{"x"});
  EXPECT_FALSE(Completion(R"("stop":["a","b","c","d"])", &out));
  EXPECT_FALSE(Completion("\"stop\":[]", &out));
  for (const std::string& bad :
       {std::string(R"(["a","b","c","d","e"])"), std::string("\"\""), std::string("[1]"),
        std::string("7"), "\"" + std::string(257, 'a') + "\""}) {
    EXPECT_TRUE(Completion("\"stop\":" + bad, &out)) << bad;
  }
}

TEST(Params, IdsThatAreNoIdsAreRefused) {
  CompletionRequest out;
  for (const char* bad :
       {R"("stop_token_ids":[-1])", R"("stop_token_ids":["a"])", R"("stop_token_ids":7)",
        R"("logit_bias":{"-1":1})", R"("logit_bias":{"a":1})", R"("logit_bias":{"1x":1})",
        R"("logit_bias":{"1":101})", R"("logit_bias":{"1":"2"})", R"("logit_bias":[1])",
        R"("logit_bias":{"1":1,"01":2})"}) {
    EXPECT_TRUE(Completion(bad, &out)) << bad;
  }
  CompletionRequest good;
  ASSERT_FALSE(Completion(R"("logit_bias":{"5":-100,"6":2.5},"stop_token_ids":[7])", &good));
  EXPECT_EQ(good.common.sampling.logit_bias.size(), 2u);
}

TEST(Params, WhatCannotBeDoneYetIsRefusedByName) {
  for (const char* field :
       {R"("tools":[{"type":"function"}])", R"("response_format":{"type":"json_object"})",
        R"("response_format":{"type":"json_schema","json_schema":{}})",
        R"("structured_outputs":{"regex":"a"})", R"("use_beam_search":true)",
        R"("tool_choice":"required")", R"("bad_words":["x"])",
        R"("continue_final_message":true)"}) {
    ChatRequest out;
    const auto error = Chat(field, &out);
    ASSERT_TRUE(error) << field;
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->code, "not_supported") << field;
    EXPECT_NE(std::string(field).find(error->param), std::string::npos) << error->param;
  }
  for (const char* field :
       {R"("tools":[])", R"("tool_choice":"none")", R"("response_format":{"type":"text"})"}) {
    ChatRequest out;
    EXPECT_FALSE(Chat(field, &out)) << field;
  }
}

TEST(Params, UnknownFieldsAreLeftAloneAndRemembered) {
  ChatRequest out;
  ASSERT_FALSE(Chat("\"n_discard\":-1,\"user\":\"me\"", &out));
  EXPECT_EQ(out.common.unknown, std::vector<std::string>{"n_discard"});
}

TEST(Params, MessagesAreReadInEveryFormThatClientsSend) {
  ChatRequest out;
  ASSERT_FALSE(ParseChat(Parse(R"({"messages":[{"role":"system","content":"s"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"tool_calls":[]}]})"),
                         {}, &out));
  EXPECT_EQ(out.messages.as_array()[1].Find("content")->as_string(), "a\nb");
  for (const char* bad : {"[]", "{}", "\"a\"", "[1]", "[{}]", R"([{"role":"user"}])",
                          R"([{"role":"king","content":"a"}])", R"([{"role":7,"content":"a"}])",
                          R"([{"role":"user","content":7}])",
                          R"([{"role":"user","content":[{"type":"image_url","image_url":"x"}]}])",
                          R"([{"role":"user","content":[{"type":"text"}]}])"}) {
    ChatRequest other;
    const auto error = ParseChat(Parse("{\"messages\":" + std::string(bad) + "}"), {}, &other);
    ASSERT_TRUE(error) << bad;
    EXPECT_EQ(error->param.rfind("messages", 0), 0u) << error->param;
  }
}

TEST(Params, TemplateArgumentsAreScalarsAndNotTheServers) {
  for (const char* bad : {R"({"a":[1]})", R"({"messages":"x"})", R"({"tokenize":true})", "[]"}) {
    ChatRequest out;
    EXPECT_TRUE(Chat("\"chat_template_kwargs\":" + std::string(bad), &out)) << bad;
  }
  ChatRequest out;
  EXPECT_FALSE(Chat(R"("chat_template_kwargs":{"enable_thinking":false})", &out));
}

TEST(Params, ChatLogprobsNeedToBeAskedForTwice) {
  ChatRequest out;
  EXPECT_TRUE(Chat("\"top_logprobs\":2", &out));
  ChatRequest good;
  ASSERT_FALSE(Chat("\"logprobs\":true,\"top_logprobs\":2", &good));
  EXPECT_EQ(good.common.sampling.logprobs, 2);
  ChatRequest completion;
  ASSERT_FALSE(Chat("\"max_tokens\":5,\"max_completion_tokens\":7", &completion));
  EXPECT_EQ(completion.common.max_tokens, 7);
}

TEST(Params, StreamOptionsNeedAStream) {
  ChatRequest out;
  EXPECT_TRUE(Chat(R"("stream_options":{"include_usage":true})", &out));
  ChatRequest good;
  ASSERT_FALSE(Chat(R"("stream":true,"stream_options":{"include_usage":true})", &good));
  EXPECT_TRUE(good.common.include_usage);
}

}  // namespace
}  // namespace weft::serve
