#include "engine/sampling/next_row.h"

#include <span>

namespace weft::engine {

void WriteNextRow(const Sequence& s, int32_t drafts, SeenTokens* with_drafts, SampleRow* row) {
  row->position = static_cast<uint32_t>(s.length() + drafts);
  row->target = -1;
  row->logprobs = s.sampling().logprobs.value_or(-1);
  if (drafts > 0 && s.seen.tracks()) {
    *with_drafts = s.seen;
    for (int32_t j = 0; j < drafts; ++j) with_drafts->Add(s.drafts[j]);
    with_drafts->Fill(row);
  } else {
    s.seen.Fill(row);
  }
  row->bias_ids = s.bias_ids.data();
  row->bias = s.bias.data();
  row->biases = static_cast<int32_t>(s.bias_ids.size());
  const std::span<const int32_t> banned = s.stop.BannedAt(s.outputs() + drafts);
  row->banned = banned.empty() ? nullptr : banned.data();
  row->banned_count = static_cast<int32_t>(banned.size());
}

bool IsArgmax(const SampleRow& row) {
  return row.target < 0 && row.logprobs < 0 && row.temperature == 0 && row.seen == 0 &&
         row.biases == 0 && row.banned_count == 0 && row.allowed == nullptr;
}

}  // namespace weft::engine
