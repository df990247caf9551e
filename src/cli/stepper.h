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
  // Every sequence advances by `count` tokens from `position`; `head`: the last row of each is
  // sampled.
  Result<StepTime> Step(int position, int count, bool head = true) {
    const int64_t start = SteadyNowNs();
    const int page_tokens = executor_->limits().page_tokens;
    ids_.clear();
    positions_.clear();
    slots_.clear();
    segments_.clear();
    rows_.clear();
    for (auto& pages : pages_) {
      segments_.push_back({static_cast<int32_t>(ids_.size()), count, position,
                           static_cast<int32_t>(pages.size()), pages.data(), static_cast<int32_t>(segments_.size()) + 1});
      for (int i = 0; i < count; ++i) {
        const int at = position + i;
        // Sequences differ, or all would go to the same experts.
        ids_.push_back((at * 7919 + static_cast<int>(segments_.size()) * 104729 + 13) % executor_->limits().vocab_size);
        positions_.push_back(at);
        slots_.push_back(int64_t{pages[at / page_tokens]} * page_tokens + at % page_tokens);
      }
      if (head) rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
    }
    plan::StepInputs in;
    in.ids = ids_;
    in.positions = positions_;
    in.slots = slots_;
    in.segments = segments_;
    in.head_rows = rows_;
    WEFT_RETURN_IF_ERROR(executor_->Run(in, &out_));
    return StepTime{SteadyNowNs() - start, SteadyNowNs() - start - out_.step_ns};
  }

 private:
  plan::Executor* executor_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<int32_t> ids_, positions_, rows_;
  std::vector<int64_t> slots_;
  std::vector<Segment> segments_;
  plan::StepOutputs out_;
};

}  // namespace weft::cli
