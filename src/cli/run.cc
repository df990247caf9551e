// weft run: one prompt, or a chat on a terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "base/clock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/load.h"
#include "engine/engine.h"
#include "serve/generation.h"

namespace weft::cli {
namespace {

struct RunFlags {
  ModelFlags model;
  std::string prompt, prompt_ids, system;
  bool raw = false;          // no chat template
  int max_tokens = 256;
  float temperature = 0;
  float top_p = 1;
  int top_k = 0;
  float min_p = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int64_t request_seed = -1;
  int logprobs = -1;
  int min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  bool json = false;
  bool hash_logits = false;
  bool verbose = false;
};

std::string HexFloat(float x) { return fmt::format("{:a}", x); }

struct Answer {
  std::vector<engine::TokenEvent> events;
  std::string text;
  engine::FinishReason finish = engine::FinishReason::kNone;
  Status error;
  uint64_t seed = 0;
  int64_t start_ns = 0, first_ns = 0, end_ns = 0;
};

class Session {
 public:
  Session(const RunFlags& flags, LoadedModel model, std::unique_ptr<plan::Executor> executor, std::unique_ptr<engine::Engine> engine)
      : flags_(flags), model_(std::move(model)), executor_(std::move(executor)), engine_(std::move(engine)) {}

  Result<std::vector<int32_t>> PromptIds(const Json& messages, const std::string& text) const {
    if (!flags_.prompt_ids.empty()) return ParseIds();
    if (model_.tokenizer == nullptr) return Status::Invalid("{} has no tokenizer; give --prompt-ids or --tokenizer", model_.name);
    if (flags_.raw || model_.chat_template == nullptr) return model_.tokenizer->Encode(text, {.add_special_tokens = true});
    Json context;
    context.Set("messages", messages);
    context.Set("add_generation_prompt", true);
    for (const auto& [name, id] : {std::pair{"bos_token", model_.tokenizer->bos()}, {"eos_token", model_.tokenizer->eos()}}) {
      if (id) context.Set(name, std::string(model_.tokenizer->TokenBytes(*id)));
    }
    text::RenderOptions options;
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    options.now = *localtime_r(&now, &local);
    WEFT_ASSIGN_OR_RETURN(const std::string rendered, model_.chat_template->Render(context, options));
    return model_.tokenizer->Encode(rendered);
  }

  // show: called with each piece of settled text.
  Result<Answer> Ask(std::vector<int32_t> prompt, const std::function<void(std::string_view)>& show) {
    Answer answer;
    auto request = std::make_unique<engine::Request>();
    request->id = fmt::format("run-{}", ++asked_);
    request->prompt = std::move(prompt);
    engine::SamplingParams& s = request->sampling;
    s.temperature = flags_.temperature;
    s.top_p = flags_.top_p;
    s.top_k = flags_.top_k;
    s.min_p = flags_.min_p;
    s.repetition_penalty = flags_.repetition_penalty;
    s.presence_penalty = flags_.presence_penalty;
    s.frequency_penalty = flags_.frequency_penalty;
    if (flags_.request_seed >= 0) s.seed = static_cast<uint64_t>(flags_.request_seed);
    const int64_t room = int64_t{executor_->limits().positions_max} - static_cast<int64_t>(request->prompt.size());
    s.max_tokens = static_cast<int32_t>(std::clamp<int64_t>(flags_.max_tokens, 1, std::max<int64_t>(room, 1)));
    s.min_tokens = std::min(flags_.min_tokens, s.max_tokens);
    s.ignore_eos = flags_.ignore_eos;
    if (flags_.logprobs >= 0) s.logprobs = flags_.logprobs;
    request->hash_logits = flags_.hash_logits || flags_.json;
    std::unique_ptr<serve::TextStream> stream;
    if (model_.tokenizer != nullptr) {
      serve::TextOptions options;
      options.stop = flags_.stop;
      options.min_tokens = s.min_tokens;
      stream = std::make_unique<serve::TextStream>(*model_.tokenizer, options);
    }
    const std::string id = request->id;
    request->sink = [&](engine::TokenEvent event) {
      if (event.id >= 0) {
        if (answer.first_ns == 0) answer.first_ns = SteadyNowNs(), answer.seed = event.seed;
        answer.end_ns = SteadyNowNs();
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
        done_ = true;
        if (answer.finish == engine::FinishReason::kNone) answer.finish = event.finish, answer.error = event.error;
      }
      answer.events.push_back(std::move(event));
    };
    answer.start_ns = SteadyNowNs();
    done_ = false;
    WEFT_RETURN_IF_ERROR(engine_->Submit(std::move(request)));
    while (!done_) engine_->Step();
    if (!answer.error.ok()) return answer.error;
    return answer;
  }

