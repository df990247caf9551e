#include "serve/answers.h"

#include <gtest/gtest.h>

#include <thread>

#include "serve/serve_fixture.h"

namespace weft::serve {
namespace {

TEST(Answers, StreamedAndWholeTextAreTheSame) {
  TestServer server(
      Saying("gr\xc3\xbc\xc3\x9f"
             "e STOP never",
             kEos));
  const Json whole = Parsed(server.Post("/v1/completions", R"({"prompt":"a","stop":"STOP"})").body);
  std::string streamed;
  for (const auto& event : Events(
           server.Post("/v1/completions", R"({"prompt":"a","stop":"STOP","stream":true})").body)) {
    if (event != "[DONE]") streamed += FirstChoice(Parsed(event)).Find("text")->as_string();
  }
  EXPECT_EQ(streamed,
            "gr\xc3\xbc\xc3\x9f"
            "e ");
  EXPECT_EQ(FirstChoice(whole).Find("text")->as_string(), streamed);
  EXPECT_EQ(FirstChoice(whole).Find("stop_reason")->as_string(), "STOP");
}

TEST(Answers, AStopStringEndsTheEnginesRequestToo) {
  TestServer server(Talking());
  EXPECT_EQ(server.Post("/v1/completions", R"({"prompt":"a","stop":"xxx"})").status, 200);
  EXPECT_TRUE(server.engine().WaitFor(
      [](const FakeEngine& e) { return e.aborted() == 1 && e.jobs() == 0; }));
}

TEST(Answers, ChoicesAndPromptsBecomeIndexedSequences) {
  TestServer server(std::make_unique<FakeEngine>([](const engine::Request& request) {
    return Say(
        std::string(1, static_cast<char>(request.prompt[0])) + std::to_string(request.choice), -1);
  }));
  const Json json = Parsed(server.Post("/v1/completions", R"({"prompt":["a","b"],"n":2})").body);
  const auto& choices = json.Find("choices")->as_array();
  ASSERT_EQ(choices.size(), 4u);
  const std::vector<std::string> texts = {"a0", "a1", "b0", "b1"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i].Find("index")->as_int(), static_cast<int64_t>(i));
    EXPECT_EQ(choices[i].Find("text")->as_string(), texts[i]);
    EXPECT_EQ(choices[i].Find("finish_reason")->as_string(), "length");
  }
  EXPECT_EQ(json.Find("usage")->Find("prompt_tokens")->as_int(), 2);
  EXPECT_EQ(json.Find("usage")->Find("completion_tokens")->as_int(), 8);
}

TEST(Answers, AnEngineErrorIsA500OrAnEventOfTheStream) {
  TestServer server(std::make_unique<FakeEngine>([](const engine::Request&) {
    auto events = Say("ok", kEos);
    events.back() = {.finish = engine::FinishReason::kError,
                     .error = Status::Internal("rank 3 at 0x7f00")};
    return events;
  }));
  const RawAnswer whole = server.Post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.body.find("0x7f"), std::string::npos);
  const auto events = Events(server.Post("/v1/chat/completions", kChatStream).body);
  ASSERT_GE(events.size(), 2u);
  EXPECT_NE(Parsed(events[events.size() - 2]).Find("error"), nullptr);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Answers, AClientThatGoesAwayFreesItsRequests) {
  for (const char* body : {kChatBody, kChatStream}) {
    for (const int tokens : {0, 3}) {
      for (const bool reset : {true, false}) {
        TestServer server(Talking());
        server.engine().Hold(tokens);
        RawClient client(server.port());
        client.Post("/v1/chat/completions", body);
        ASSERT_TRUE(server.engine().WaitFor([&](const FakeEngine& e) {
          return e.submitted() == 1 && e.delivered() == static_cast<uint64_t>(tokens);
        }));
        if (reset)
          client.Reset();
        else
          client.Close();
        server.engine().Hold(-1);
        EXPECT_TRUE(server.engine().WaitFor([](const FakeEngine& e) { return e.aborted() == 1; }))
            << body << tokens << reset;
      }
    }
  }
}

TEST(Answers, NeighboursOfAnAbortedRequestAreUndisturbed) {
  TestServer server(std::make_unique<FakeEngine>([](const engine::Request& request) {
    return Say(std::string(200, static_cast<char>(request.prompt[0])), -1);
  }));
  server.engine().DelayEach(std::chrono::microseconds(200));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    const std::string letter(1, static_cast<char>('a' + i));
    clients.back()->Post("/v1/completions", "{\"prompt\":\"" + letter +
                                                "\",\"max_tokens\":200,\"stream\":" +
                                                (i % 2 ? "true" : "false") + "}");
  }
  for (size_t i = 0; i < clients.size(); i += 3) clients[i]->Reset();
  for (size_t i = 0; i < clients.size(); ++i) {
    if (i % 3 == 0) continue;
    const RawAnswer answer = clients[i]->Read(false, false, 20000);
    ASSERT_TRUE(answer.complete);
    std::string text;
    if (i % 2) {
      for (const auto& event : Events(answer.body)) {
        if (event != "[DONE]") text += FirstChoice(Parsed(event)).Find("text")->as_string();
      }
    } else {
      text = FirstChoice(Parsed(answer.body)).Find("text")->as_string();
    }
    EXPECT_EQ(text, std::string(200, static_cast<char>('a' + i)));
  }
}

TEST(Answers, SilentStreamsArePinged) {
  ServeOptions options;
  options.request.sse_ping = milliseconds(200);
  TestServer server(Talking(), options);
  server.engine().Hold(0);
  RawClient client(server.port());
  client.Post("/v1/chat/completions", kChatStream);
  EXPECT_TRUE(client.ReadUntil(": ping\n\n"));
}

TEST(Answers, ARequestThatTakesTooLongEnds) {
  ServeOptions options;
  options.request.request_time = milliseconds(200);
  TestServer server(Talking(), options);
  server.engine().Hold(0);
  EXPECT_EQ(server.Post("/v1/chat/completions", kChatBody).status, 503);
  EXPECT_TRUE(server.engine().WaitFor([](const FakeEngine& e) { return e.aborted() == 1; }));
}

}  // namespace
}  // namespace weft::serve
