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