  Json ToJson(const std::vector<int32_t>& prompt, const Answer& a) const {
    Json out, ids(Json::Array{}), hashes(Json::Array{}), logprobs(Json::Array{});
    for (const engine::TokenEvent& e : a.events) {
      if (e.id < 0) continue;
      ids.Push(e.id);
      hashes.Push(fmt::format("{:016x}", e.logits_hash));
      if (!e.logprob) continue;
      Json one, top(Json::Array{});
      one.Set("id", e.logprob->id);
      one.Set("logprob", static_cast<double>(e.logprob->logprob));
      one.Set("logprob_hex", HexFloat(e.logprob->logprob));
      one.Set("rank", e.logprob->rank);
      for (const engine::TokenLogprob& t : e.top) {
        Json entry;
        entry.Set("id", t.id);
        entry.Set("logprob", static_cast<double>(t.logprob));
        entry.Set("logprob_hex", HexFloat(t.logprob));
        top.Push(std::move(entry));
      }
      one.Set("top", std::move(top));
      logprobs.Push(std::move(one));
    }
    const double generated = static_cast<double>(ids.as_array().size());
    out.Set("model", model_.name);
    out.Set("token_ids", std::move(ids));
    out.Set("text", a.text);
    out.Set("logprobs", flags_.logprobs >= 0 ? std::move(logprobs) : Json());
    out.Set("logits_hash", std::move(hashes));
    out.Set("finish_reason", std::string(NameOf(a.finish)));
    out.Set("seed", a.seed);
    Json timings;
    timings.Set("prompt_tokens", static_cast<int64_t>(prompt.size()));
    timings.Set("generated_tokens", static_cast<int64_t>(generated));
    timings.Set("time_to_first_token_ms", static_cast<double>(a.first_ns - a.start_ns) / 1e6);
    timings.Set("decode_ms_per_token", generated > 1 ? static_cast<double>(a.end_ns - a.first_ns) / 1e6 / (generated - 1) : 0.0);
    out.Set("timings", std::move(timings));
    out.Set("schedule", "plain");
    out.Set("executor", executor_->Describe());
    Json collectives(Json::Object{});
    int64_t bytes = 0;
    for (const auto& kind : executor_->fabric_counts().kinds) {
      collectives.Set(kind.name, kind.calls);
      bytes += kind.bytes;
    }
    out.Set("collectives", std::move(collectives));
    out.Set("fabric_bytes", bytes);
    return out;
  }

  int Once() {
    Json message, messages(Json::Array{});
    AddSystem(messages);
    message.Set("role", "user");
    message.Set("content", flags_.prompt);
    messages.Push(std::move(message));
    auto prompt = PromptIds(messages, flags_.prompt);
    if (!prompt.ok()) return Fail(prompt.status());
    auto answer = Ask(*prompt, flags_.json ? std::function<void(std::string_view)>() : Show);
    if (!answer.ok()) return Fail(answer.status());
    if (flags_.json) {
      fmt::print("{}\n", DumpJson(ToJson(*prompt, *answer), {.indent = 2}));
      return 0;
    }
    fmt::print("\n");
    PrintSpeed(prompt->size(), *answer);
    return 0;
  }

  int Chat() {
    fmt::print("{}\n/bye or Ctrl-D ends, /clear starts anew.\n", executor_->Describe());
    Json messages(Json::Array{});
    AddSystem(messages);
    const Json start = messages;
    for (std::string line; fmt::print("\n> "), std::fflush(stdout), std::getline(std::cin, line);) {
      if (line == "/bye") break;
      if (line == "/clear") {
        messages = start;
        continue;
      }
      if (line.empty()) continue;
      Json message;
      message.Set("role", "user");
      message.Set("content", line);
      messages.Push(std::move(message));
      auto prompt = PromptIds(messages, line);
      if (!prompt.ok()) return Fail(prompt.status());
      auto answer = Ask(*prompt, Show);
      if (!answer.ok()) {
        Fail(answer.status());
        messages.as_array().pop_back();
        continue;
      }
      fmt::print("\n");
      PrintSpeed(prompt->size(), *answer);
      Json reply;
      reply.Set("role", "assistant");
      reply.Set("content", answer->text);
      messages.Push(std::move(reply));
    }
    fmt::print("\n");
    return 0;
  }

  static int Fail(const Status& status) {
    fmt::print(stderr, "weft run: {}\n", status.message());
    return 1;
  }

