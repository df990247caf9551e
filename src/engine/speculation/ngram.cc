#include "engine/speculation/ngram.h"

#include <algorithm>

namespace weft::engine {

void ProposeByLookup(std::span<const int32_t> tokens, int32_t lookup_min, int32_t lookup_max,
                     int32_t count, std::vector<int32_t>* drafts) {
  const auto length = static_cast<int32_t>(tokens.size());
  int32_t best = 0, best_end = 0;  // tokens in common, and where those that follow begin
  for (int32_t end = length - 1; end > 0 && best < lookup_max; --end) {
    const int32_t most = std::min(lookup_max, end);
    int32_t same = 0;
    while (same < most && tokens[end - 1 - same] == tokens[length - 1 - same]) ++same;
    if (same > best) {
      best = same;
      best_end = end;
    }
  }
  if (best < lookup_min) return;
  const int32_t n = std::min(count, length - best_end);
  drafts->insert(drafts->end(), tokens.begin() + best_end, tokens.begin() + best_end + n);
}

}  // namespace weft::engine
