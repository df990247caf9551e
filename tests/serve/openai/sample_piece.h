// A piece with everything in it that a format must treat with care.
#pragma once

#include <limits>

#include "serve/openai/answer_format.h"

namespace weft::serve {

inline const AnswerHead kHead{.id = "id-1", .model = "m", .fingerprint = "f", .created = 5};

inline Piece MakePiece() {
  Piece piece{.index = 1, .text = "h\xc3\xa9", .with_logprobs = true, .finish_reason = "stop"};
  piece.logprobs.push_back(
      {.chosen = {.bytes = "h", .logprob = -0.5f},
       .top = {{.bytes = "h", .logprob = -0.5f},
               {.bytes = "\xc3", .logprob = -std::numeric_limits<float>::infinity()}}});
  piece.logprobs.push_back({.chosen = {.bytes = "\xc3\xa9", .logprob = -1.0f}, .top = {}});
  return piece;
}

}  // namespace weft::serve
