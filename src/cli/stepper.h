// Steps straight into an executor, without an engine: what the benches time.
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "plan/executor.h"

namespace weft::cli {

struct StepTime {
  int64_t ns = 0;       // of the whole step
  int64_t host_ns = 0;  // of that outside of the plan's walk
};

// Steps straight into the executor: B sequences, each with its own pages.
class Stepper {
 public:
  Stepper(plan::Executor* executor, int sequences, int positions) : executor_(executor) {
    const int page_tokens = executor->limits().page_tokens;
    const int pages = (positions + page_tokens - 1) / page_tokens;
    pages_.resize(sequences);
    for (int b = 0; b < sequences; ++b) {
      for (int p = 0; p < pages; ++p) pages_[b].push_back(1 + b * pages + p);
    }
  }
  // Which rows of a step have logits.
  enum class Heads { kNone, kLast, kAll };
  // Every sequence advances by `count` tokens from `position`. drafts: so many of them are guesses
  // that the next step takes over, all of them.
  Result<StepTime> Step(int position, int count, Heads heads = Heads::kLast, int drafts = 0) {
    const int64_t start = SteadyNowNs();
    Fill(position, count, heads);
    for (Segment& segment : segments_) {
      segment.replay = position == 0 ? 0 : logged_;
      segment.logged = drafts;
    }
    logged_ = drafts;
    WEFT_RETURN_IF_ERROR(executor_->Run(Inputs(), &out_));
    return TimeSince(start);
  }
  // The draft head behind such a step, and once more behind itself for each further draft.
  Result<StepTime> Draft(int position, int count, int drafts) {
    const int64_t start = SteadyNowNs();
    int64_t inside = 0;
    for (int d = 0; d < drafts; ++d) {
      plan::DraftInputs in;
      in.first = d == 0;
      Fill(d == 0 ? position : position + count - 1 + d, d == 0 ? count : 1, Heads::kLast);
      picked_.clear();
      // The first reads all rows, the second the last of each, the others all that there are.
      for (int i = 0; i < static_cast<int>(ids_.size()); ++i)
        picked_.push_back(d == 1 ? (i + 1) * count - 1 : i);
      in.rows = picked_;
      in.step = Inputs();
      WEFT_RETURN_IF_ERROR(executor_->Draft(in, &out_));
      inside += out_.step_ns;
    }
    out_.step_ns = inside;
    return TimeSince(start);
  }

 private:
  StepTime TimeSince(int64_t start) const {
    return {SteadyNowNs() - start, SteadyNowNs() - start - out_.step_ns};
  }

  void Fill(int position, int count, Heads heads) {
    const int page_tokens = executor_->limits().page_tokens;
    ids_.clear();
    positions_.clear();
    slots_.clear();
    segments_.clear();
    rows_.clear();
    for (auto& pages : pages_) {
      segments_.push_back({static_cast<int32_t>(ids_.size()), count, position,
                           static_cast<int32_t>(pages.size()), pages.data(),
                           static_cast<int32_t>(segments_.size()) + 1});
      for (int i = 0; i < count; ++i) {
        const int at = position + i;
        // Sequences differ, or all would go to the same experts.
        ids_.push_back((at * 7919 + static_cast<int>(segments_.size()) * 104729 + 13) %
                       executor_->limits().vocab_size);
        positions_.push_back(at);
        slots_.push_back(int64_t{pages[at / page_tokens]} * page_tokens + at % page_tokens);
        if (heads == Heads::kAll || (heads == Heads::kLast && i + 1 == count))
          rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
      }
    }
  }
  plan::StepInputs Inputs() const {
    plan::StepInputs in;
    in.ids = ids_;
    in.positions = positions_;
    in.slots = slots_;
    in.segments = segments_;
    in.head_rows = rows_;
    return in;
  }

  plan::Executor* executor_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<int32_t> ids_, positions_, rows_, picked_;
  std::vector<int64_t> slots_;
  std::vector<Segment> segments_;
  plan::StepOutputs out_;
  int logged_ = 0;  // rows of the last step that recurrent states have still to take in
};

}  // namespace weft::cli
