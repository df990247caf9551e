// A step of a plan on one worker: memory bound, kernel chosen, only live counts left open.
// Thread: the worker it was made for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/fabric.h"
#include "exec/faults.h"
#include "exec/weights.h"
#include "fused/tile_flags.h"
#include "kernels/kernel.h"
#include "plan/executor.h"
#include "plan/local_rows.h"
#include "plan/plan.h"

namespace weft::exec {

// What changes from step to step; written by the caller before the doorbell.
struct Live {
  int32_t tokens = 0;     // T
  int32_t head_rows = 0;  // R
  const plan::StepInputs* inputs = nullptr;
  SampleOut* sampled = nullptr;     // [R]
  int32_t* top_ids = nullptr;       // [R, top_logprobs]
  float* top_logprobs = nullptr;    // [R, top_logprobs]
  uint64_t* logits_hash = nullptr;  // [R]
};

// The live rows of a value on one rank.
struct LiveRows {
  plan::LocalRows rows;
  bool head = false;                // counted in head rows, else in tokens
  const int32_t* routes = nullptr;  // of routes: how many this step has, once they are grouped
  int64_t Total(const Live& live) const { return head ? live.head_rows : live.tokens; }
  int64_t Count(const Live& live) const {
    return routes != nullptr ? *routes : rows.Count(Total(live));
  }
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Between two phases of an exchange all workers of all ranks meet.
  virtual int phases() const { return 1; }
  // Of an exchange: the fabric's group that it is among, and what a member of it reads from its
  // peers before a phase (comm::PhaseReads). Asked where ranks are processes.
  virtual int group() const { return kNoGroup; }
  virtual void Reads(const Live&, int /*phase*/, int /*member*/, comm::ReadVisit) {}
  static constexpr int kNoGroup = -1;
  virtual void Run(const Live& live, int phase) = 0;
  // A fused step runs all its phases at once and waits for its peers by itself, tile by tile.
  // `times`: for a trace, may be nullptr. Errors: of a wait that fails.
  virtual bool awaits() const { return false; }
  virtual Status RunAwaiting(const Live&, const device::WaitSite&, fused::TileTimes*) {
    return Status::Ok();
  }
};

// Units of work that a worker has done since start, by op: what a rank did, and that it did.
struct alignas(64) UnitCounts {
  std::array<int64_t, static_cast<size_t>(graph::Op::kCount)> of_op{};
};

// The memory of one executor, as plain pointers.
struct RankMemory {
  std::byte* arena = nullptr;             // the window that peers read
  std::byte* hidden = nullptr;            // [tokens_max, H]
  std::vector<std::byte*> worker_arenas;  // [workers]
  std::vector<std::byte*> scratch;        // [workers]
  std::vector<std::byte*> kv_layers;      // [layers]
  // By ExecMemory::states: the pool of each recurrent state, and bytes of a slot.
  std::vector<std::byte*> states;
  std::vector<int64_t> slot_bytes;
  UnitCounts* units = nullptr;  // [workers]

  // Worker w of n copies its share of a slot's states.
  void CopyStates(const plan::StateCopy& copy, int worker, int workers) const {
    for (size_t i = 0; i < states.size(); ++i) {
      const kernels::Slice part = kernels::SliceOf(slot_bytes[i] / 64, worker, workers);
      std::memcpy(states[i] + copy.to * slot_bytes[i] + part.begin * 64,
                  states[i] + copy.from * slot_bytes[i] + part.begin * 64,
                  static_cast<size_t>(part.end - part.begin) * 64);
    }
  }

  // One region for all but the KV: the arena first, the workers' own last.
  void LayOut(std::byte* region, int64_t arena_bytes, int64_t hidden_bytes,
              int64_t worker_arena_bytes, int64_t scratch_bytes, int workers) {
    arena = region;
    hidden = arena + arena_bytes;
    for (int w = 0; w < workers; ++w) {
      worker_arenas.push_back(hidden + hidden_bytes + w * worker_arena_bytes);
      scratch.push_back(hidden + hidden_bytes + workers * worker_arena_bytes + w * scratch_bytes);
    }
  }
};
struct ExecMemory {
  std::vector<RankMemory> ranks;
  std::vector<std::string> states;  // names of recurrent states, in order of their layers
  int log_rows = 0;                 // rows of a slot's log
  const float* rope_cos = nullptr;
  const float* rope_sin = nullptr;
  int page_tokens = 0;
};

struct BindContext {
  const plan::Plan* plan = nullptr;
  const graph::Uses* uses = nullptr;  // of the plan's graph
  const Weights* weights = nullptr;
  const ExecMemory* memory = nullptr;
  comm::Fabric* fabric = nullptr;     // counts what exchanges take from peers
  fused::TileFlags* flags = nullptr;  // nullptr: ranks are processes
  bool processes = false;             // peers' memory is mirrors of it
  const ExecFaults* faults = nullptr;
  int rank = 0;
  int worker = 0;
};

struct RankTables;  // rank_tables.h
std::unique_ptr<Runner> BindStep(const BindContext& context, RankTables& tables, size_t step);
// Up to `bytes` of the weights that this worker reads first in a matmul. Pieces of a K-leaf lie
// side by side.
std::vector<std::span<const std::byte>> FirstWeights(const BindContext& context, RankTables& tables,
                                                     size_t step, int64_t bytes);
// The largest scratch that a step of the plan wants on any rank.
int64_t ScratchBytes(const plan::Plan& plan);

}  // namespace weft::exec
