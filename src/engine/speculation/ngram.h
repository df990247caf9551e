// Prompt lookup: what came behind the last occurrence of a sequence's last tokens may come again.
// Source: Saxena 2023 (prompt lookup decoding); vLLM's method "ngram", which takes the first
// occurrence; the last one is nearer in text and as cheap to find. Thread: any (pure function).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::engine {

// Appends to `drafts` up to `count` tokens: those behind the latest earlier occurrence of the
// longest of the last lookup_max .. lookup_min tokens that has one; none if none has. O(tokens *
// lookup_max).
void ProposeByLookup(std::span<const int32_t> tokens, int32_t lookup_min, int32_t lookup_max,
                     int32_t count, std::vector<int32_t>* drafts);

}  // namespace weft::engine
