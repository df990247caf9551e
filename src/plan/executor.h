// The one door between the engine and whatever runs a step: rank teams on this machine, the
// reference executor, a simulator, or a hash model in tests. The engine cannot tell them apart.
//
// Thread: one thread owns an Executor and calls it (with rank teams, that thread is worker 0 of
// rank 0 while a step runs). A step allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tensor/rows.h"

namespace weft::plan {

// How head rows become ids; each mode is a head plan of its own.
enum class HeadMode : uint8_t {
  kGreedy,  // argmax of the raw logits, (value, index) pairs cross ranks
  kSample,  // fp32 logits are gathered; SampleRow per row decides; also logprobs
};

// The recurrent states of one slot, copied to another before the step, in the order of the list.
struct StateCopy {
  int32_t from = 0;
  int32_t to = 0;
};

// The inputs of one step. Spans point into the caller's memory and stay valid during Run().
struct StepInputs {
  std::span<const int32_t> ids;        // [T] token ids
  std::span<const int32_t> positions;  // [T]
  std::span<const int64_t> slots;      // [T] KV slot: page * page_tokens + offset
  std::span<const Segment> segments;   // tile [0, T) in order
  std::span<const StateCopy> state_copies;
  std::span<const int32_t> head_rows;  // [R] rows of [0, T) whose logits are wanted, ascending
  HeadMode mode = HeadMode::kGreedy;
  std::span<const SampleRow> sample;  // [R] with kSample
  int top_logprobs = 0;               // widest SampleRow::logprobs of this step
  bool hash_logits = false;           // fill StepOutputs::logits_hash
};

// A step of the draft head over hidden rows that the last call left behind; its own take their
// place, so that the next one can go on from them. Keys and values go to the draft head's own layer
// of the cache.
struct DraftInputs {
  bool first = false;             // the last call was Run(): the rows are the body's
  std::span<const int32_t> rows;  // [D] which of those rows, ascending
  // Of the D rows; `ids` are those of the token behind each. Recurrent states are not touched.
  // Greedy or sampled as any step; `hash_logits` is not looked at.
  StepInputs step;
};

// Memory is the caller's, sized at start by ExecutorLimits.
struct StepOutputs {
  std::vector<SampleOut> rows;        // [R]
  std::vector<int32_t> top_ids;       // [R, top_logprobs]
  std::vector<float> top_logprobs;    // [R, top_logprobs]
  std::vector<uint64_t> logits_hash;  // [R] XXH64 over the vocabulary leaves' hashes
  int64_t step_ns = 0;                // from launch to the last rank's end
};

struct ExecutorLimits {
  int32_t vocab_size = 0;
  int32_t tokens_max = 0;     // T of one step (--max-num-batched-tokens)
  int32_t rows_max = 0;       // R of one step
  int32_t seqs_max = 0;       // --max-num-seqs
  int32_t positions_max = 0;  // --max-model-len
  int32_t page_tokens = 0;    // --block-size
  int32_t pages = 0;          // page ids 1 .. pages - 1 may be granted; 0 is the zero page
  int32_t top_logprobs_max = 20;
  // Slots of recurrent states, of which segments name 1 .. seqs_max and others keep those of
  // prefixes; 0: the model has none.
  int32_t states = 0;
  int32_t draft_tokens = 0;  // rows of a segment that a later step may take back
  bool draft_head = false;   // there is one to Draft() with
};

// What has crossed between ranks since start, as counted in the fabric.
struct FabricCounts {
  struct Kind {
    std::string name;  // "all_reduce", ...
    int64_t calls = 0;
    int64_t bytes = 0;  // on the wire, all ranks together
  };
  std::vector<Kind> kinds;
};

// What steps of these row counts do where ranks exchange, and why they do not do what was asked
// for.
struct SchedulePart {
  int32_t rows_min = 1, rows_max = 1;
  std::string schedule;                               // "plain", "fc1"
  std::string note;                                   // "" if it is what was asked for
  std::vector<std::pair<std::string, int>> rewrites;  // of passes that were switched on by name
  friend bool operator==(const SchedulePart&, const SchedulePart&) = default;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // The calling thread will be the one that calls Run(): it moves to the core of worker 0, for
  // good. A thread that the system moves about meets the pinned worker of another core sooner or
  // later.
  virtual Status PinCaller() { return {}; }
  // Runs one step to its end. Errors: kInvalid for inputs out of limits (nothing ran), kDeadline
  // when a rank did not arrive (the executor is then unusable), kInternal otherwise.
  virtual Status Run(const StepInputs& inputs, StepOutputs* outputs) = 0;
  // Runs one step of the draft head. Errors: as Run(); kUnsupported without one.
  virtual Status Draft(const DraftInputs&, StepOutputs*) {
    return Status::Unsupported("there is no draft head");
  }
  virtual FabricCounts fabric_counts() const { return {}; }
  // By row count, ascending; steps that do alike are one part.
  virtual std::vector<SchedulePart> schedules() const { return {}; }
  // One line for people: what runs ("cpu, 2 ranks x 1 worker, schedule plain").
  virtual std::string Describe() const = 0;
};

}  // namespace weft::plan
