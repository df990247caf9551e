// /v1/completions: "text_completion", streamed or not. The last text of a choice and its
// finish_reason share a chunk. Source: as chat.h.
#pragma once

#include "serve/openai/answer_format.h"

namespace weft::serve {

class CompletionFormat final : public AnswerFormat {
 public:
  std::string_view id_prefix() const override { return "cmpl-"; }
  Json Opening(const AnswerHead&, int32_t) const override { return Json(); }
  std::vector<Json> Chunks(const AnswerHead& head, Piece piece) const override;
  Json UsageChunk(const AnswerHead& head, const Usage& usage) const override;
  Json Whole(const AnswerHead& head, std::span<Piece> pieces, const Usage& usage) const override;
};

}  // namespace weft::serve