 private:
  static void Show(std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  }
  void AddSystem(Json& messages) const {
    if (flags_.system.empty()) return;
    Json message;
    message.Set("role", "system");
    message.Set("content", flags_.system);
    messages.Push(std::move(message));
  }
  Result<std::vector<int32_t>> ParseIds() const {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < flags_.prompt_ids.size();) {
      const size_t end = std::min(flags_.prompt_ids.find(',', i), flags_.prompt_ids.size());
      int32_t id = 0;
      const auto [rest, error] = std::from_chars(flags_.prompt_ids.data() + i, flags_.prompt_ids.data() + end, id);
      if (error != std::errc() || rest != flags_.prompt_ids.data() + end) return Status::Invalid("--prompt-ids: '{}' is no token id", flags_.prompt_ids.substr(i, end - i));
      ids.push_back(id);
      i = end + 1;
    }
    return ids;
  }
  void PrintSpeed(size_t prompt_tokens, const Answer& a) const {
    const auto tokens = static_cast<double>(std::count_if(a.events.begin(), a.events.end(), [](const auto& e) { return e.id >= 0; }));
    const double first = static_cast<double>(a.first_ns - a.start_ns) / 1e9, rest = static_cast<double>(a.end_ns - a.first_ns) / 1e9;
    fmt::print(stderr, "[{} prompt tokens, first token after {:.0f} ms; {:.0f} tokens{}; {}]\n", prompt_tokens, first * 1e3, tokens,
               tokens > 1 && rest > 0 ? fmt::format(", {:.1f} tokens/s", (tokens - 1) / rest) : "", NameOf(a.finish));
  }

  const RunFlags& flags_;
  LoadedModel model_;
  std::unique_ptr<plan::Executor> executor_;
  std::unique_ptr<engine::Engine> engine_;
  int asked_ = 0;
  bool done_ = false;
};

int Run(RunFlags& f) {
  const bool chat = f.prompt.empty() && f.prompt_ids.empty();
  if (chat && (isatty(STDIN_FILENO) == 0 || f.json)) return Session::Fail(Status::Invalid("no --prompt given, and this is no terminal to chat on"));
  // One person asks: less is set aside than for a server, unless told.
  if (f.model.max_num_seqs == ModelFlags().max_num_seqs) f.model.max_num_seqs = 1;
  const std::unique_ptr<LogSink> log = MakeLog(!f.verbose);
  static const SteadyClock clock;
  auto model = LoadModel(f.model, log.get());
  if (!model.ok()) return Session::Fail(model.status());
  auto exec_config = ExecConfigOf(f.model);
  if (!exec_config.ok()) return Session::Fail(exec_config.status());
  auto executor = MakeExecutor(*model, *exec_config, log.get());
  if (!executor.ok()) return Session::Fail(executor.status());
  auto engine_config = EngineConfigOf(f.model, model->eos_ids);
  if (!engine_config.ok()) return Session::Fail(engine_config.status());
  auto engine = engine::Engine::Create(*engine_config, executor->get(), &clock, log.get());
  if (!engine.ok()) return Session::Fail(engine.status());
  Session session(f, std::move(model).value(), std::move(executor).value(), std::move(engine).value());
  return chat ? session.Chat() : session.Once();
}

}  // namespace

Command AddRun(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  AddModelFlags(app, &flags->model);
  app.add_option("--prompt", flags->prompt, "text; without it a chat starts on a terminal");
  app.add_option("--prompt-ids", flags->prompt_ids, "token ids instead of text: 1,2,3");
  app.add_option("--system", flags->system, "system message");
  app.add_flag("--raw", flags->raw, "the prompt is completed as it is, without the chat template");
  app.add_option("--max-tokens", flags->max_tokens, "of the answer")->capture_default_str()->check(CLI::Range(1, INT32_MAX));
  app.add_option("--temperature", flags->temperature, "0: the most likely token")->capture_default_str();
  app.add_option("--top-p", flags->top_p)->capture_default_str();
  app.add_option("--top-k", flags->top_k)->capture_default_str();
  app.add_option("--min-p", flags->min_p)->capture_default_str();
  app.add_option("--repetition-penalty", flags->repetition_penalty)->capture_default_str();
  app.add_option("--presence-penalty", flags->presence_penalty)->capture_default_str();
  app.add_option("--frequency-penalty", flags->frequency_penalty)->capture_default_str();
  app.add_option("--request-seed", flags->request_seed, "of this request's draws; -1: one is drawn")->capture_default_str();
  app.add_option("--logprobs", flags->logprobs, "log-probabilities of the n best tokens at each position")->capture_default_str();
  app.add_option("--min-tokens", flags->min_tokens)->capture_default_str();
  app.add_flag("--ignore-eos", flags->ignore_eos);
  app.add_option("--stop", flags->stop, "stop string, repeatable");
  app.add_flag("--json", flags->json, "one JSON object instead of text");
  app.add_flag("--hash-logits", flags->hash_logits, "hash the logits of every token (always with --json)");
  app.add_flag("--verbose", flags->verbose, "log what is loaded and chosen");
  return [flags] { return Run(*flags); };
}

}  // namespace weft::cli
