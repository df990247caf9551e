// Text, chats and lists of ids to token ids that the engine may be given.
// Thread: any; it only reads what it points to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/errors.h"
#include "serve/openai/params.h"
#include "text/tokenizer.h"

namespace weft::text {
class ChatTemplate;
}

namespace weft::serve {

struct PromptBuilder {
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat_template = nullptr;  // null: the model has none
  int32_t max_model_len = 0;
  int32_t vocab_size = 0;

  // Encoding stops early at the context's length, so a prompt of megabytes costs little.
  std::optional<ApiError> FromText(std::string_view text, bool add_special_tokens,
                                   std::vector<int32_t>* ids) const;
  std::optional<ApiError> Render(const ChatRequest& chat, std::string* text) const;
  std::optional<ApiError> FromChat(const ChatRequest& chat, std::vector<int32_t>* ids) const;

  // The one check of every list of ids that a client sends.
  std::optional<ApiError> CheckIds(std::span<const int32_t> ids, std::string_view param) const;
  // Sampling ids, and max_tokens against what the prompt leaves: filled in if it was not given,
  // refused (or cut, with `clamp`) if it does not fit.
  std::optional<ApiError> FitAnswer(size_t prompt_tokens, std::optional<int32_t> otherwise,
                                    bool clamp, CommonParams* params) const;
};

}  // namespace weft::serve
