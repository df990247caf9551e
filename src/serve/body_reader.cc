#include "serve/body_reader.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "text/tokenizer.h"

namespace weft::serve {
namespace {

// An answer's length when /v1/completions is not told one.
constexpr int32_t kCompletionTokens = 16;

}  // namespace

HttpResponse JsonResponse(const Json& json) {
  HttpResponse response;
  response.body = DumpJson(json);
  return response;
}

std::optional<ApiError> BodyReader::ParseBody(const std::string& body, Json* json) const {
  auto parsed = ParseJson(
      body, {.bytes_max = body_bytes_max_ + 1, .depth_max = rules_.limits.json_depth_max});
  if (!parsed.ok()) {
    return ApiError{
        .status = 400,
        .message = fmt::format("The body is not the JSON we take: {}", parsed.status().message()),
        .code = "invalid_json"};
  }
  *json = std::move(*parsed);
  return std::nullopt;
}

std::optional<ApiError> BodyReader::CheckModel(const std::string& model) const {
  if (model.empty() || models_.Has(model)) return std::nullopt;
  return UnknownModel(model, models_.names);
}

std::optional<ApiError> BodyReader::MakePlan(Api api, const std::string& body,
                                             AnswerPlan* plan) const {
  Json json;
  if (auto error = ParseBody(body, &json)) return error;
  return api == Api::kChat ? PlanChat(json, plan) : PlanCompletion(json, plan);
}

std::optional<ApiError> BodyReader::PlanChat(const Json& body, AnswerPlan* plan) const {
  ChatRequest chat;
  if (auto error = ParseChat(body, rules_, &chat)) return error;
  if (auto error = CheckModel(chat.common.model)) return error;
  std::vector<int32_t> ids;
  if (auto error = builder_.FromChat(chat, &ids)) return error;
  if (auto error = builder_.FitAnswer(ids.size(), std::nullopt, clamp_max_tokens_, &chat.common)) {
    return error;
  }
  plan->format = &chat_format_;
  plan->prompts.push_back(std::move(ids));
  plan->params = std::move(chat.common);
  return std::nullopt;
}

std::optional<ApiError> BodyReader::PlanCompletion(const Json& body, AnswerPlan* plan) const {
  CompletionRequest completion;
  if (auto error = ParseCompletion(body, rules_, &completion)) return error;
  CommonParams& params = completion.common;
  if (auto error = CheckModel(params.model)) return error;
  plan->prompt_only = completion.echo && params.max_tokens == 0;
  if (plan->prompt_only) {
    params.max_tokens = 1;
    params.sampling.min_tokens = 0;
  }
  const std::optional<int32_t> asked = params.max_tokens;
  for (Prompt& prompt : completion.prompts) {
    std::vector<int32_t> ids;
    std::string echo;
    if (auto* text = std::get_if<std::string>(&prompt)) {
      if (auto error = builder_.FromText(*text, completion.add_special_tokens, &ids)) return error;
      echo = std::move(*text);
    } else {
      ids = std::move(std::get<std::vector<int32_t>>(prompt));
      if (auto error = builder_.CheckIds(ids, "prompt")) return error;
      if (completion.echo) echo = builder_.tokenizer->Decode(ids, {.skip_special_tokens = false});
    }
    // The shortest room of all prompts is what all answers get.
    const auto before = params.max_tokens;
    params.max_tokens = asked;
    if (auto error =
            builder_.FitAnswer(ids.size(), kCompletionTokens, clamp_max_tokens_, &params)) {
      return error;
    }
    if (!plan->prompts.empty()) params.max_tokens = std::min(*before, *params.max_tokens);
    if (completion.echo) plan->echo.push_back(std::move(echo));
    plan->prompts.push_back(std::move(ids));
  }
  params.sampling.max_tokens = *params.max_tokens;
  plan->format = &completion_format_;
  plan->params = std::move(params);
  return std::nullopt;
}

HttpResponse BodyReader::Tokenize(const std::string& body) const {
  Json json;
  if (auto error = ParseBody(body, &json)) return ToResponse(*error);
  Fields fields(json);
  const std::string model = fields.String("model").value_or("");
  const bool with_strings = fields.Bool("return_token_strs").value_or(false);
  std::vector<int32_t> ids;
  if (fields.Get("messages") != nullptr) {
    ChatRequest chat;
    ReadMessages(fields, rules_.limits, &chat);
    if (!fields.ok()) return ToResponse(*fields.error());
    if (auto error = builder_.FromChat(chat, &ids)) return ToResponse(*error);
  } else {
    // llama.cpp's clients say "content".
    auto prompt = fields.String("prompt");
    if (!prompt) prompt = fields.String("content");
    if (!prompt) fields.Fail("prompt", "prompt is missing.");
    const bool special = fields.Bool("add_special_tokens").value_or(true);
    if (!fields.ok()) return ToResponse(*fields.error());
    // Counting is of use beyond the context's length as well; the body bounds it.
    auto encoded = builder_.tokenizer->Encode(*prompt, {.add_special_tokens = special});
    if (!encoded.ok()) return ToResponse(FromStatus(encoded.status()));
    ids = std::move(*encoded);
  }
  if (auto error = CheckModel(model)) return ToResponse(*error);
  Json::Array tokens, strings;
  for (const int32_t id : ids) {
    tokens.emplace_back(id);
    if (with_strings) strings.emplace_back(TokenText(builder_.tokenizer->TokenBytes(id)));
  }
  Json out;
  out.Set("count", static_cast<int64_t>(ids.size()));
  out.Set("max_model_len", builder_.max_model_len);
  out.Set("tokens", std::move(tokens));
  if (with_strings) out.Set("token_strs", std::move(strings));
  return JsonResponse(out);
}

HttpResponse BodyReader::Detokenize(const std::string& body) const {
  Json json;
  if (auto error = ParseBody(body, &json)) return ToResponse(*error);
  Fields fields(json);
  const std::string model = fields.String("model").value_or("");
  const auto ids = fields.Ids("tokens", static_cast<int64_t>(body_bytes_max_));
  if (!ids) fields.Fail("tokens", "tokens is missing.");
  if (!fields.ok()) return ToResponse(*fields.error());
  if (auto error = CheckModel(model)) return ToResponse(*error);
  if (auto error = builder_.CheckIds(*ids, "tokens")) return ToResponse(*error);
  Json out;
  out.Set("prompt", builder_.tokenizer->Decode(*ids, {.skip_special_tokens = false}));
  return JsonResponse(out);
}

HttpResponse BodyReader::RenderTemplate(const std::string& body) const {
  Json json;
  if (auto error = ParseBody(body, &json)) return ToResponse(*error);
  Fields fields(json);
  ChatRequest chat;
  if (fields.ok()) ReadMessages(fields, rules_.limits, &chat);
  if (!fields.ok()) return ToResponse(*fields.error());
  std::string text;
  if (auto error = builder_.Render(chat, &text)) return ToResponse(*error);
  Json out;
  out.Set("prompt", std::move(text));
  return JsonResponse(out);
}

}  // namespace weft::serve
