// The arrays of draft steps behind a step: a first one over its settled rows, then one row for each
// sequence that wants more drafts. Where drafts are drawn, each by the parameters and the random
// number of the row that will verify it. Thread: engine only. Nothing allocates after construction;
// the spans that are returned stay valid until the next call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/slot_map.h"
#include "engine/sampling/penalties.h"
#include "engine/sequence.h"
#include "plan/executor.h"

namespace weft::engine {

// A sequence's share of the draft steps.
struct DraftPart {
  Sequence* sequence = nullptr;
  int32_t row = 0;       // its first row among the hidden rows of the step before
  int32_t rows = 0;      // of which are settled, so many
  int32_t position = 0;  // of the first
  int32_t wanted = 0;    // drafts; 0: only the draft head's keys and values
};

class DraftInputsBuilder {
 public:
  DraftInputsBuilder(int32_t tokens_max, int32_t sequences_max, bool drawn, SlotMap* slots);

  // REQUIRES: the token behind each row is known. Moves the parts on to the rows that Next() reads.
  const plan::DraftInputs& First(std::span<DraftPart> parts);
  // One more draft for each part that has fewer than it wants. REQUIRES: the others want 0.
  const plan::DraftInputs& Next(std::span<DraftPart> parts);
  // Whose draft each head row of the last one is.
  std::span<DraftPart* const> drafted() const { return drafted_; }

 private:
  void Begin();
  void AddSegment(DraftPart* part, int32_t rows);
  void AddHead(DraftPart* part, int32_t row);
  const plan::DraftInputs& End(bool first);

  const bool drawn_;
  SlotMap* slots_;
  std::vector<int32_t> rows_, ids_, positions_, head_rows_;
  std::vector<int64_t> slot_ids_;
  std::vector<Segment> segments_;
  std::vector<DraftPart*> drafted_;
  std::vector<SampleRow> sample_;  // if drawn_; of each head row
  std::vector<SeenTokens> seen_;   // [sequences_max] behind drafts, which count as output
  plan::DraftInputs inputs_;
};

}  // namespace weft::engine
