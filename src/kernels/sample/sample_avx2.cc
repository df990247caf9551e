// Sampling that sorts only what the answer depends on.
//
// Candidates are taken in levels: all within 4 of the maximum, then within 10, within 20, all. A
// level is enough when it holds top_k candidates, or when the place where top-p cuts and the place
// where the draw falls lie inside it; weights are integers, so the total over the whole vocabulary
// (one vector pass) is the contract's total whatever its order. For a trained model's logits the
// first levels hold some hundred ids of 150,000.
#include <algorithm>
#include <string>

#include "kernels/sample/sample_row.h"
#include "kernels/simd/tree.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {

extern const Kernel<SampleArgs> kSampleRef;

namespace {

constexpr float kLevels[] = {4.0f, 10.0f, 20.0f, __builtin_inff()};

struct Scan {
  float max = -__builtin_inff();
  bool has_nan = false;
};

Scan ScanRow(const float* x, int64_t count) {
  __m256 best = _mm256_set1_ps(-__builtin_inff());
  __m256 nan = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    best = _mm256_max_ps(v, best);
    nan = _mm256_or_ps(nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  Scan out;
  out.has_nan = _mm256_movemask_ps(nan) != 0;
  float lanes[8];
  _mm256_storeu_ps(lanes, best);
  for (float lane : lanes) out.max = lane > out.max ? lane : out.max;
  for (; i < count; ++i) {
    out.max = x[i] > out.max ? x[i] : out.max;
    out.has_nan = out.has_nan || x[i] != x[i];
  }
  return out;
}

// Keys of all ids whose value is within `depth` of the maximum (and above -inf).
int64_t Collect(const float* x, int64_t count, float max, float depth, uint64_t* keys) {
  const float floor = max - depth;
  const bool all = !(floor > -__builtin_inff());
  const __m256 least = _mm256_set1_ps(all ? -__builtin_inff() : floor);
  int64_t n = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    unsigned in = static_cast<unsigned>(_mm256_movemask_ps(
        all ? _mm256_cmp_ps(v, least, _CMP_GT_OQ) : _mm256_cmp_ps(v, least, _CMP_GE_OQ)));
    for (; in != 0; in &= in - 1) {
      const auto id = static_cast<int32_t>(i + __builtin_ctz(in));
      keys[n++] = SortKey(x[id], id);
    }
  }
  for (; i < count; ++i) {
    if (all ? x[i] > -__builtin_inff() : x[i] >= floor) {
      keys[n++] = SortKey(x[i], static_cast<int32_t>(i));
    }
  }
  return n;
}

__m256i FixedWeights(__m128 weights) {
  const __m256d shifted = _mm256_add_pd(
      _mm256_mul_pd(_mm256_cvtps_pd(weights), _mm256_set1_pd(0x1p40)), _mm256_set1_pd(0x1p52));
  return _mm256_and_si256(_mm256_castpd_si256(shifted), _mm256_set1_epi64x(0xfffffffffffffll));
}

// The integer weights of all candidates that min-p leaves.
uint64_t TotalWeight(const float* x, int64_t count, float max, float min_p) {
  const F8 top = F8::Set(max);
  __m256i sum = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const F8 v = F8::Load(x + i);
    __m256 w = Exp(v - top).v;
    w = _mm256_blendv_ps(w, _mm256_set1_ps(1.0f), _mm256_cmp_ps(v.v, top.v, _CMP_EQ_OQ));
    // False for NaN, whose weight is NaN.
    w = _mm256_and_ps(w, _mm256_cmp_ps(w, _mm256_set1_ps(min_p), _CMP_GE_OQ));
    sum = _mm256_add_epi64(sum, FixedWeights(_mm256_castps256_ps128(w)));
    sum = _mm256_add_epi64(sum, FixedWeights(_mm256_extractf128_ps(w, 1)));
  }
  uint64_t lanes[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sum);
  uint64_t total = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  for (; i < count; ++i) {
    const float w = WeightOf(x[i], max);
    if (w >= min_p) total += FixedWeight(w);
  }
  return total;
}

// The best `wanted` keys and what ties with the last of them, sorted; all of them if there are
// fewer.
int64_t SortBest(uint64_t* keys, int64_t n, int64_t wanted) {
  if (wanted < n) {
    std::nth_element(keys, keys + wanted - 1, keys + n);
    const float least = ValueOf(keys[wanted - 1]);
    n = std::partition(keys + wanted, keys + n,
                       [&](uint64_t key) { return ValueOf(key) >= least; }) -
        keys;
  }
  std::sort(keys, keys + n);
  return n;
}

// The draw from sorted keys whose total is known; `complete` says that no candidate is missing.
// -1: the answer is not among them.
int32_t DrawFrom(const SampleRow& row, const uint64_t* keys, int64_t n, float max, uint64_t total,
                 bool complete) {
  uint64_t kept = total;
  if (row.top_p < 1.0f) {
    uint64_t before = 0;
    int64_t i = 0;
    for (; i < n && BelowTopP(before, total, row.top_p); ++i) {
      before += FixedWeight(WeightOf(ValueOf(keys[i]), max));
    }
    if (i == n && !complete && BelowTopP(before, total, row.top_p)) return -1;
    n = i;
    kept = before;
  }
  const uint64_t threshold = DrawThreshold(row, kept);
  uint64_t cumulative = 0;
  for (int64_t i = 0; i < n; ++i) {
    cumulative += FixedWeight(WeightOf(ValueOf(keys[i]), max));
    if (cumulative > threshold) return IdOf(keys[i]);
  }
  return -1;
}

