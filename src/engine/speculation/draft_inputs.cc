#include "engine/speculation/draft_inputs.h"

namespace weft::engine {

DraftInputsBuilder::DraftInputsBuilder(int32_t tokens_max, int32_t sequences_max, SlotMap* slots)
    : slots_(slots) {
  for (auto* list : {&rows_, &ids_, &positions_}) list->reserve(tokens_max);
  slot_ids_.reserve(tokens_max);
  head_rows_.reserve(sequences_max);
  segments_.reserve(sequences_max);
  drafted_.reserve(sequences_max);
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
  if (part->wanted > 0) {
    head_rows_.push_back(begin + rows - 1);
    drafted_.push_back(part);
  }
  part->row = begin + rows - 1;
  part->position += rows;
}

const plan::DraftInputs& DraftInputsBuilder::End(bool first) {
  inputs_.first = first;
  inputs_.rows = rows_;
  inputs_.step.ids = ids_;
  inputs_.step.positions = positions_;
  inputs_.step.slots = slot_ids_;
  inputs_.step.segments = segments_;
  inputs_.step.head_rows = head_rows_;
  return inputs_;
}

}  // namespace weft::engine
