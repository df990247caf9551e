// A whole server over a fake engine and the tiny tokenizer, on a free port of loopback.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/fake_engine.h"
#include "serve/raw_client.h"
#include "serve/service.h"
#include "serve/tiny_tokenizer.h"
#include "text/chat_template.h"

namespace weft::serve {

using std::chrono::milliseconds;

inline constexpr const char* kTinyTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class TestServer {
 public:
  explicit TestServer(std::unique_ptr<FakeEngine> engine = std::make_unique<FakeEngine>(),
                      ServeOptions options = {})
      : engine_(std::move(engine)), tokenizer_(MakeTinyTokenizer()) {
    auto parsed = text::ChatTemplate::Parse(kTinyTemplate);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    template_ = std::make_unique<text::ChatTemplate>(std::move(*parsed));
    options.port = 0;
    if (options.served_model_names.empty()) options.served_model_names = {"tiny", "alias"};
    auto listener = Server::Bind(options);
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    auto made = Server::Create(std::move(options), std::move(*listener), engine_.get(),
                               tokenizer_.get(), template_.get(), &log_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    server_ = std::move(*made);
    EXPECT_TRUE(server_->Start().ok());
  }

  int port() const { return server_->port(); }
  Server& server() { return *server_; }
  FakeEngine& engine() { return *engine_; }
  RawAnswer Post(std::string_view path, std::string_view body, std::string_view headers = "") {
    RawClient client(port());
    client.Post(path, body, headers);
    return client.Read();
  }
  RawAnswer Get(std::string_view path, std::string_view headers = "") {
    RawClient client(port());
    client.Get(path, headers);
    return client.Read();
  }

 private:
  NullLog log_;
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
  std::unique_ptr<Server> server_;  // ends first
};

inline std::unique_ptr<FakeEngine> Saying(std::string text, int32_t stop_token) {
  return std::make_unique<FakeEngine>(
      [text, stop_token](const engine::Request&) { return Say(text, stop_token); });
}

// An engine that never ends by itself within a test.
inline std::unique_ptr<FakeEngine> Talking() {
  auto engine = Saying(std::string(100000, 'x'), kEos);
  engine->DelayEach(std::chrono::microseconds(500));
  return engine;
}

inline constexpr const char* kChatBody = R"({"messages":[{"role":"user","content":"hi"}]})";
inline constexpr const char* kChatStream =
    R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

inline Json Parsed(const std::string& text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? *json : Json();
}

// The data of a stream's events, comments left out.
inline std::vector<std::string> Events(const std::string& body) {
  std::vector<std::string> events;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    const std::string event = body.substr(at, end - at);
    if (event.rfind("data: ", 0) == 0) events.push_back(event.substr(6));
    at = end + 2;
  }
  return events;
}

inline const Json& FirstChoice(const Json& chunk) {
  return chunk.Find("choices")->as_array().at(0);
}

}  // namespace weft::serve