int32_t Draw(const SampleRow& row, const float* x, int64_t vocab, uint64_t* keys) {
  const float max = ScanRow(x, vocab).max;
  if (!(max > -__builtin_inff())) return -1;
  if (!(row.temperature >= kGreedyTemperature)) {
    int64_t i = 0;
    while (!(x[i] == max)) ++i;
    return static_cast<int32_t>(i);
  }
  uint64_t total = row.top_k > 0 ? 0 : TotalWeight(x, vocab, max, row.min_p);
  for (float depth : kLevels) {
    const bool complete = !(max - depth > -__builtin_inff());
    int64_t n = Collect(x, vocab, max, depth, keys);
    if (row.min_p > 0.0f) {
      n = std::partition(keys, keys + n,
                         [&](uint64_t key) {
                           return WeightOf(ValueOf(key), max) >= row.min_p || ValueOf(key) == max;
                         }) -
          keys;
    }
    if (row.top_k > 0) {
      if (n < row.top_k && !complete) continue;
      n = SortBest(keys, n, row.top_k);
      for (int64_t i = 0; i < n; ++i) total += FixedWeight(WeightOf(ValueOf(keys[i]), max));
      return DrawFrom(row, keys, n, max, total, true);
    }
    std::sort(keys, keys + n);
    const int32_t id = DrawFrom(row, keys, n, max, total, complete);
    if (id >= 0) return id;
  }
  return -1;
}

float SumOfExp(const SampleArgs& a, const float* x, float max) {
  const int64_t whole[2] = {0, a.logits.cols};
  const int64_t* begin = a.vocab_leaf_begin != nullptr ? a.vocab_leaf_begin : whole;
  const int count = a.vocab_leaf_begin != nullptr ? a.vocab_leaves : 1;
  const F8 top = F8::Set(max);
  const auto term = [&](F8 v) { return F8::IfNaN(v, F8::Zero(), Exp(v - top)); };
  float leaves[kLeavesMax];
  for (int leaf = 0; leaf < count; ++leaf) {
    F8 low = F8::Zero();
    F8 high = F8::Zero();
    int64_t i = begin[leaf];
    for (; i + 16 <= begin[leaf + 1]; i += 16) {
      low = low + term(F8::Load(x + i));
      high = high + term(F8::Load(x + i + 8));
    }
    if (i < begin[leaf + 1]) {
      float rest[16];
      for (float& r : rest) r = i < begin[leaf + 1] ? x[i++] : -__builtin_inff();
      low = low + term(F8::Load(rest));
      high = high + term(F8::Load(rest + 8));
    }
    leaves[leaf] = TreeSum16(low, high);
  }
  return TreeSum(leaves, 0, count);
}

int32_t CountLarger(const float* x, int64_t count, float value) {
  const __m256 than = _mm256_set1_ps(value);
  int32_t out = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    out += __builtin_popcount(static_cast<unsigned>(
        _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), than, _CMP_GT_OQ))));
  }
  for (; i < count; ++i) out += x[i] > value ? 1 : 0;
  return out;
}

void LogProbabilities(const SampleArgs& a, int64_t r, float max, uint64_t* keys, SampleOut& out) {
  const float* x = a.logits.row<const float>(r);
  const int32_t wanted = std::min(a.rows[r].logprobs, a.top_stride);
  int32_t* ids = a.top_ids + r * a.top_stride;
  float* values = a.top_logprobs + r * a.top_stride;
  const float sum = SumOfExp(a, x, max);
  int64_t n = 0;
  if (wanted > 0) {
    for (float depth : kLevels) {
      n = Collect(x, a.logits.cols, max, depth, keys);
      if (n >= wanted) break;
    }
    n = SortBest(keys, n, wanted);
  }
  for (int32_t i = 0; i < wanted; ++i) {
    ids[i] = i < n ? IdOf(keys[i]) : -1;
    values[i] = i < n ? LogProbability(ValueOf(keys[i]), max, sum) : 0.0f;
  }
  if (out.id < 0) return;
  out.logprob = LogProbability(x[out.id], max, sum);
  out.rank = 1 + CountLarger(x, a.logits.cols, x[out.id]);
}

std::string Refuse(const SampleArgs& a) { return kSampleRef.refuse(a); }

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
    const Scan scan = ScanRow(raw, vocab);
    SampleOut out;
    out.has_nan = scan.has_nan || scan.max - scan.max != 0.0f ? 1 : 0;
    std::copy(raw, raw + vocab, x);
    EditLogits(row, vocab, x);
    if (row.temperature >= kGreedyTemperature) {
      const F8 t = F8::Set(row.temperature);
      int64_t i = 0;
      for (; i + 8 <= vocab; i += 8) (F8::Load(x + i) / t).Store(x + i);
      for (; i < vocab; ++i) x[i] = x[i] / row.temperature;
    }
    out.id = Draw(row, x, vocab, keys);
    if (row.logprobs >= 0) LogProbabilities(a, r, scan.max, keys, out);
    a.out[r] = out;
  }
}

}  // namespace

extern const Kernel<SampleArgs> kSampleAvx2{.name = "avx2",
                                            .isa = Isa::kAvx2,
                                            .refuse = Refuse,
                                            .units = Units,
                                            .scratch_bytes = ScratchBytes,
                                            .run = Run};

}  // namespace weft::kernels
