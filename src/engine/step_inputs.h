// The arrays of a step, kept from step to step: only what changed is rewritten.
//
// Thread: engine only. Nothing allocates after construction. The spans of Build() stay valid until
// the next Build(); page tables are the seats' rows in the SlotMap.
// What is the same is known, not guessed: the layout by comparing (sequence, rows, head rows) with
// the step before, page tables by generation numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/slot_map.h"
#include "engine/sequence.h"
#include "plan/executor.h"

namespace weft::engine {

class StepInputsBuilder {
 public:
  StepInputsBuilder(int32_t tokens_max, int32_t sequences_max, int32_t rows_max, SlotMap* slots);

  // The step in which each of `sequences` computes its chunk.
  const plan::StepInputs& Build(std::span<Sequence* const> sequences,
                                std::span<const plan::StateCopy> copies = {});

  // How often the layout (row ranges, head rows, fixed sampling parameters) was written anew.
  uint64_t layouts_written() const { return layouts_written_; }

 private:
  struct Part {  // one sequence's share of the layout
    uint64_t number = 0;
    int32_t chunk = 0;
    int32_t heads = 0;
    bool operator==(const Part&) const = default;
  };
  bool SameLayout(std::span<Sequence* const> sequences) const;
  void WriteLayout(std::span<Sequence* const> sequences);
  void WriteTokens(const Sequence& s, Segment* segment);
  // True if the row needs more than the argmax of the raw logits.
  bool WriteSampleRow(const Sequence& s, int32_t position, size_t head);

  SlotMap* slots_;
  std::vector<Part> parts_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> positions_;
  std::vector<int64_t> slot_ids_;
  std::vector<Segment> segments_;
  std::vector<int32_t> head_rows_;
  std::vector<SampleRow> sample_;
  std::vector<SeenTokens> seen_;  // [rows_max] behind drafts, which count as output
  plan::StepInputs inputs_;
  uint64_t layouts_written_ = 0;
};

}  // namespace weft::engine
