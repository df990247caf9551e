// /v1/chat/completions: "chat.completion" and "chat.completion.chunk".
// Order of a stream: per choice a chunk with the role, chunks with text, one with finish_reason;
// then the usage if asked for. Source: the API reference of OpenAI; fields beyond it are vLLM's.
#pragma once

#include "serve/openai/answer_format.h"

namespace weft::serve {

class ChatFormat final : public AnswerFormat {
 public:
  std::string_view id_prefix() const override { return "chatcmpl-"; }
  Json Opening(const AnswerHead& head, int32_t index) const override;
  std::vector<Json> Chunks(const AnswerHead& head, Piece piece) const override;
  Json UsageChunk(const AnswerHead& head, const Usage& usage) const override;
  Json Whole(const AnswerHead& head, std::span<Piece> pieces, const Usage& usage) const override;
};

}  // namespace weft::serve
