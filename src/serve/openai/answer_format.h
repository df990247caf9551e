// How what was generated becomes the JSON of an API. Chat and text completions are two formats of
// the same thing; the service (answer.cc) does not know which one it feeds.
// Thread: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace weft::serve {

// What all parts of one answer repeat.
struct AnswerHead {
  std::string id;  // "chatcmpl-..." or "cmpl-..."
  std::string model;
  std::string fingerprint;
  int64_t created = 0;  // seconds since 1970
};

struct TokenProb {
  std::string bytes;
  std::optional<float> logprob;  // none: of the first token of a prompt, which nothing predicts
};

struct LogprobEntry {
  TokenProb chosen;
  std::vector<TokenProb> top;  // best first
};

// Something new of one choice; with a finish_reason its last word. In an answer that is not
// streamed there is one per choice.
struct Piece {
  int32_t index = 0;
  std::string text;
  bool with_logprobs = false;
  std::vector<LogprobEntry> logprobs;
  int64_t text_offset = 0;  // code points of the choice before the first entry of logprobs
  bool with_token_ids = false;
  std::vector<int32_t> token_ids;
  std::string finish_reason;  // "": not yet
  Json stop_reason;           // the stop string or stop token id
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};
Json ToJson(const Usage& usage);

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual std::string_view id_prefix() const = 0;
  // The chunk that introduces a choice; null if the format has none.
  virtual Json Opening(const AnswerHead& head, int32_t index) const = 0;
  // One or two chunks.
  virtual std::vector<Json> Chunks(const AnswerHead& head, Piece piece) const = 0;
  // The chunk without choices that carries the usage.
  virtual Json UsageChunk(const AnswerHead& head, const Usage& usage) const = 0;
  virtual Json Whole(const AnswerHead& head, std::span<Piece> pieces, const Usage& usage) const = 0;
};

// A logprob as a JSON number: never -inf, at least the smallest that clients know; or null.
Json LogprobJson(const std::optional<float>& logprob);
// A token as a string: its text, or "bytes:\x.." if it is no complete UTF-8.
std::string TokenText(std::string_view bytes);

}  // namespace weft::serve
