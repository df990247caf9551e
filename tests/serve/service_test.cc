// Covers src/serve/body_reader.cc
#include "serve/service.h"

#include <gtest/gtest.h>

#include <thread>

#include "serve/serve_fixture.h"

namespace weft::serve {
namespace {

TEST(Service, AChatIsRenderedAnsweredAndCounted) {
  TestServer server;
  const RawAnswer answer = server.Post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Json json = Parsed(answer.body);
  EXPECT_EQ(FirstChoice(json).Find("message")->Find("content")->as_string(), "Hello");
  EXPECT_EQ(FirstChoice(json).Find("finish_reason")->as_string(), "stop");
  EXPECT_TRUE(FirstChoice(json).Find("stop_reason")->is_null());
  EXPECT_EQ(json.Find("model")->as_string(), "tiny");
  EXPECT_EQ(json.Find("id")->as_string().rfind("chatcmpl-", 0), 0u);
  const engine::Request request = server.engine().last();
  EXPECT_EQ(request.prompt.front(), kImStart);
  // <im_start> "user\nhi" <im_end> "\n" <im_start> "assistant\n"
  EXPECT_EQ(request.prompt.size(), 1u + 7 + 1 + 1 + 1 + 10);
  EXPECT_EQ(request.sampling.max_tokens, 256 - 21);
  EXPECT_EQ(json.Find("usage")->Find("prompt_tokens")->as_int(), 21);
  EXPECT_EQ(json.Find("usage")->Find("completion_tokens")->as_int(), 6);
}

TEST(Service, AStreamSaysRoleTextEndUsageDone) {
  TestServer server;
  const RawAnswer answer = server.Post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(answer.Header("Content-Type"), "text/event-stream; charset=utf-8");
  const auto events = Events(answer.body);
  ASSERT_GE(events.size(), 5u) << answer.body;
  EXPECT_EQ(events.back(), "[DONE]");
  const Json usage = Parsed(events[events.size() - 2]);
  EXPECT_TRUE(usage.Find("choices")->as_array().empty());
  EXPECT_EQ(usage.Find("usage")->Find("completion_tokens")->as_int(), 6);
  const Json first = Parsed(events[0]);
  EXPECT_EQ(FirstChoice(first).Find("delta")->Find("role")->as_string(), "assistant");
  std::string text;
  for (size_t i = 1; i + 3 < events.size(); ++i) {
    const Json chunk = Parsed(events[i]);
    text += FirstChoice(chunk).Find("delta")->Find("content")->as_string();
    EXPECT_TRUE(FirstChoice(chunk).Find("finish_reason")->is_null());
    EXPECT_EQ(*chunk.Find("id"), *first.Find("id"));
  }
  EXPECT_EQ(text, "Hello");
  const Json last = Parsed(events[events.size() - 3]);
  EXPECT_EQ(FirstChoice(last).Find("finish_reason")->as_string(), "stop");
}

TEST(Service, TokenIdPromptsSamplingAndStopIdsReachTheEngine) {
  TestServer server(Saying("ab", 'c'));
  const Json json = Parsed(
      server
          .Post(
              "/v1/completions",
              R"({"prompt":[72,105],"max_tokens":9,"temperature":0,"top_p":0.5,"top_k":7,"seed":42,"min_tokens":2,
          "stop_token_ids":[99],"ignore_eos":true,"logit_bias":{"65":-3},"priority":4,"return_token_ids":true})")
          .body);
  EXPECT_EQ(FirstChoice(json).Find("text")->as_string(), "ab");
  EXPECT_EQ(FirstChoice(json).Find("stop_reason")->as_int(), 99);
  EXPECT_EQ(DumpJson(*FirstChoice(json).Find("token_ids")), "[97,98,99]");
  const engine::Request request = server.engine().last();
  EXPECT_EQ(request.prompt, (std::vector<int32_t>{72, 105}));
  EXPECT_EQ(request.sampling.max_tokens, 9);
  EXPECT_EQ(request.sampling.temperature, 0.0f);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.seed, 42u);
  EXPECT_TRUE(request.sampling.ignore_eos);
  EXPECT_EQ(request.priority, 4);
}

