// The inputs of a step as bytes that rank 0 sends to ranks in other processes. What only the sampling
// of head rows reads stays out: rank 0 samples.
// Thread: one. Packing allocates only what the buffer has no capacity for.
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

void PackStep(const StepPlans& plans, const plan::StepInputs& inputs, std::vector<std::byte>* out);

// A step that came. inputs() points into the bytes given to Unpack and into this object.
class UnpackedStep {
 public:
  // Errors: kInternal for bytes that are no step. The spans' contents are not looked at.
  Status Unpack(std::span<const std::byte> bytes);
  const StepPlans& plans() const { return plans_; }
  const plan::StepInputs& inputs() const { return inputs_; }

 private:
  StepPlans plans_;
  plan::StepInputs inputs_;
  std::vector<Segment> segments_;
  std::vector<SampleRow> sample_;  // of the right length, otherwise empty of meaning
};

}  // namespace weft::exec
