// Who is in the next step, with how many tokens.
//
// There is no prefill or decode phase: a sequence has `computed` of `length` tokens and a step
// gives it some of the difference. Decodes go first (so each gets its token in every step), then
// running prefills in the policy's order, then waiting sequences, under one budget of tokens and
// one of head rows. When blocks run out the last in the policy's order is preempted by
// recomputation. Thread: engine only. Nothing allocates in Plan() unless a sequence starts, waits
// or ends. Invariants: a step never exceeds its budgets; a sequence is waiting or running, never
// both; the first in order always gets its blocks, so some sequence always ends. Source: the
// behaviours of vLLM v1's scheduler.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/kv_cache.h"
#include "engine/kv/slot_map.h"
#include "engine/scheduler/policy.h"
#include "engine/sequence.h"
#include "plan/executor.h"

namespace weft::engine {

struct SchedulerConfig {
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  int32_t rows_max = 0;  // head rows of a step, >= max_num_seqs
  bool chunked_prefill = true;
  int32_t long_prefill_token_threshold = 0;
  int32_t state_checkpoint_interval =
      0;  // tokens; 0: checkpoints at ends of prompts and junctions only
  const Policy* policy = nullptr;
};

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, KvCache* cache, SlotMap* slots);

  void Add(Sequence* sequence);
  // Gives back whatever the sequence holds; it is then unknown here. `discard`: its keys and values
  // are not to be hit again.
  void Remove(Sequence* sequence, bool discard = false);

  // Chooses the next step. The result is valid until the next call of any method.
  std::span<Sequence* const> Plan(int64_t now_ns);

  // The first waiting sequence if nothing can ever make room for it; nullptr in a sound
  // configuration. Ask after Plan() gave nothing.
  Sequence* Stuck() const;

  // Whether the recurrent state behind a sequence's first `computed` tokens is to be kept: at the
  // last block boundary of its prompt, where its prompt left one that others have, and every
  // interval.
  bool KeepsStateAt(const Sequence& sequence, int32_t computed) const;
  // States of prefixes that Plan() found, to be copied before the step.
  std::span<const plan::StateCopy> restores() const { return restores_; }

  std::span<Sequence* const> running() const { return running_; }
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }

  // Counters since start; the engine's metrics read them.
  uint64_t preemptions() const { return preemptions_; }
  uint64_t prefix_queries() const { return prefix_queries_; }
  uint64_t prefix_hits() const { return prefix_hits_; }

 private:
  struct Budget {
    int32_t tokens = 0;
    int32_t rows = 0;
  };
  // Sets chunk and chunk_heads within the budget; false if nothing fits.
  bool Size(Sequence* sequence, int32_t computed, const Budget& budget) const;
  void ServeRunning(bool decodes, Budget* budget);
  void AdmitWaiting(int64_t now_ns, Budget* budget);
  // Whether a running sequence is about to compute the block that `waiting` would miss first: then
  // it waits and shares that block instead of computing the same (n choices of one prompt).
  bool IsBeingComputed(const Sequence& waiting, int32_t found, int32_t limit) const;
  // The next position behind `computed` at which a state is to be kept: no chunk reaches over it.
  int32_t NextCheckpoint(const Sequence& sequence, int32_t computed) const;
  // Preempts one running sequence for `waiting`, which lacks `missing` blocks, if the policy lets
  // it.
  bool Displace(const Sequence& waiting, int32_t missing, Budget* budget);
  Sequence* LastRunning() const;
  void Preempt(Sequence* victim, Budget* budget);
  void Enqueue(Sequence* sequence);
  // Blocks that running prefills will still ask for.
  int32_t PromisedBlocks() const;
  int32_t MissingBlocks(const Sequence& sequence) const;

  SchedulerConfig config_;
  KvCache* cache_;
  SlotMap* slots_;
  std::vector<Sequence*> running_;  // in order of admission
  std::vector<Sequence*> waiting_;  // the next one at the back
  std::vector<Sequence*> step_;
  std::vector<Sequence*> order_;  // of the pass over running_
  std::vector<plan::StateCopy> restores_;
  bool preempted_ = false;  // in this step
  uint64_t preemptions_ = 0;
  uint64_t prefix_queries_ = 0;
  uint64_t prefix_hits_ = 0;
};

}  // namespace weft::engine
