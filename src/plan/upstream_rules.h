// Small rules of vLLM and vllm-ascend that a plan for their machines needs and one for CPU ranks
// does not: here ranks own uneven rows, nothing is padded, and a peer's leaves are read where they
// lie. Source: vllm-ascend 0.23 (ascend_forward_context, layer_shard_linear), vLLM's
// sequence_parallelism pass. Thread: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace weft::plan {

// Rows of a step on a target whose exchanges want equal shares: the next multiple of `ranks`.
// Data-parallel replicas that meet in an exchange all pad to the one with most rows,
// `rows_of_others`.
inline int64_t PaddedRows(int64_t rows, int ranks, int64_t rows_of_others = 0) {
  const int64_t most = std::max(rows, rows_of_others);
  return (most + ranks - 1) / ranks * ranks;
}

struct RowShare {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const RowShare&, const RowShare&) = default;
};

// The padded rows of `rank`: all shares are alike, and those at the end may lie in the padding.
inline RowShare PaddedShare(int64_t rows, int rank, int ranks, int64_t rows_of_others = 0) {
  const int64_t share = PaddedRows(rows, ranks, rows_of_others) / ranks;
  return {rank * share, (rank + 1) * share};
}

// Layer sharding: which of `members` keeps the weight of a layer; the others read it from there.
// Only hidden layers are dealt out (a draft's layers count on behind them, and are not).
inline int LayerOwner(int64_t layer, int members) { return static_cast<int>(layer % members); }
inline bool IsDealtOut(int64_t layer, int64_t hidden_layers) {
  return layer >= 0 && layer < hidden_layers;
}

// How vllm-ascend moves rows to experts. Here there is one way for each placement
// (exchange_experts, or none to move), whatever the number of rows: buffers hold all routes of a
// step, so none is beyond capacity and none is dropped.
enum class MoeComm : uint8_t { kNone, kAllGather, kMc2, kAllToAll, kFusedMc2 };
enum class Soc : uint8_t { k310P, kA2, kA3, kA5 };

struct MoeCapacity {
  int ranks = 1;
  int64_t batched_tokens_max = 0;
  int64_t capture_max = 0;  // largest captured size; 0: none
  int64_t seqs_max = 1;
  int draft_tokens = 0;
  bool prefill_mc2 = false;
};
// Rows of all ranks up to which MC2 is taken: 512 a rank at most.
inline int64_t Mc2Capacity(const MoeCapacity& c) {
  const int64_t base = c.prefill_mc2       ? c.batched_tokens_max
                       : c.capture_max > 0 ? c.capture_max
                                           : c.seqs_max * (1 + c.draft_tokens);
  return std::min<int64_t>((base + c.ranks - 1) / c.ranks, 512) * c.ranks;
}

struct MoeCommAsk {
  Soc soc = Soc::kA3;
  int64_t experts = 0;  // 0: a dense model
  int expert_ranks = 1, world = 1;
  int top_k = 1;
  int64_t tokens = 1, capacity = 0;
  int fused = 0;              // VLLM_ASCEND_ENABLE_FUSED_MC2
  bool w8a8_dynamic = false;  // how experts are quantised
  bool draft_allows = true;   // a draft model, if there is one, is one that the fused op takes
};
inline MoeComm MoeCommOf(const MoeCommAsk& a) {
  if (a.experts == 0) return MoeComm::kNone;
  if (a.expert_ranks <= 1 || a.soc == Soc::k310P) return MoeComm::kAllGather;
  const bool fits = a.tokens <= a.capacity;
  switch (a.soc) {
    case Soc::kA2:
      return a.experts / a.expert_ranks <= 24 && a.expert_ranks >= 16 && fits ? MoeComm::kMc2
                                                                              : MoeComm::kAllGather;
    case Soc::kA5:
      if (fits && a.world > 1) return MoeComm::kMc2;
      return a.world <= a.top_k ? MoeComm::kAllGather : MoeComm::kAllToAll;
    default: break;
  }
  if (a.fused == 1 && a.expert_ranks <= 32) return MoeComm::kFusedMc2;
  if (!fits) return MoeComm::kAllToAll;
  return a.fused == 2 && a.w8a8_dynamic && a.draft_allows ? MoeComm::kFusedMc2 : MoeComm::kMc2;
}

// From how many tokens of a step on vLLM takes SP on a CUDA device if nobody says: 8 MiB of hidden
// state for each rank, on compute capability 9.0 with at least 8192 features; nullopt: never.
// capability: 90 for 9.0; 0: no CUDA.
inline std::optional<int64_t> CudaSpMinTokens(int capability, int64_t hidden, int ranks,
                                              int element_bytes) {
  constexpr int64_t kBytes = 8 << 20, kHiddenMin = 8192;
  if (capability != 90 || hidden < kHiddenMin) return std::nullopt;
  return kBytes * ranks / (hidden * element_bytes);
}

}  // namespace weft::plan
