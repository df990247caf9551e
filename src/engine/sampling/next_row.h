// How the token that comes next is chosen: the fields of its SampleRow that change from token to
// token. One definition, for the row that decides and for a draft of it, which guesses better the
// more it is drawn alike. Thread: pure function; allocates nothing once `with_drafts` has held as
// many ids.
#pragma once

#include <cstdint>

#include "engine/sampling/penalties.h"
#include "engine/sequence.h"
#include "tensor/rows.h"

namespace weft::engine {

// Of the token behind `s` and the first `drafts` of its drafts, which count as output.
// row: from MakeSampleRow(s.sampling(), ...); its pointers are into `s` and `with_drafts`.
void WriteNextRow(const Sequence& s, int32_t drafts, SeenTokens* with_drafts, SampleRow* row);

// Whether argmax of the raw logits is that token, and the row tells nothing else
// (HeadMode::kGreedy).
bool IsArgmax(const SampleRow& row);

}  // namespace weft::engine
