#include "engine/speculation/draft_inputs.h"

#include <algorithm>

#include "engine/sampling/next_row.h"
#include "engine/sampling/params.h"

namespace weft::engine {

DraftInputsBuilder::DraftInputsBuilder(int32_t tokens_max, int32_t sequences_max, bool drawn,
                                       SlotMap* slots)
    : drawn_(drawn), slots_(slots) {
  for (auto* list : {&rows_, &ids_, &positions_}) list->reserve(tokens_max);
  slot_ids_.reserve(tokens_max);
  head_rows_.reserve(sequences_max);
  segments_.reserve(sequences_max);
  drafted_.reserve(sequences_max);
  sample_.reserve(sequences_max);
  seen_.resize(sequences_max);
}

const plan::DraftInputs& DraftInputsBuilder::First(std::span<DraftPart> parts) {
  Begin();
  for (DraftPart& part : parts) {
    const Sequence& s = *part.sequence;
    for (int32_t j = 0; j < part.rows; ++j) {
      rows_.push_back(part.row + j);
      ids_.push_back(s.tokens[part.position + j + 1]);
    }
    AddSegment(&part, part.rows);
  }
  return End(/*first=*/true);
}

const plan::DraftInputs& DraftInputsBuilder::Next(std::span<DraftPart> parts) {
  Begin();
  for (DraftPart& part : parts) {
    if (static_cast<int32_t>(part.sequence->drafts.size()) >= part.wanted) part.wanted = 0;
    if (part.wanted == 0) continue;
    rows_.push_back(part.row);
    ids_.push_back(part.sequence->drafts.back());
    AddSegment(&part, 1);
  }
  return End(/*first=*/false);
}

void DraftInputsBuilder::Begin() {
  for (auto* list : {&rows_, &ids_, &positions_, &head_rows_}) list->clear();
  slot_ids_.clear();
  segments_.clear();
  drafted_.clear();
  sample_.clear();
}

void DraftInputsBuilder::AddSegment(DraftPart* part, int32_t rows) {
  Sequence* s = part->sequence;
  const auto begin = static_cast<int32_t>(positions_.size());
  slots_->Sync(s->seat, s->number, s->kv);
  for (int32_t j = 0; j < rows; ++j) {
    positions_.push_back(part->position + j);
    slot_ids_.push_back(slots_->slot(s->seat, part->position + j));
  }
  segments_.push_back({.row_begin = begin,
                       .rows = rows,
                       .position_begin = part->position,
                       .page_count = slots_->page_count(s->seat),
                       .pages = slots_->pages(s->seat),
                       .state = s->seat + 1});
  if (part->wanted > 0) AddHead(part, begin + rows - 1);
  part->row = begin + rows - 1;
  part->position += rows;
}

void DraftInputsBuilder::AddHead(DraftPart* part, int32_t row) {
  if (drawn_) {
    const Sequence& s = *part->sequence;
    SampleRow& sample =
        sample_.emplace_back(MakeSampleRow(s.sampling(), s.seed, s.request->choice));
    WriteNextRow(s, static_cast<int32_t>(s.drafts.size()), &seen_[drafted_.size()], &sample);
    sample.logprobs = -1;  // of a guess nobody is told
  }
  head_rows_.push_back(row);
  drafted_.push_back(part);
}

const plan::DraftInputs& DraftInputsBuilder::End(bool first) {
  inputs_.first = first;
  inputs_.rows = rows_;
  inputs_.step.ids = ids_;
  inputs_.step.positions = positions_;
  inputs_.step.slots = slot_ids_;
  inputs_.step.segments = segments_;
  inputs_.step.head_rows = head_rows_;
  const bool argmax = std::all_of(sample_.begin(), sample_.end(), IsArgmax);
  inputs_.step.mode = argmax ? plan::HeadMode::kGreedy : plan::HeadMode::kSample;
  inputs_.step.sample = argmax ? std::span<const SampleRow>() : std::span(sample_);
  return inputs_;
}

}  // namespace weft::engine
