// OpenAI's error object and which HTTP status it goes with.
// Messages are fixed texts with at most 64 escaped bytes of the client's own words in them: no
// path, address or place in our code ever gets out. Thread: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serve/http/message.h"

namespace weft::serve {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // dotted path of the field at fault, or ""
  std::string code;   // for programs, as "context_length_exceeded", or ""
  std::vector<std::pair<std::string, int64_t>> numbers;  // more members, as "prompt_tokens"
};

// "invalid_request_error", "authentication_error", ... for a status.
std::string_view ErrorType(int status);

// {"error":{"message","type","param","code"}}
Json ToJson(const ApiError& error);
// With Retry-After where clients should come back (429, 503).
HttpResponse ToResponse(const ApiError& error);

// What a Status from the engine or the tokenizer is to a client.
ApiError FromStatus(const Status& status);

// At most 64 bytes of what a client wrote, printable, in single quotes.
std::string Echo(std::string_view text);

ApiError BadField(std::string_view param, std::string message);
ApiError NotSupported(std::string_view param, std::string_view what);
ApiError UnknownModel(std::string_view model, const std::vector<std::string>& served);
ApiError ContextExceeded(int64_t model_len, int64_t prompt_tokens, int64_t max_tokens);

}  // namespace weft::serve
