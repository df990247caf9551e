// From the body of a request to what is to be done: JSON, fields, template and tokens. Everything
// here computes and nothing waits, so it runs on the workers.
// Thread: any; immutable once made.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json.h"
#include "serve/answers.h"
#include "serve/http/message.h"
#include "serve/openai/chat.h"
#include "serve/openai/completions.h"
#include "serve/openai/errors.h"
#include "serve/openai/models.h"
#include "serve/openai/params.h"
#include "serve/prompt.h"

namespace weft::serve {

enum class Api { kChat, kCompletion };

HttpResponse JsonResponse(const Json& json);

class BodyReader {
 public:
  struct Options {
    ParamRules rules;
    PromptBuilder builder;  // what it points to outlives the reader
    const ServedModels* models = nullptr;
    size_t body_bytes_max = 0;
    bool clamp_max_tokens = false;
  };
  explicit BodyReader(Options options)
      : rules_(std::move(options.rules)),
        builder_(options.builder),
        models_(*options.models),
        body_bytes_max_(options.body_bytes_max),
        clamp_max_tokens_(options.clamp_max_tokens) {}

  // Fills what the body says; the head of the answer is the caller's.
  std::optional<ApiError> MakePlan(Api api, const std::string& body, AnswerPlan* plan) const;
  HttpResponse Tokenize(const std::string& body) const;
  HttpResponse Detokenize(const std::string& body) const;
  HttpResponse RenderTemplate(const std::string& body) const;

 private:
  std::optional<ApiError> ParseBody(const std::string& body, Json* json) const;
  std::optional<ApiError> CheckModel(const std::string& model) const;
  std::optional<ApiError> PlanChat(const Json& body, AnswerPlan* plan) const;
  std::optional<ApiError> PlanCompletion(const Json& body, AnswerPlan* plan) const;

  const ParamRules rules_;
  const PromptBuilder builder_;
  const ServedModels& models_;
  const size_t body_bytes_max_;
  const bool clamp_max_tokens_;
  const ChatFormat chat_format_;
  const CompletionFormat completion_format_;
};

}  // namespace weft::serve
