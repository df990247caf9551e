// The contract of sampling: every candidate is sorted, and the definition is read off the order.
//
//  1 x = the raw logits with single ids edited (sample_row.h), then for a temperature of at least
//    1e-5 x = x / temperature. Below that the answer is the best candidate: the first of step 2.
//  2 Candidates: the ids whose x is neither NaN nor -inf, by (x descending, id ascending). None:
//    id -1.
//  3 min-p: with w = exp(x - x of the first), those with w < min_p go.
//  4 top-k: those whose x is below the k-th candidate's go; what ties with it stays (as in vLLM).
//  5 top-p: over the integer weights of what is left, a candidate stays while the sum before it is
//    below p of their total; so the first always stays, and ties are cut by id.
//  6 draw: the first candidate whose cumulative weight is above DrawThreshold of the total left.
//
// has_nan is set for a NaN among the raw logits, and for a row whose largest is +-inf: then neither
// has a log-probability, and the request is in error.
// With logprobs >= 0, over the raw logits without NaN: max; leaf sums of exp(x - max) in 16 lanes
// (lane j takes elements j, j + 16, ... of the leaf), Tree(0, 16), the tree over leaves; then
// log-probability = (x - max) - log(sum). The best ids are by (logit descending, id ascending);
// what the vocabulary does not fill is id -1. With logprobs < 0 logprob and rank are 0.
#include <algorithm>
#include <string>

#include "kernels/sample/sample_row.h"
#include "kernels/simd/tree.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

int64_t SortedCandidates(const float* x, int64_t vocab, uint64_t* keys) {
  int64_t n = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    if (x[i] > -__builtin_inff()) keys[n++] = SortKey(x[i], static_cast<int32_t>(i));
  }
  std::sort(keys, keys + n);
  return n;
}

int32_t Draw(const SampleRow& row, const uint64_t* keys, int64_t n) {
  if (n == 0) return -1;
  if (!(row.temperature >= kGreedyTemperature)) return IdOf(keys[0]);
  const float max = ValueOf(keys[0]);
  const auto weight = [&](int64_t i) { return WeightOf(ValueOf(keys[i]), max); };
  while (n > 1 && weight(n - 1) < row.min_p) --n;
  if (row.top_k > 0 && row.top_k < n) {
    const float least = ValueOf(keys[row.top_k - 1]);
    while (ValueOf(keys[n - 1]) < least) --n;
  }
  uint64_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += FixedWeight(weight(i));
  uint64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!BelowTopP(kept, total, row.top_p)) {
      n = i;
      break;
    }
    kept += FixedWeight(weight(i));
  }
  const uint64_t threshold = DrawThreshold(row, kept);
  uint64_t cumulative = 0;
  for (int64_t i = 0; i < n; ++i) {
    cumulative += FixedWeight(weight(i));
    if (cumulative > threshold) return IdOf(keys[i]);
  }
  return IdOf(keys[0]);
}

float SumOfExp(const SampleArgs& a, const float* x, float max) {
  const int64_t whole[2] = {0, a.logits.cols};
  const int64_t* begin = a.vocab_leaf_begin != nullptr ? a.vocab_leaf_begin : whole;
  const int count = a.vocab_leaf_begin != nullptr ? a.vocab_leaves : 1;
  float leaves[kLeavesMax];
  for (int leaf = 0; leaf < count; ++leaf) {
    float lanes[16] = {};
    for (int64_t i = begin[leaf]; i < begin[leaf + 1]; ++i) {
      float& lane = lanes[(i - begin[leaf]) % 16];
      lane = lane + (x[i] != x[i] ? 0.0f : Exp(x[i] - max));
    }
    leaves[leaf] = TreeSum16(lanes);
  }
  return TreeSum(leaves, 0, count);
}

void LogProbabilities(const SampleArgs& a, int64_t r, uint64_t* keys, SampleOut& out) {
  const float* x = a.logits.row<const float>(r);
  const int64_t n = SortedCandidates(x, a.logits.cols, keys);
  const int32_t wanted = std::min(a.rows[r].logprobs, a.top_stride);
  int32_t* ids = a.top_ids + r * a.top_stride;
  float* values = a.top_logprobs + r * a.top_stride;
  const float max = n > 0 ? ValueOf(keys[0]) : -__builtin_inff();
  const float sum = SumOfExp(a, x, max);
  for (int32_t i = 0; i < wanted; ++i) {
    ids[i] = i < n ? IdOf(keys[i]) : -1;
    values[i] = i < n ? LogProbability(ValueOf(keys[i]), max, sum) : 0.0f;
  }
  if (out.id < 0) return;
  out.logprob = LogProbability(x[out.id], max, sum);
  out.rank = 1;
  for (int64_t i = 0; i < a.logits.cols; ++i) out.rank += x[i] > x[out.id] ? 1 : 0;
}

std::string Refuse(const SampleArgs& a) {
  if (a.logits.dtype != DType::kF32) return "logits are not float32";
  if (a.vocab_leaves < 1 || a.vocab_leaves > kLeavesMax) {
    return std::to_string(a.vocab_leaves) + " vocabulary leaves, not 1..16";
  }
  return "";
}

int64_t Units(const SampleArgs& a) { return a.logits.rows; }

int64_t ScratchBytes(const SampleArgs& a) {
  return a.logits.cols * static_cast<int64_t>(sizeof(uint64_t) + sizeof(float));
}

void Run(const SampleArgs& a, Slice slice, std::byte* scratch) {
  const int64_t vocab = a.logits.cols;
  auto* keys = reinterpret_cast<uint64_t*>(scratch);
  auto* x = reinterpret_cast<float*>(keys + vocab);
  for (int64_t r = slice.begin; r < slice.end; ++r) {
    const float* raw = a.logits.row<const float>(r);
    const SampleRow& row = a.rows[r];
    SampleOut out;
    float max = -__builtin_inff();
    for (int64_t i = 0; i < vocab; ++i) {
      if (raw[i] != raw[i]) out.has_nan = 1;
      if (raw[i] > max) max = raw[i];
      x[i] = raw[i];
    }
    if (max - max != 0.0f) out.has_nan = 1;
    EditLogits(row, vocab, x);
    if (row.temperature >= kGreedyTemperature) {
      for (int64_t i = 0; i < vocab; ++i) x[i] = x[i] / row.temperature;
    }
    out.id = Draw(row, keys, SortedCandidates(x, vocab, keys));
    if (row.logprobs >= 0) LogProbabilities(a, r, keys, out);
    a.out[r] = out;
  }
}

}  // namespace

extern const Kernel<SampleArgs> kSampleRef{.name = "ref",
                                           .isa = Isa::kPortable,
                                           .refuse = Refuse,
                                           .units = Units,
                                           .scratch_bytes = ScratchBytes,
                                           .run = Run};

}  // namespace weft::kernels
