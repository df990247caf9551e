#include "serve/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "text/chat_template.h"

namespace weft::serve {

std::optional<ApiError> PromptBuilder::FromText(std::string_view text, bool add_special_tokens,
                                                std::vector<int32_t>* ids) const {
  const auto tokens_max = static_cast<size_t>(max_model_len);
  auto encoded =
      tokenizer->Encode(text, {.add_special_tokens = add_special_tokens, .tokens_max = tokens_max});
  if (!encoded.ok()) {
    return ApiError{
        .status = 400,
        .message = fmt::format("The prompt has more tokens than this model's context of {}.",
                               max_model_len),
        .param = "prompt",
        .code = "context_length_exceeded",
        .numbers = {{"max_model_len", max_model_len}}};
  }
  if (encoded->empty()) return BadField("prompt", "The prompt is empty.");
  *ids = std::move(*encoded);
  return std::nullopt;
}

std::optional<ApiError> PromptBuilder::Render(const ChatRequest& chat, std::string* text) const {
  if (chat_template == nullptr) {
    return ApiError{.status = 400,
                    .message =
                        "The model has no chat template; use /v1/completions, or start the "
                        "server with --chat-template.",
                    .param = "messages",
                    .code = "no_chat_template"};
  }
  Json context;
  context.Set("messages", chat.messages);
  context.Set("tools", Json());
  context.Set("add_generation_prompt", chat.add_generation_prompt);
  const auto special = [&](std::string_view name, std::optional<int32_t> id) {
    if (id) context.Set(name, std::string(tokenizer->TokenBytes(*id)));
  };
  special("bos_token", tokenizer->bos());
  special("eos_token", tokenizer->eos());
  special("pad_token", tokenizer->pad());
  if (chat.template_kwargs.is_object()) {
    for (const auto& [name, value] : chat.template_kwargs.as_object()) {
      // What the template never reads changes nothing; clients send the same to every model.
      if (chat_template->Uses(name)) context.Set(name, value);
    }
  }
  text::RenderOptions options;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (localtime_r(&now, &local) != nullptr) options.now = local;
  auto rendered = chat_template->Render(context, options);
  if (!rendered.ok()) {
    return BadField("messages", fmt::format("The model's chat template refused the messages: {}",
                                            rendered.status().message()));
  }
  *text = std::move(*rendered);
  return std::nullopt;
}

std::optional<ApiError> PromptBuilder::FromChat(const ChatRequest& chat,
                                                std::vector<int32_t>* ids) const {
  std::string text;
  if (auto error = Render(chat, &text)) return error;
  auto error = FromText(text, chat.add_special_tokens, ids);
  if (error) error->param = "messages";
  return error;
}

std::optional<ApiError> PromptBuilder::CheckIds(std::span<const int32_t> ids,
                                                std::string_view param) const {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return BadField(
        param, fmt::format("{} holds the token id {}, but the vocabulary has {} tokens.", param, id,
                           vocab_size));
  }
  return std::nullopt;
}

std::optional<ApiError> PromptBuilder::FitAnswer(size_t prompt_tokens,
                                                 std::optional<int32_t> otherwise, bool clamp,
                                                 CommonParams* params) const {
  engine::SamplingParams& sampling = params->sampling;
  if (auto error = CheckIds(sampling.stop_token_ids, "stop_token_ids")) return error;
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (auto error = CheckIds(std::span(&id, 1), "logit_bias")) return error;
  }
  const int64_t room = int64_t{max_model_len} - static_cast<int64_t>(prompt_tokens);
  const int64_t asked = params->max_tokens.value_or(1);
  if (room < 1 || (asked > room && !clamp)) {
    return ContextExceeded(max_model_len, static_cast<int64_t>(prompt_tokens), asked);
  }
  const int64_t wanted = params->max_tokens ? asked : int64_t{otherwise.value_or(INT32_MAX)};
  params->max_tokens = static_cast<int32_t>(std::min(wanted, room));
  sampling.max_tokens = *params->max_tokens;
  if (sampling.min_tokens > sampling.max_tokens) {
    return BadField("min_tokens", fmt::format("min_tokens {} is more than max_tokens {}.",
                                              sampling.min_tokens, sampling.max_tokens));
  }
  return std::nullopt;
}

}  // namespace weft::serve