TEST(Service, EchoPutsThePromptInFrontAlsoWithItsLogprobs) {
  TestServer server(std::make_unique<FakeEngine>([](const engine::Request& request) {
    auto events = Say("z", -1);
    if (request.sampling.logprobs)
      events[0].logprob = engine::TokenLogprob{.id = 'z', .logprob = -2};
    if (request.sampling.prompt_logprobs) {
      for (size_t i = 1; i < request.prompt.size(); ++i) {
        events[0].prompt_logprobs.push_back(
            {.token = {.id = request.prompt[i], .logprob = -1}, .top = {}});
      }
    }
    return events;
  }));
  const Json echo = Parsed(server.Post("/v1/completions", R"({"prompt":"ab","echo":true})").body);
  EXPECT_EQ(FirstChoice(echo).Find("text")->as_string(), "abz");
  const Json none =
      Parsed(server.Post("/v1/completions", R"({"prompt":"ab","echo":true,"max_tokens":0})").body);
  EXPECT_EQ(FirstChoice(none).Find("text")->as_string(), "ab");
  EXPECT_EQ(none.Find("usage")->Find("completion_tokens")->as_int(), 0);
  const Json scored = Parsed(
      server.Post("/v1/completions", R"({"prompt":"ab","echo":true,"max_tokens":0,"logprobs":1})")
          .body);
  const Json& logprobs = *FirstChoice(scored).Find("logprobs");
  EXPECT_EQ(DumpJson(*logprobs.Find("tokens")), R"(["a","b"])");
  EXPECT_TRUE(logprobs.Find("token_logprobs")->as_array()[0].is_null());
  EXPECT_EQ(logprobs.Find("token_logprobs")->as_array()[1].as_double(), -1.0);
  const Json both =
      Parsed(server.Post("/v1/completions", R"({"prompt":"ab","echo":true,"logprobs":1})").body);
  EXPECT_EQ(DumpJson(*FirstChoice(both).Find("logprobs")->Find("tokens")), R"(["a","b","z"])");
  EXPECT_EQ(DumpJson(*FirstChoice(both).Find("logprobs")->Find("text_offset")), "[0,1,2]");
}

TEST(Service, LengthsAreCheckedBeforeQueueing) {
  TestServer server;
  const auto ask = [&](size_t prompt, const std::string& more) {
    return server.Post("/v1/completions",
                       "{\"prompt\":\"" + std::string(prompt, 'a') + "\"" + more + "}");
  };
  EXPECT_EQ(ask(255, ",\"max_tokens\":1").status, 200);
  EXPECT_EQ(ask(250, "").status, 200);
  EXPECT_EQ(server.engine().last().sampling.max_tokens, 6);
  const uint64_t before =
      server.engine().WaitFor([](const FakeEngine& e) { return e.submitted() == 2; }) ? 2 : 0;
  EXPECT_EQ(before, 2u);
  for (const auto& [prompt, more] :
       std::vector<std::pair<size_t, std::string>>{{255, ",\"max_tokens\":2"},
                                                   {256, ""},
                                                   {257, ""},
                                                   {100000, ""},
                                                   {1, ",\"max_tokens\":2147483647"}}) {
    const RawAnswer answer = ask(prompt, more);
    EXPECT_EQ(answer.status, 400) << prompt;
    EXPECT_EQ(Parsed(answer.body).Find("error")->Find("code")->as_string(),
              "context_length_exceeded");
  }
  EXPECT_EQ(ask(0, "").status, 400);
  EXPECT_TRUE(server.engine().WaitFor([](const FakeEngine& e) { return e.submitted() == 2; }));
}

TEST(Service, ErrorsHaveTheRightStatus) {
  TestServer server;
  EXPECT_EQ(server.Post("/v1/completions", "{\"prompt\":").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", "").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", "[1]").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","prompt":"b"})").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","temperature":1e999})").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", "{\"prompt\":\"\xff\"}").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"\ud800"})").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", std::string(100000, '[')).status, 400);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":[260]})").status, 400);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","stop_token_ids":[151645]})").status,
            400);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","logit_bias":{"260":1}})").status, 400);
  EXPECT_EQ(
      server.Post("/v1/completions", R"({"prompt":"a","min_tokens":5,"max_tokens":4})").status,
      400);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","model":"other"})").status, 404);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","model":"../../etc/passwd"})").status,
            404);
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","model":"alias"})").status, 200);
  EXPECT_EQ(server.Post("/v1/embeddings", "{}").status, 501);
  EXPECT_EQ(server.Get("/v1/completions").status, 405);
  EXPECT_EQ(server.Get("/nothing").status, 404);
  EXPECT_EQ(server.Get("/v1/models/none").status, 404);
  EXPECT_EQ(server.Get("/health", "Host: evil.example\r\n").status, 400);
  server.engine().RefuseWith(Status::Exhausted("full"));
  const RawAnswer full = server.Post("/v1/chat/completions", kChatStream);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.Header("Retry-After"), "1");
}

