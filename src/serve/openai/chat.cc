#include "serve/openai/chat.h"

#include <utility>

namespace weft::serve {
namespace {

Json Envelope(const AnswerHead& head, std::string_view object, Json::Array choices) {
  Json out;
  out.Set("id", head.id);
  out.Set("object", object);
  out.Set("created", head.created);
  out.Set("model", head.model);
  out.Set("system_fingerprint", head.fingerprint);
  out.Set("choices", std::move(choices));
  return out;
}

Json TokenJson(const TokenProb& token) {
  Json::Array bytes;
  for (const char c : token.bytes)
    bytes.emplace_back(static_cast<int>(static_cast<unsigned char>(c)));
  Json out;
  out.Set("token", TokenText(token.bytes));
  out.Set("logprob", LogprobJson(token.logprob));
  out.Set("bytes", std::move(bytes));
  return out;
}

Json ChatLogprobs(const Piece& piece) {
  if (!piece.with_logprobs) return Json();
  Json::Array content;
  for (const LogprobEntry& entry : piece.logprobs) {
    Json token = TokenJson(entry.chosen);
    Json::Array top;
    for (const TokenProb& other : entry.top) top.push_back(TokenJson(other));
    token.Set("top_logprobs", std::move(top));
    content.push_back(std::move(token));
  }
  Json out;
  out.Set("content", std::move(content));
  return out;
}

Json TokenIds(const Piece& piece) {
  Json::Array ids;
  for (const int32_t id : piece.token_ids) ids.emplace_back(id);
  return Json(std::move(ids));
}

Json Choice(int32_t index, Json delta, Json logprobs, Json finish_reason) {
  Json out;
  out.Set("index", index);
  out.Set("delta", std::move(delta));
  out.Set("logprobs", std::move(logprobs));
  out.Set("finish_reason", std::move(finish_reason));
  return out;
}

constexpr std::string_view kChunk = "chat.completion.chunk";

}  // namespace

Json ChatFormat::Opening(const AnswerHead& head, int32_t index) const {
  Json delta;
  delta.Set("role", "assistant");
  delta.Set("content", "");
  return Envelope(head, kChunk, {Choice(index, std::move(delta), Json(), Json())});
}

std::vector<Json> ChatFormat::Chunks(const AnswerHead& head, Piece piece) const {
  std::vector<Json> out;
  if (!piece.text.empty() || !piece.logprobs.empty() || !piece.token_ids.empty()) {
    Json delta;
    delta.Set("content", std::move(piece.text));
    Json choice = Choice(piece.index, std::move(delta), ChatLogprobs(piece), Json());
    if (piece.with_token_ids) choice.Set("token_ids", TokenIds(piece));
    out.push_back(Envelope(head, kChunk, {std::move(choice)}));
  }
  if (!piece.finish_reason.empty()) {
    Json choice = Choice(piece.index, Json(Json::Object{}), Json(), Json(piece.finish_reason));
    choice.Set("stop_reason", std::move(piece.stop_reason));
    out.push_back(Envelope(head, kChunk, {std::move(choice)}));
  }
  return out;
}

Json ChatFormat::UsageChunk(const AnswerHead& head, const Usage& usage) const {
  Json out = Envelope(head, kChunk, {});
  out.Set("usage", ToJson(usage));
  return out;
}

Json ChatFormat::Whole(const AnswerHead& head, std::span<Piece> pieces, const Usage& usage) const {
  Json::Array choices;
  for (Piece& piece : pieces) {
    Json message;
    message.Set("role", "assistant");
    message.Set("content", std::move(piece.text));
    Json choice;
    choice.Set("index", piece.index);
    choice.Set("message", std::move(message));
    choice.Set("logprobs", ChatLogprobs(piece));
    choice.Set("finish_reason", piece.finish_reason);
    choice.Set("stop_reason", std::move(piece.stop_reason));
    if (piece.with_token_ids) choice.Set("token_ids", TokenIds(piece));
    choices.push_back(std::move(choice));
  }
  Json out = Envelope(head, "chat.completion", std::move(choices));
  out.Set("usage", ToJson(usage));
  return out;
}

}  // namespace weft::serve
