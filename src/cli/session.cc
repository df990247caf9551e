#include "cli/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "base/clock.h"
#include "cli/answer_json.h"
#include "serve/generation.h"

namespace weft::cli {
namespace {

Json Message(const char* role, const std::string& content) {
  Json message;
  message.Set("role", role);
  message.Set("content", content);
  return message;
}

void Show(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

size_t Answer::tokens() const {
  return static_cast<size_t>(
      std::count_if(events.begin(), events.end(), [](const auto& e) { return e.id >= 0; }));
}

Result<std::vector<int32_t>> Session::PromptIds(const Json& messages,
                                                const std::string& text) const {
  if (model_.tokenizer == nullptr)
    return Status::Invalid("{} has no tokenizer; give --prompt-ids or --tokenizer", model_.name);
  if (flags_.raw || model_.chat_template == nullptr) {
    if (!flags_.system.empty())
      return Status::Invalid("--system: {} has no chat template; --chat-template gives one",
                             model_.name);
    return model_.tokenizer->Encode(text, {.add_special_tokens = true});
  }
  Json context;
  context.Set("messages", messages);
  context.Set("add_generation_prompt", true);
  for (const auto& [name, id] :
       {std::pair{"bos_token", model_.tokenizer->bos()}, {"eos_token", model_.tokenizer->eos()}}) {
    if (id) context.Set(name, std::string(model_.tokenizer->TokenBytes(*id)));
  }
  text::RenderOptions options;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  options.now = *localtime_r(&now, &local);
  WEFT_ASSIGN_OR_RETURN(const std::string rendered, model_.chat_template->Render(context, options));
  return model_.tokenizer->Encode(rendered);
}

Result<Answer> Session::Ask(std::vector<int32_t> prompt,
                            const std::function<void(std::string_view)>& show) {
  Answer answer;
  auto request = std::make_unique<engine::Request>();
  request->id = fmt::format("run-{}", ++asked_);
  WEFT_ASSIGN_OR_RETURN(request->sampling,
                        SamplingOf(flags_, prompt.size(), engine_->config().max_model_len));
  request->prompt = std::move(prompt);
  request->hash_logits = flags_.json;
  std::unique_ptr<serve::TextStream> stream;
  if (model_.tokenizer != nullptr) {
    serve::TextOptions options;
    options.stop = flags_.stop;
    options.min_tokens = request->sampling.min_tokens;
    stream = std::make_unique<serve::TextStream>(*model_.tokenizer, options);
  } else if (!flags_.stop.empty()) {
    return Status::Invalid("--stop: {} has no tokenizer, so there is no text to find it in",
                           model_.name);
  }
  const std::string id = request->id;
  bool done = false;
  request->sink = [&](engine::TokenEvent event) {
    if (event.id >= 0) {
      answer.end_ns = SteadyNowNs();
      if (answer.first_ns == 0) answer.first_ns = answer.end_ns, answer.seed = event.seed;
    }
    if (answer.finish == engine::FinishReason::kNone && stream != nullptr) {
      const size_t before = answer.text.size();
      stream->Push(event, answer.text);
      if (show && answer.text.size() > before) show(std::string_view(answer.text).substr(before));
      if (stream->ended() && event.finish == engine::FinishReason::kNone) {
        answer.finish = stream->finish();
        engine_->Abort(id);
      }
    }
    if (event.finish != engine::FinishReason::kNone) {
      done = true;
      if (answer.finish == engine::FinishReason::kNone)
        answer.finish = event.finish, answer.error = event.error;
    }
    answer.events.push_back(std::move(event));
  };
  answer.start_ns = SteadyNowNs();
  WEFT_RETURN_IF_ERROR(engine_->Submit(std::move(request)));
  while (!done) engine_->Step();
  if (!answer.error.ok()) return answer.error;
  return answer;
}

Status Session::Once() {
  std::vector<int32_t> prompt;
  if (flags_.prompt_ids) {
    WEFT_ASSIGN_OR_RETURN(prompt, ParseIds(*flags_.prompt_ids));
  } else {
    Json messages(Json::Array{});
    if (!flags_.system.empty()) messages.Push(Message("system", flags_.system));
    messages.Push(Message("user", *flags_.prompt));
    WEFT_ASSIGN_OR_RETURN(prompt, PromptIds(messages, *flags_.prompt));
  }
  const size_t prompt_tokens = prompt.size();
  const auto show = flags_.json ? std::function<void(std::string_view)>() : Show;
  WEFT_ASSIGN_OR_RETURN(const Answer answer, Ask(std::move(prompt), show));
  if (flags_.json) {
    fmt::print("{}\n",
               DumpJson(AnswerJson(model_, *executor_, prompt_tokens, answer, engine_->Metrics()),
                        {.indent = 2}));
    return Status::Ok();
  }
  if (model_.tokenizer == nullptr) {
    std::vector<int32_t> ids;
    for (const engine::TokenEvent& e : answer.events) {
      if (e.id >= 0) ids.push_back(e.id);
    }
    Show(fmt::format("{}", fmt::join(ids, ",")));
  }
  Show("\n");
  if (flags_.logprobs) PrintLogprobs(answer);
  PrintSpeed(prompt_tokens, answer);
  return Status::Ok();
}

Status Session::Chat() {
  fmt::print("{}\n/bye or Ctrl-D ends, /clear starts anew.\n", executor_->Describe());
  Json start(Json::Array{});
  if (!flags_.system.empty()) start.Push(Message("system", flags_.system));
  Json messages = start;
  for (std::string line; Show("\n> "), std::getline(std::cin, line);) {
    if (line == "/bye") break;
    if (line == "/clear") {
      messages = start;
      continue;
    }
    if (line.empty()) continue;
    if (line.starts_with("/")) {
      fmt::print("there is /bye and /clear\n");
      continue;
    }
    messages.Push(Message("user", line));
    WEFT_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, PromptIds(messages, line));
    const size_t prompt_tokens = prompt.size();
    auto answer = Ask(std::move(prompt), Show);
    if (!answer.ok()) {
      if (const Status health = engine_->Health(); !health.ok()) return health;
      fmt::print(stderr, "{} (/clear forgets what was said)\n", answer.status().message());
      messages.as_array().pop_back();
      continue;
    }
    Show("\n");
    PrintSpeed(prompt_tokens, *answer);
    messages.Push(Message("assistant", answer->text));
  }
  Show("\n");
  return Status::Ok();
}

void Session::PrintSpeed(size_t prompt_tokens, const Answer& a) const {
  const size_t tokens = a.tokens();
  const double first = static_cast<double>(a.first_ns - a.start_ns) / 1e9,
               rest = static_cast<double>(a.end_ns - a.first_ns) / 1e9;
  fmt::print(stderr, "[{} prompt tokens, first token after {:.0f} ms; {} token{}{}; {}]\n",
             prompt_tokens, first * 1e3, tokens, tokens == 1 ? "" : "s",
             tokens > 1 && rest > 0
                 ? fmt::format(", {:.1f} tokens/s", static_cast<double>(tokens - 1) / rest)
                 : "",
             NameOf(a.finish));
}

void Session::PrintLogprobs(const Answer& a) const {
  const auto name = [this](int32_t id) {
    if (model_.tokenizer == nullptr) return fmt::format("{}", id);
    return DumpJson(
        Json(model_.tokenizer->Decode(std::vector<int32_t>{id}, {.skip_special_tokens = false})));
  };
  for (const engine::TokenEvent& e : a.events) {
    if (!e.logprob) continue;
    std::string others;
    for (const engine::TokenLogprob& t : e.top)
      others += fmt::format("  {} {:.4f}", name(t.id), t.logprob);
    fmt::print("{:<20} {:>9.4f}  rank {:<5}{}\n", name(e.logprob->id), e.logprob->logprob,
               e.logprob->rank, others);
  }
  std::fflush(stdout);
}

}  // namespace weft::cli
