#include "engine/step_inputs.h"

#include <algorithm>

#include "base/check.h"
#include "engine/sampling/next_row.h"
#include "engine/sampling/params.h"

namespace weft::engine {

StepInputsBuilder::StepInputsBuilder(int32_t tokens_max, int32_t sequences_max, int32_t rows_max,
                                     SlotMap* slots)
    : slots_(slots), ids_(tokens_max), positions_(tokens_max), slot_ids_(tokens_max) {
  parts_.reserve(sequences_max);
  segments_.reserve(sequences_max);
  head_rows_.reserve(rows_max);
  sample_.reserve(rows_max);
  seen_.resize(rows_max);
}

const plan::StepInputs& StepInputsBuilder::Build(std::span<Sequence* const> sequences,
                                                 std::span<const plan::StateCopy> copies) {
  if (!SameLayout(sequences)) WriteLayout(sequences);

  plan::HeadMode mode = plan::HeadMode::kGreedy;
  int top_logprobs = 0;
  bool hash_logits = false;
  size_t head = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = *sequences[i];
    slots_->Sync(s.seat, s.number, s.kv);
    WriteTokens(s, &segments_[i]);
    const int32_t first_head = s.computed + s.chunk - s.chunk_heads;
    for (int32_t j = 0; j < s.chunk_heads; ++j, ++head) {
      if (WriteSampleRow(s, first_head + j, head)) mode = plan::HeadMode::kSample;
      top_logprobs = std::max(top_logprobs, sample_[head].logprobs);
      hash_logits |= s.request->hash_logits;
    }
  }
  const Segment& last = segments_.back();
  const auto rows = static_cast<size_t>(last.row_begin + last.rows);
  inputs_.ids = std::span(ids_).first(rows);
  inputs_.positions = std::span(positions_).first(rows);
  inputs_.slots = std::span(slot_ids_).first(rows);
  inputs_.segments = segments_;
  inputs_.state_copies = copies;
  inputs_.head_rows = head_rows_;
  inputs_.mode = mode;
  inputs_.sample = mode == plan::HeadMode::kSample ? std::span<const SampleRow>(sample_)
                                                   : std::span<const SampleRow>();
  inputs_.top_logprobs = top_logprobs;
  inputs_.hash_logits = hash_logits;
  return inputs_;
}

bool StepInputsBuilder::SameLayout(std::span<Sequence* const> sequences) const {
  return std::equal(parts_.begin(), parts_.end(), sequences.begin(), sequences.end(),
                    [](const Part& part, const Sequence* s) {
                      return part == Part{s->number, s->chunk, s->chunk_heads};
                    });
}

void StepInputsBuilder::WriteLayout(std::span<Sequence* const> sequences) {
  ++layouts_written_;
  parts_.clear();
  segments_.clear();
  head_rows_.clear();
  sample_.clear();
  int32_t row = 0;
  for (const Sequence* s : sequences) {
    parts_.push_back({s->number, s->chunk, s->chunk_heads});
    segments_.push_back({.row_begin = row, .rows = s->chunk});
    for (int32_t j = s->chunk - s->chunk_heads; j < s->chunk; ++j) {
      head_rows_.push_back(row + j);
      sample_.push_back(MakeSampleRow(s->sampling(), s->seed, s->request->choice));
    }
    row += s->chunk;
  }
  WEFT_CHECK(row <= static_cast<int32_t>(ids_.size()), "a step of {} tokens, at most {} fit", row,
             ids_.size());
}

void StepInputsBuilder::WriteTokens(const Sequence& s, Segment* segment) {
  segment->position_begin = s.computed;
  segment->pages = slots_->pages(s.seat);
  segment->page_count = slots_->page_count(s.seat);
  segment->state = s.seat + 1;
  segment->replay = s.replay;
  segment->logged = s.chunk_drafts;
  for (int32_t j = 0; j < s.chunk; ++j) {
    const int32_t position = s.computed + j;
    const int32_t row = segment->row_begin + j;
    ids_[row] = position < s.length() ? s.tokens[position] : s.drafts[position - s.length()];
    positions_[row] = position;
    slot_ids_[row] = slots_->slot(s.seat, position);
  }
}

bool StepInputsBuilder::WriteSampleRow(const Sequence& s, int32_t position, size_t head) {
  const SamplingParams& params = s.sampling();
  SampleRow* row = &sample_[head];
  if (position + 1 < s.length()) {  // the next token is known: only its logprob is wanted
    row->position = static_cast<uint32_t>(position + 1);
    row->target = s.tokens[position + 1];
    row->logprobs = params.prompt_logprobs.value_or(-1);
    return true;
  }
  // Behind drafts the row is what it will be if they are accepted.
  WriteNextRow(s, position + 1 - s.length(), &seen_[head], row);
  return !IsArgmax(*row);
}

}  // namespace weft::engine
