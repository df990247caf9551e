#include "serve/openai/errors.h"

#include <fmt/format.h>

namespace weft::serve {

std::string_view ErrorType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

Json ToJson(const ApiError& error) {
  Json inner;
  inner.Set("message", error.message);
  inner.Set("type", ErrorType(error.status));
  inner.Set("param", error.param.empty() ? Json() : Json(error.param));
  inner.Set("code", error.code.empty() ? Json() : Json(error.code));
  for (const auto& [name, value] : error.numbers) inner.Set(name, value);
  Json out;
  out.Set("error", std::move(inner));
  return out;
}

HttpResponse ToResponse(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = DumpJson(ToJson(error));
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

ApiError FromStatus(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalid:
      return {.status = 400, .message = status.message(), .code = "invalid_value"};
    case StatusCode::kUnsupported:
      return {.status = 400, .message = status.message(), .code = "not_supported"};
    case StatusCode::kNotFound:
      return {.status = 404, .message = status.message(), .code = "not_found"};
    case StatusCode::kExhausted:
      return {.status = 429,
              .message = "Too many requests are waiting; try again soon.",
              .code = "queue_full"};
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return {.status = 503, .message = "The server is shutting down.", .code = "unavailable"};
    case StatusCode::kDeadline:
      return {.status = 503,
              .message = "The request took longer than --request-timeout allows.",
              .code = "timeout"};
    default:
      // What went wrong inside is for the log, not for the network.
      return {.status = 500, .message = "The server failed on this request.", .code = "internal"};
  }
}

std::string Echo(std::string_view text) {
  std::string out = "'";
  const bool cut = text.size() > 64;
  for (const char c : text.substr(0, 64)) {
    if (c >= 0x20 && c < 0x7f && c != '\'' && c != '\\') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += cut ? "'..." : "'";
  return out;
}

ApiError BadField(std::string_view param, std::string message) {
  return {.status = 400,
          .message = std::move(message),
          .param = std::string(param),
          .code = "invalid_value"};
}

ApiError NotSupported(std::string_view param, std::string_view what) {
  return {.status = 400,
          .message = fmt::format("{} is not supported yet.", what),
          .param = std::string(param),
          .code = "not_supported"};
}

ApiError UnknownModel(std::string_view model, const std::vector<std::string>& served) {
  return {.status = 404,
          .message = fmt::format("The model {} does not exist; this server has {}.", Echo(model),
                                 fmt::join(served, ", ")),
          .param = "model",
          .code = "model_not_found"};
}

ApiError ContextExceeded(int64_t model_len, int64_t prompt_tokens, int64_t max_tokens) {
  return {.status = 400,
          .message = fmt::format(
              "This model's maximum context length is {} tokens, but {} were asked for: {} in the "
              "prompt and {} for the answer (max_tokens).",
              model_len, prompt_tokens + max_tokens, prompt_tokens, max_tokens),
          .param = "max_tokens",
          .code = "context_length_exceeded",
          .numbers = {{"max_model_len", model_len},
                      {"prompt_tokens", prompt_tokens},
                      {"max_tokens", max_tokens}}};
}

}  // namespace weft::serve
