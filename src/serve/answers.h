// The requests in progress: each is an exchange waiting for its answer, the engine's requests that
// make it (n for each prompt), and the text so far.
// Thread: the HTTP loop's.
// Invariant: every answer ends in one place, Finish() or Fail(), with everything that it submitted
// ended or aborted, and its exchange answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"
#include "serve/event_hub.h"
#include "serve/generation.h"
#include "serve/http/server.h"
#include "serve/openai/answer_format.h"
#include "serve/openai/errors.h"
#include "serve/openai/params.h"
#include "serve/shutdown.h"
#include "text/tokenizer.h"

namespace weft::serve {

// An API request as a worker made it: nothing about it can fail any more but the engine.
struct AnswerPlan {
  const AnswerFormat* format = nullptr;
  AnswerHead head;
  CommonParams params;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echo;  // text to put before the answer, per prompt; or empty
  bool prompt_only = false;       // echo with max_tokens 0: nothing is generated
};

class Answers {
 public:
  struct Context {
    HttpServer* http = nullptr;
    engine::Engine* engine = nullptr;
    const text::Tokenizer* tokenizer = nullptr;
    LogSink* log = nullptr;
    InFlight* in_flight = nullptr;
    RequestLimits limits;
  };

  explicit Answers(Context context);
  ~Answers();

  // Registers an exchange whose plan is still being made; returns its number.
  uint64_t Open(std::shared_ptr<Exchange> exchange);
  // The plan is there: submits. Nothing happens if the client is gone already.
  void Begin(uint64_t id, AnswerPlan plan);
  // Answers without the engine, or refuses.
  void Reply(uint64_t id, HttpResponse response);
  // Ends what is in progress with `error`; for shutting down.
  void FailAll(const ApiError& error);

  size_t count() const { return answers_.size(); }
  uint64_t disconnects() const { return disconnects_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    Choice(const text::Tokenizer& tokenizer, TextOptions options)
        : text(tokenizer, std::move(options)) {}
    TextStream text;
    std::string request_id;
    Piece piece;          // not yet sent
    bool opened = false;  // its first chunk is out
    bool closed = false;  // its last chunk is out
    bool touched = false;
  };
  struct Answer {
    std::shared_ptr<Exchange> exchange;
    AnswerPlan plan;
    std::vector<std::unique_ptr<Choice>> choices;
    Clock::time_point begun;
    Clock::time_point last_write;
    bool streaming = false;  // the stream's head is out
    bool touched = false;
  };
  using Map = std::unordered_map<uint64_t, std::unique_ptr<Answer>>;

  void TakeEvents();
  void Take(Answer& answer, Choice& choice, engine::TokenEvent event);
  void TakePromptLogprobs(const Answer& answer, Choice& choice, const engine::TokenEvent& event);
  // Sends what is settled, and ends the answer if that was all.
  void Flush(uint64_t id);
  bool Send(Answer& answer, const Json& chunk);
  Usage UsageOf(const Answer& answer) const;
  void FinishStream(uint64_t id);
  void FinishWhole(uint64_t id);
  void Fail(uint64_t id, const ApiError& error);
  ApiError ErrorFor(const Status& status) const;
  void AbortRequests(Answer& answer);
  void ClientGone(uint64_t id);
  void Remove(uint64_t id);
  void ScheduleSweep();
  void Sweep();

  Context context_;
  std::shared_ptr<EventHub> hub_;
  std::vector<EventHub::Item> taken_;
  std::vector<uint64_t> touched_;
  Map answers_;
  uint64_t last_id_ = 0;
  uint64_t disconnects_ = 0;
  bool sweep_scheduled_ = false;
};

}  // namespace weft::serve
