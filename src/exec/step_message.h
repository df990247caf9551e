// The inputs of a step as bytes that rank 0 sends to ranks in other processes. What only the
// sampling of head rows reads stays out: rank 0 samples. Thread: one. Packing allocates only what
// the buffer has no capacity for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "plan/executor.h"

namespace weft::exec {

// What sender and receiver must agree on before anything runs.
struct StepPlans {
  int64_t step = 0;
  uint64_t body = 0, head = 0;  // fingerprints; 0: no head
  friend bool operator==(const StepPlans&, const StepPlans&) = default;
};

// `draft`: of a draft step, whose step `inputs` is; nullptr for another.
void PackStep(const StepPlans& plans, const plan::StepInputs& inputs,
              const plan::DraftInputs* draft, std::vector<std::byte>* out);

// A step that came. inputs() points into the bytes given to Unpack and into this object.
class UnpackedStep {
 public:
  // Errors: kInternal for bytes that are no step. The spans' contents are not looked at.
  Status Unpack(std::span<const std::byte> bytes);
  const StepPlans& plans() const { return plans_; }
  const plan::StepInputs& inputs() const { return draft_.step; }
  // nullptr if it is no draft step.
  const plan::DraftInputs* draft() const { return is_draft_ ? &draft_ : nullptr; }

 private:
  StepPlans plans_;
  bool is_draft_ = false;
  plan::DraftInputs draft_;  // of another step too: its inputs
  std::vector<Segment> segments_;
  std::vector<SampleRow> sample_;  // of the right length, otherwise empty of meaning
};

}  // namespace weft::exec