TEST(Service, WithAKeyOnlyHealthIsOpen) {
  ServeOptions options;
  options.api_keys = {"secret"};
  TestServer server(std::make_unique<FakeEngine>(), options);
  EXPECT_EQ(server.Get("/health").status, 200);
  for (const char* path :
       {"/metrics", "/v1/models", "/version", "/load", "/ready", "/ping", "/nothing"}) {
    EXPECT_EQ(server.Get(path).status, 401) << path;
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    EXPECT_EQ(server.Post(path, "{}").status, 401) << path;
  }
  EXPECT_EQ(server.Get("/metrics", "Authorization: Bearer secret\r\n").status, 200);
}

TEST(Service, KeysDoNotShareThePrefixCache) {
  ServeOptions options;
  options.api_keys = {"one", "two"};
  TestServer server(std::make_unique<FakeEngine>(), options);
  const char* body = R"({"prompt":"a","cache_salt":"mine"})";
  server.Post("/v1/completions", body, "Authorization: Bearer one\r\n");
  const std::string first = server.engine().last().cache_salt;
  server.Post("/v1/completions", body, "Authorization: Bearer two\r\n");
  EXPECT_NE(server.engine().last().cache_salt, first);
}

TEST(Service, APublicAddressNeedsAKey) {
  ServeOptions options;
  options.host = "0.0.0.0";
  options.port = 0;
  const auto refused = Server::Bind(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("--api-key"), std::string::npos);
  options.insecure_no_auth = true;
  EXPECT_TRUE(Server::Bind(options).ok());
}

TEST(Service, TokenizeAndDetokenizeAreInverse) {
  TestServer server;
  const Json ids =
      Parsed(server.Post("/tokenize", R"({"prompt":"hé","return_token_strs":true})").body);
  EXPECT_EQ(ids.Find("count")->as_int(), 3);
  EXPECT_EQ(ids.Find("max_model_len")->as_int(), 256);
  const Json back =
      Parsed(server.Post("/detokenize", "{\"tokens\":" + DumpJson(*ids.Find("tokens")) + "}").body);
  EXPECT_EQ(back.Find("prompt")->as_string(), "hé");
  EXPECT_EQ(server.Post("/detokenize", R"({"tokens":[-1]})").status, 400);
  EXPECT_EQ(server.Post("/detokenize", R"({"tokens":[260]})").status, 400);
  const Json chat = Parsed(server.Post("/tokenize", kChatBody).body);
  EXPECT_EQ(chat.Find("count")->as_int(), 21);
  const Json rendered = Parsed(server.Post("/apply-template", kChatBody).body);
  EXPECT_EQ(rendered.Find("prompt")->as_string(),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Service, HealthSaysWhenTheEngineHasFailed) {
  TestServer server;
  EXPECT_EQ(server.Get("/health").status, 200);
  EXPECT_EQ(server.Get("/ready").status, 200);
  server.engine().Break(Status::Unavailable("rank 1 is gone"));
  EXPECT_EQ(server.Get("/health").status, 503);
}

TEST(Service, ShutdownFinishesWhatWasAccepted) {
  auto engine = Saying(std::string(100, 'y'), -1);
  engine->DelayEach(std::chrono::microseconds(2000));
  TestServer server(std::move(engine));
  RawClient client(server.port());
  client.Post("/v1/completions", R"({"prompt":"a","max_tokens":100,"stream":true})");
  ASSERT_TRUE(server.engine().WaitFor([](const FakeEngine& e) { return e.delivered() > 0; }));
  bool finished = false;
  std::thread owner([&] { finished = server.server().Shutdown(std::chrono::seconds(20)); });
  const RawAnswer answer = client.Read(false, false, 20000);
  owner.join();
  EXPECT_TRUE(finished);
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(Events(answer.body).back(), "[DONE]");
  EXPECT_FALSE(RawClient(server.port()).connected());
}

TEST(Service, ShutdownEndsWithAnErrorWhatItCannotFinish) {
  TestServer server(Talking());
  server.engine().Hold(2);
  RawClient stream(server.port()), whole(server.port());
  stream.Post("/v1/chat/completions", kChatStream);
  whole.Post("/v1/chat/completions", kChatBody);
  ASSERT_TRUE(server.engine().WaitFor([](const FakeEngine& e) { return e.delivered() == 4; }));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(server.server().Shutdown(milliseconds(50)));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(4));
  EXPECT_EQ(whole.Read().status, 503);
  const RawAnswer answer = stream.Read();
  EXPECT_TRUE(answer.complete);
  const auto events = Events(answer.body);
  ASSERT_GE(events.size(), 2u);
  EXPECT_NE(Parsed(events[events.size() - 2]).Find("error"), nullptr);
  EXPECT_TRUE(server.engine().WaitFor([](const FakeEngine& e) { return e.aborted() == 2; }));
}

}  // namespace
}  // namespace weft::serve
