#include "serve/openai/completions.h"

#include <utility>

#include "text/utf8.h"

namespace weft::serve {
namespace {

Json Envelope(const AnswerHead& head, Json::Array choices) {
  Json out;
  out.Set("id", head.id);
  out.Set("object", "text_completion");
  out.Set("created", head.created);
  out.Set("model", head.model);
  out.Set("system_fingerprint", head.fingerprint);
  out.Set("choices", std::move(choices));
  return out;
}

Json CompletionLogprobs(const Piece& piece) {
  if (!piece.with_logprobs) return Json();
  Json::Array offsets, values, tokens, tops;
  int64_t offset = piece.text_offset;
  for (const LogprobEntry& entry : piece.logprobs) {
    const std::string text = TokenText(entry.chosen.bytes);
    offsets.emplace_back(offset);
    offset +=
        static_cast<int64_t>(text::CountCodePoints(text::ReplaceInvalidUtf8(entry.chosen.bytes)));
    tokens.emplace_back(text);
    values.emplace_back(LogprobJson(entry.chosen.logprob));
    if (!entry.chosen.logprob) {
      tops.emplace_back();
      continue;
    }
    Json top{Json::Object{}};
    top.Set(text, LogprobJson(entry.chosen.logprob));
    for (const TokenProb& other : entry.top) {
      const std::string name = TokenText(other.bytes);
      // Two tokens may have the same text; the better one keeps the name.
      if (top.Find(name) == nullptr) top.Set(name, LogprobJson(other.logprob));
    }
    tops.push_back(std::move(top));
  }
  Json out;
  out.Set("text_offset", std::move(offsets));
  out.Set("token_logprobs", std::move(values));
  out.Set("tokens", std::move(tokens));
  out.Set("top_logprobs", std::move(tops));
  return out;
}

Json ChoiceJson(Piece& piece) {
  Json out;
  out.Set("index", piece.index);
  out.Set("text", std::move(piece.text));
  out.Set("logprobs", CompletionLogprobs(piece));
  out.Set("finish_reason", piece.finish_reason.empty() ? Json() : Json(piece.finish_reason));
  out.Set("stop_reason", std::move(piece.stop_reason));
  if (piece.with_token_ids) {
    Json::Array ids;
    for (const int32_t id : piece.token_ids) ids.emplace_back(id);
    out.Set("token_ids", std::move(ids));
  }
  return out;
}

}  // namespace

std::vector<Json> CompletionFormat::Chunks(const AnswerHead& head, Piece piece) const {
  return {Envelope(head, {ChoiceJson(piece)})};
}

Json CompletionFormat::UsageChunk(const AnswerHead& head, const Usage& usage) const {
  Json out = Envelope(head, {});
  out.Set("usage", ToJson(usage));
  return out;
}

Json CompletionFormat::Whole(const AnswerHead& head, std::span<Piece> pieces,
                             const Usage& usage) const {
  Json::Array choices;
  for (Piece& piece : pieces) choices.push_back(ChoiceJson(piece));
  Json out = Envelope(head, std::move(choices));
  out.Set("usage", ToJson(usage));
  return out;
}

}  // namespace weft::serve
