#include "serve/openai/answer_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace weft::serve {

Json ToJson(const Usage& usage) {
  Json cached;
  cached.Set("cached_tokens", usage.cached_tokens);
  Json reasoning;
  reasoning.Set("reasoning_tokens", 0);
  Json out;
  out.Set("prompt_tokens", usage.prompt_tokens);
  out.Set("completion_tokens", usage.completion_tokens);
  out.Set("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  out.Set("prompt_tokens_details", std::move(cached));
  out.Set("completion_tokens_details", std::move(reasoning));
  return out;
}

Json LogprobJson(const std::optional<float>& logprob) {
  constexpr double kSmallest = -9999.0;
  if (!logprob) return Json();
  if (std::isnan(*logprob)) return Json(kSmallest);
  return Json(std::clamp(static_cast<double>(*logprob), kSmallest, 0.0));
}

std::string TokenText(std::string_view bytes) {
  if (text::IsValidUtf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace weft::serve
