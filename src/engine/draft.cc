// Guesses for the next step: by the draft head over what the step has just computed, or by looking
// back.
#include <algorithm>

#include "engine/engine_impl.h"
#include "engine/speculation/ngram.h"

namespace weft::engine {
namespace {

// A sequence in which drafting is tried even where it did not pay for others, and for how many
// tokens.
constexpr uint64_t kProbeEvery = 32;
constexpr int32_t kProbeTokens = 32;

}  // namespace

bool EngineImpl::FollowsWithDrafts(const Sequence& s, const Pace::Choice& pace) const {
  return pace.pays() || (s.number % kProbeEvery == 0 && s.outputs() < kProbeTokens);
}

int32_t EngineImpl::DraftsFor(const Sequence& s, const Pace::Choice& pace) const {
  if (s.ended != FinishReason::kNone || !s.decodes()) return 0;
  const int32_t count = pace.pays() ? pace.drafts : FollowsWithDrafts(s, pace) ? 1 : 0;
  // The last token that may come needs no draft: the step samples it anyhow.
  return std::clamp(s.tokens_max - s.length() - 1, 0, count);
}

Status EngineImpl::Draft() {
  const auto decoding = std::count_if(
      parts_.begin(), parts_.end(), [](const DraftPart& part) { return part.sequence->decodes(); });
  const Pace::Choice pace = pace_.Choose(static_cast<int32_t>(decoding));
  WEFT_RETURN_IF_ERROR(Guess(pace));
  if (faults_.tamper == nullptr) return Status::Ok();
  for (const DraftPart& part : parts_) {
    // Also where nothing was guessed: the test makes the guesses.
    Sequence* s = part.sequence;
    s->drafts.resize(static_cast<size_t>(DraftsFor(*s, pace)));
    if (!s->drafts.empty()) faults_.tamper(s->request->id, s->outputs(), &s->drafts);
  }
  return Status::Ok();
}

Status EngineImpl::Guess(const Pace::Choice& pace) {
  drafting_ = parts_;
  for (DraftPart& part : drafting_) part.wanted = DraftsFor(*part.sequence, pace);
  if (config_.speculation.method == SpeculationMethod::kMtp) return DraftByHead(pace);
  for (const DraftPart& part : drafting_) {
    Sequence* s = part.sequence;
    ProposeByLookup(s->tokens, config_.speculation.lookup_min, config_.speculation.lookup_max,
                    part.wanted, &s->drafts);
  }
  return Status::Ok();
}

Status EngineImpl::DraftByHead(const Pace::Choice& pace) {
  // Who misses one pass of the head has no use for another.
  for (const DraftPart& part : drafting_)
    part.sequence->draft_cache &= FollowsWithDrafts(*part.sequence, pace);
  std::erase_if(drafting_, [](const DraftPart& part) { return !part.sequence->draft_cache; });
  if (drafting_.empty()) return Status::Ok();
  for (DraftPart& part : drafting_) {
    // Later drafts are computed behind the sequence's end. Without blocks for that there is one.
    Sequence* s = part.sequence;
    if (part.wanted > 1 && !cache_.Reserve(s->length() + part.wanted - 1, &s->kv)) part.wanted = 1;
  }
  for (const plan::DraftInputs* inputs = &draft_inputs_.First(drafting_); !inputs->rows.empty();
       inputs = &draft_inputs_.Next(drafting_)) {
    WEFT_RETURN_IF_ERROR(executor_->Draft(*inputs, &outputs_));
    const SampleOut* row = outputs_.rows.data();
    for (DraftPart* part : draft_inputs_.drafted()) {
      // A guess that is none ends the guessing; the step says what is wrong, if anything is.
      if (CheckRow(*row).ok()) {
        part->sequence->drafts.push_back(row->id);
      } else {
        part->wanted = 0;
      }
      ++row;
    }
  }
  return Status::Ok();
}

// What a step of decodes alone cost, and the drafting behind it, if all of it was alike.
void EngineImpl::NotePace(std::span<Sequence* const> step, int32_t verified, int64_t step_ns,
                          int64_t draft_ns) {
  const auto sequences = static_cast<int32_t>(step.size());
  if (verified < 0) return;
  pace_.Stepped(sequences, verified, static_cast<double>(step_ns) / kNsPerSecond);
  const auto made = [&](const DraftPart& part) {
    return static_cast<int32_t>(part.sequence->drafts.size());
  };
  if (parts_.empty() || drafting_.size() != step.size()) return;
  const int32_t drafts = made(parts_.front());
  if (std::all_of(parts_.begin(), parts_.end(),
                  [&](const DraftPart& part) { return made(part) == drafts; })) {
    pace_.Drafted(sequences, drafts, static_cast<double>(draft_ns) / kNsPerSecond);
  }
}

}  // namespace weft::engine
