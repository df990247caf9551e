#include "serve/answers.h"

#include <fmt/format.h>

#include <utility>

#include "serve/http/sse.h"
#include "text/utf8.h"

namespace weft::serve {
namespace {

constexpr std::chrono::milliseconds kSweepEvery{500};

TextOptions TextOptionsOf(const CommonParams& params) {
  return {.stop = params.stop,
          .include_stop = params.include_stop,
          .skip_special_tokens = params.skip_special_tokens,
          .min_tokens = params.sampling.min_tokens};
}

TokenProb ProbOf(const text::Tokenizer& tokenizer, const engine::TokenLogprob& logprob) {
  return {.bytes = std::string(tokenizer.TokenBytes(logprob.id)), .logprob = logprob.logprob};
}

}  // namespace

Answers::Answers(Context context)
    : context_(std::move(context)),
      hub_(std::make_shared<EventHub>([this] { context_.http->Post([this] { TakeEvents(); }); })) {}

Answers::~Answers() { hub_->Close(); }

uint64_t Answers::Open(std::shared_ptr<Exchange> exchange) {
  const uint64_t id = ++last_id_;
  auto answer = std::make_unique<Answer>();
  answer->begun = Clock::now();
  // Posted, because a client can be found gone in the middle of a write to it.
  exchange->OnGone([this, id] { context_.http->Post([this, id] { ClientGone(id); }); });
  answer->exchange = std::move(exchange);
  answers_[id] = std::move(answer);
  context_.in_flight->Add();
  ScheduleSweep();
  return id;
}

void Answers::Begin(uint64_t id, AnswerPlan plan) {
  const auto it = answers_.find(id);
  if (it == answers_.end()) return;
  Answer& answer = *it->second;
  answer.plan = std::move(plan);
  answer.exchange->BodyDone();
  const CommonParams& params = answer.plan.params;
  const TextOptions text_options = TextOptionsOf(params);

  for (size_t p = 0; p < answer.plan.prompts.size(); ++p) {
    for (int32_t i = 0; i < params.n; ++i) {
      const auto index = static_cast<uint32_t>(answer.choices.size());
      auto choice = std::make_unique<Choice>(*context_.tokenizer, text_options);
      choice->piece.index = static_cast<int32_t>(index);
      choice->piece.with_logprobs = params.sampling.logprobs.has_value();
      choice->piece.with_token_ids = params.return_token_ids;
      if (!answer.plan.echo.empty()) choice->piece.text = answer.plan.echo[p];
      // The client may choose the visible id, so it does not make the engine's id unique.
      choice->request_id = fmt::format("{}-{}-{}", answer.plan.head.id, id, index);
      answer.choices.push_back(std::move(choice));
    }
  }
  // Nothing to generate and nothing to compute: the engine need not know.
  const bool at_once = answer.plan.prompt_only && !params.sampling.prompt_logprobs;
  for (size_t index = 0; index < answer.choices.size() && !at_once; ++index) {
    auto request = std::make_unique<engine::Request>();
    request->id = answer.choices[index]->request_id;
    request->prompt = answer.plan.prompts[index / static_cast<size_t>(params.n)];
    request->sampling = params.sampling;
    request->choice = static_cast<uint32_t>(index % static_cast<size_t>(params.n));
    request->priority = params.priority;
    request->cache_salt = params.cache_salt;
    request->sink = hub_->SinkFor(id, static_cast<uint32_t>(index));
    if (Status status = context_.engine->Submit(std::move(request)); !status.ok()) {
      // Only what was submitted is there to be aborted.
      answer.choices.resize(index);
      return Fail(id, ErrorFor(status));
    }
  }
  if (params.stream) {
    HttpResponse head;
    head.content_type = std::string(kSseContentType);
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    answer.exchange->BeginStream(std::move(head));
    answer.streaming = true;
    answer.last_write = Clock::now();
  }
  if (at_once) {
    for (auto& choice : answer.choices) {
      Take(answer, *choice, {.finish = engine::FinishReason::kLength});
    }
    Flush(id);
  }
}

void Answers::Reply(uint64_t id, HttpResponse response) {
  const auto it = answers_.find(id);
  if (it == answers_.end()) return;
  it->second->exchange->Send(std::move(response));
  Remove(id);
}

void Answers::TakeEvents() {
  hub_->Take(&taken_);
  touched_.clear();
  for (EventHub::Item& item : taken_) {
    const auto it = answers_.find(item.answer);
    if (it == answers_.end()) continue;  // ended while the event was under way
    Answer& answer = *it->second;
    if (item.choice >= answer.choices.size()) continue;
    Take(answer, *answer.choices[item.choice], std::move(item.event));
    if (!answer.touched) {
      answer.touched = true;
      touched_.push_back(item.answer);
    }
  }
  for (const uint64_t id : touched_) Flush(id);
}

void Answers::Take(Answer& answer, Choice& choice, engine::TokenEvent event) {
  if (choice.text.ended()) return;
  choice.touched = true;
  if (!event.prompt_logprobs.empty()) TakePromptLogprobs(answer, choice, event);
  if (answer.plan.prompt_only && event.id >= 0) {
    // The engine makes at least one token; nobody asked for it.
    if (event.finish == engine::FinishReason::kNone) context_.engine->Abort(choice.request_id);
    event = {.finish = engine::FinishReason::kLength, .cached_tokens = event.cached_tokens};
  }
  choice.text.Push(event, choice.piece.text);
  if (event.id >= 0) {
    if (event.logprob && choice.piece.with_logprobs) {
      LogprobEntry entry{.chosen = ProbOf(*context_.tokenizer, *event.logprob), .top = {}};
      for (const auto& top : event.top) entry.top.push_back(ProbOf(*context_.tokenizer, top));
      choice.piece.logprobs.push_back(std::move(entry));
    }
    if (choice.piece.with_token_ids) choice.piece.token_ids.push_back(event.id);
  }
  if (!choice.text.ended()) return;
  const bool by_string = choice.text.stop_string() != nullptr;
  if (by_string) {
    choice.piece.stop_reason = *choice.text.stop_string();
    if (event.finish == engine::FinishReason::kNone) context_.engine->Abort(choice.request_id);
  } else if (const auto token = choice.text.stop_token()) {
    // Ending by the model's own end token is no "reason"; by a token the client named, it is.
    for (const int32_t id : answer.plan.params.sampling.stop_token_ids) {
      if (id == *token) choice.piece.stop_reason = *token;
    }
  }
  choice.piece.finish_reason =
      choice.text.finish() == engine::FinishReason::kLength ? "length" : "stop";
}

void Answers::TakePromptLogprobs(const Answer& answer, Choice& choice,
                                 const engine::TokenEvent& event) {
  const auto prompt =
      static_cast<size_t>(choice.piece.index) / static_cast<size_t>(answer.plan.params.n);
  const text::Tokenizer& tokenizer = *context_.tokenizer;
  std::vector<LogprobEntry>& out = choice.piece.logprobs;
  out.push_back(
      {.chosen = {.bytes = std::string(tokenizer.TokenBytes(answer.plan.prompts[prompt][0])),
                  .logprob = std::nullopt},
       .top = {}});
  for (const engine::PromptLogprob& position : event.prompt_logprobs) {
    LogprobEntry entry{.chosen = ProbOf(tokenizer, position.token), .top = {}};
    for (const auto& top : position.top) entry.top.push_back(ProbOf(tokenizer, top));
    out.push_back(std::move(entry));
  }
}

void Answers::Flush(uint64_t id) {
  Answer& answer = *answers_.at(id);
  answer.touched = false;
  bool all_ended = true;
  for (auto& choice : answer.choices) {
    const engine::FinishReason finish = choice->text.finish();
    if (finish == engine::FinishReason::kError) {
      if (choice->text.error().code() == StatusCode::kInternal) {
        context_.log->Error("{}: {}", choice->request_id, choice->text.error().message());
      }
      return Fail(id, ErrorFor(choice->text.error()));
    }
    // Only we abort, and then we no longer listen; an abort that is heard is the engine's end.
    if (finish == engine::FinishReason::kAbort)
      return Fail(id, FromStatus(Status::Cancelled("ended")));
    all_ended = all_ended && choice->text.ended();
  }
  if (!answer.streaming) {
    if (all_ended) FinishWhole(id);
    return;
  }
  for (auto& choice : answer.choices) {
    if (!choice->touched || choice->closed) continue;
    choice->touched = false;
    if (!choice->opened) {
      choice->opened = true;
      const Json opening = answer.plan.format->Opening(answer.plan.head, choice->piece.index);
      if (!opening.is_null() && !Send(answer, opening)) return;
    }
    if (choice->piece.text.empty() && !choice->text.ended()) continue;
    choice->closed = choice->text.ended();
    Piece next;
    next.index = choice->piece.index;
    next.with_logprobs = choice->piece.with_logprobs;
    next.with_token_ids = choice->piece.with_token_ids;
    next.text_offset = choice->piece.text_offset;
    for (const LogprobEntry& entry : choice->piece.logprobs) {
      next.text_offset +=
          static_cast<int64_t>(text::CountCodePoints(text::ReplaceInvalidUtf8(entry.chosen.bytes)));
    }
    Piece piece = std::exchange(choice->piece, std::move(next));
    for (const Json& chunk : answer.plan.format->Chunks(answer.plan.head, std::move(piece))) {
      if (!Send(answer, chunk)) return;
    }
  }
  if (all_ended) FinishStream(id);
}

bool Answers::Send(Answer& answer, const Json& chunk) {
  answer.last_write = Clock::now();
  if (!answer.plan.params.continuous_usage)
    return answer.exchange->Write(SseEvent(DumpJson(chunk)));
  Json with_usage = chunk;
  with_usage.Set("usage", ToJson(UsageOf(answer)));
  return answer.exchange->Write(SseEvent(DumpJson(with_usage)));
}

Usage Answers::UsageOf(const Answer& answer) const {
  Usage usage;
  const auto n = static_cast<size_t>(answer.plan.params.n);
  for (size_t p = 0; p < answer.plan.prompts.size(); ++p) {
    usage.prompt_tokens += static_cast<int64_t>(answer.plan.prompts[p].size());
    if (p * n < answer.choices.size())
      usage.cached_tokens += answer.choices[p * n]->text.cached_tokens();
  }
  for (const auto& choice : answer.choices) usage.completion_tokens += choice->text.tokens();
  return usage;
}

void Answers::FinishStream(uint64_t id) {
  Answer& answer = *answers_.at(id);
  if (answer.plan.params.include_usage) {
    const Json chunk = answer.plan.format->UsageChunk(answer.plan.head, UsageOf(answer));
    if (!answer.exchange->Write(SseEvent(DumpJson(chunk)))) return;
  }
  if (!answer.exchange->Write(kSseDone)) return;
  answer.exchange->End();
  Remove(id);
}

void Answers::FinishWhole(uint64_t id) {
  Answer& answer = *answers_.at(id);
  std::vector<Piece> pieces;
  pieces.reserve(answer.choices.size());
  for (auto& choice : answer.choices) pieces.push_back(std::move(choice->piece));
  HttpResponse response;
  response.body = DumpJson(answer.plan.format->Whole(answer.plan.head, pieces, UsageOf(answer)));
  answer.exchange->Send(std::move(response));
  Remove(id);
}

// The one way out that is no success. A stream says so in an event of its own, because its status
// 200 is long gone; clients raise on it. [DONE] follows for those that only wait for that.
// A broken engine gives codes that would otherwise be told as the client's or an operator's doing.
ApiError Answers::ErrorFor(const Status& status) const {
  if (context_.engine->Health().ok()) return FromStatus(status);
  return {.status = 500, .message = "The engine has failed.", .code = "internal"};
}

void Answers::Fail(uint64_t id, const ApiError& error) {
  const auto it = answers_.find(id);
  if (it == answers_.end()) return;
  Answer& answer = *it->second;
  AbortRequests(answer);
  if (answer.streaming) {
    if (answer.exchange->Write(SseEvent(DumpJson(ToJson(error)))) &&
        answer.exchange->Write(kSseDone)) {
      answer.exchange->End();
    }
  } else {
    answer.exchange->Send(ToResponse(error));
  }
  Remove(id);
}

void Answers::FailAll(const ApiError& error) {
  std::vector<uint64_t> ids;
  for (const auto& [id, answer] : answers_) ids.push_back(id);
  for (const uint64_t id : ids) Fail(id, error);
}

void Answers::AbortRequests(Answer& answer) {
  for (const auto& choice : answer.choices) {
    if (!choice->text.ended()) context_.engine->Abort(choice->request_id);
  }
}

void Answers::ClientGone(uint64_t id) {
  const auto it = answers_.find(id);
  if (it == answers_.end()) return;
  ++disconnects_;
  AbortRequests(*it->second);
  context_.log->Debug("{}: the client went away", it->second->plan.head.id);
  Remove(id);
}

void Answers::Remove(uint64_t id) {
  const auto it = answers_.find(id);
  if (it == answers_.end()) return;
  const Answer& answer = *it->second;
  if (!answer.choices.empty()) {
    const Usage usage = UsageOf(answer);
    context_.log->Debug(
        "{}: {} prompt, {} generated tokens, {} ms", answer.plan.head.id, usage.prompt_tokens,
        usage.completion_tokens,
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - answer.begun).count());
  }
  answers_.erase(it);
  context_.in_flight->Remove();
}

void Answers::ScheduleSweep() {
  if (sweep_scheduled_) return;
  sweep_scheduled_ = true;
  context_.http->After(kSweepEvery, [this] { Sweep(); });
}

// Pings and time limits; runs only while there is something in progress.
void Answers::Sweep() {
  sweep_scheduled_ = false;
  const auto now = Clock::now();
  std::vector<uint64_t> late;
  for (auto& [id, answer] : answers_) {
    if (now - answer->begun >= context_.limits.request_time) {
      late.push_back(id);
    } else if (answer->streaming && context_.limits.sse_ping.count() > 0 &&
               now - answer->last_write >= context_.limits.sse_ping) {
      answer->last_write = now;
      answer->exchange->Write(kSsePing);
    }
  }
  for (const uint64_t id : late) Fail(id, FromStatus(Status::Deadline("request_time")));
  if (!answers_.empty()) ScheduleSweep();
}

}  // namespace weft::serve
