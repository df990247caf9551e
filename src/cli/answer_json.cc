#include "cli/answer_json.h"

#include <fmt/format.h>

#include "exec/rank_executor.h"

namespace weft::cli {
namespace {

void SetLogprob(Json& out, const LoadedModel& model, const engine::TokenLogprob& t) {
  out.Set("id", t.id);
  if (model.tokenizer != nullptr)
    out.Set("token", std::string(model.tokenizer->Decode(std::vector<int32_t>{t.id},
                                                         {.skip_special_tokens = false})));
  out.Set("logprob", static_cast<double>(t.logprob));
  out.Set("logprob_hex", fmt::format("{:a}", t.logprob));
  out.Set("rank", t.rank);
}

Json Timings(size_t prompt_tokens, const Answer& a, const engine::MetricsSnapshot& metrics) {
  const double tokens = static_cast<double>(a.tokens()), ms = 1e6;
  Json out;
  out.Set("prompt_tokens", static_cast<int64_t>(prompt_tokens));
  out.Set("generated_tokens", static_cast<int64_t>(a.tokens()));
  out.Set("time_to_first_token_ms", static_cast<double>(a.first_ns - a.start_ns) / ms);
  out.Set("decode_ms_per_token",
          tokens > 1 ? static_cast<double>(a.end_ns - a.first_ns) / ms / (tokens - 1) : 0.0);
  const double steps = static_cast<double>(metrics.steps);
  out.Set("step_ms", steps > 0 ? metrics.step_s * 1e3 / steps : 0.0);
  out.Set("host_us_per_step", steps > 0 ? metrics.host_s * 1e6 / steps : 0.0);
  return out;
}

Json SpecDecode(const engine::MetricsSnapshot& m, int32_t tokens) {
  Json out, by_position(Json::Array{});
  out.Set("drafted", static_cast<int64_t>(m.spec_decode_draft_tokens));
  out.Set("accepted", static_cast<int64_t>(m.spec_decode_accepted_tokens));
  out.Set("rejected",
          static_cast<int64_t>(m.spec_decode_draft_tokens - m.spec_decode_accepted_tokens));
  for (int32_t j = 0; j < tokens; ++j)
    by_position.Push(static_cast<int64_t>(m.spec_decode_accepted_per_pos[static_cast<size_t>(j)]));
  out.Set("accepted_per_position", std::move(by_position));
  out.Set("verified_steps", static_cast<int64_t>(m.spec_decode_drafts));
  return out;
}

}  // namespace

Json AnswerJson(const LoadedModel& model, const plan::Executor& executor, size_t prompt_tokens,
                const Answer& a, const engine::MetricsSnapshot& metrics) {
  Json ids(Json::Array{}), hashes(Json::Array{}), logprobs(Json::Array{});
  for (const engine::TokenEvent& e : a.events) {
    if (e.id < 0) continue;
    ids.Push(e.id);
    hashes.Push(fmt::format("{:016x}", e.logits_hash));
    if (!e.logprob) continue;
    Json one, top(Json::Array{});
    SetLogprob(one, model, *e.logprob);
    for (const engine::TokenLogprob& t : e.top) {
      Json entry;
      SetLogprob(entry, model, t);
      top.Push(std::move(entry));
    }
    one.Set("top", std::move(top));
    logprobs.Push(std::move(one));
  }
  const bool with_logprobs = !logprobs.as_array().empty();
  Json out;
  out.Set("model", model.name);
  out.Set("token_ids", std::move(ids));
  out.Set("text", model.tokenizer == nullptr ? Json() : Json(a.text));
  out.Set("logprobs", with_logprobs ? std::move(logprobs) : Json());
  out.Set("logits_hash", std::move(hashes));
  out.Set("finish_reason", std::string(NameOf(a.finish)));
  out.Set("seed", a.seed);
  out.Set("timings", Timings(prompt_tokens, a, metrics));
  if (const int32_t drafts = executor.limits().draft_tokens; drafts > 0)
    out.Set("spec_decode", SpecDecode(metrics, drafts));
  out.Set("schedule", Describe(exec::InstanceOf(executor).config().schedule));
  out.Set("executor", executor.Describe());
  Json collectives(Json::Object{});
  int64_t bytes = 0;
  for (const auto& kind : executor.fabric_counts().kinds) {
    collectives.Set(kind.name, kind.calls);
    bytes += kind.bytes;
  }
  out.Set("collectives", std::move(collectives));
  out.Set("fabric_bytes", bytes);
  return out;
}

}  // namespace weft::cli
