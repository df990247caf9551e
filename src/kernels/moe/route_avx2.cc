// route with AVX2. Values become integer keys of the same order, -0 made +0 first, so that "taken"
// has a key below that of -inf; a choice is then one pass for the largest key and one for its first
// place. k passes over 256 keys in L1 are 0.2 us for k = 8, beside 50 us and more for the router's
// matmul: heaps, sorts and the wider registers of AVX-512 have nothing to win here.
#include <immintrin.h>

#include <string>

#include "kernels/moe/route.h"
#include "kernels/moe/route_weights.h"
#include "kernels/simd/math.h"
#include "kernels/simd/tree.h"

namespace weft::kernels {

extern const Kernel<RouteArgs> kRouteRef;

namespace {

constexpr int32_t kTaken = INT32_MIN;
constexpr float kLowest = -__builtin_inff();

// One row, padded to whole pairs of registers: behind the last expert logits are -inf (their exp
// adds +0 to a sum) and keys are taken.
struct Row {
  int64_t experts = 0;
  int64_t padded = 0;
  bool has_nan = false;
  float sum = 0;  // kSoftmax
  alignas(32) float logits[kExpertsMax];
  alignas(32) float score[kExpertsMax];
  alignas(32) float value[kExpertsMax];
  alignas(32) int32_t key[kExpertsMax];
};

WEFT_INLINE float LargestLane(F8 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

WEFT_INLINE int32_t LargestLane(__m256i x) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

WEFT_INLINE __m256i Keys(F8 x) {
  const __m256i bits = _mm256_castps_si256((x + F8::Zero()).v);
  return _mm256_xor_si256(bits, _mm256_srli_epi32(_mm256_srai_epi32(bits, 31), 1));
}

void Load(const float* logits, Row& row) {
  int64_t e = 0;
  for (; e + 8 <= row.experts; e += 8) F8::Load(logits + e).Store(row.logits + e);
  for (; e < row.experts; ++e) row.logits[e] = logits[e];
  for (; e < row.padded; ++e) row.logits[e] = kLowest;
}

// score = exp(logit - max), not yet divided by row.sum.
void Exponentials(Row& row) {
  F8 max = F8::Set(kLowest);
  for (int64_t e = 0; e < row.padded; e += 8) max = F8::Max(F8::Load(row.logits + e), max);
  const F8 largest = F8::Set(LargestLane(max));
  F8 low = F8::Zero();
  F8 high = F8::Zero();
  for (int64_t e = 0; e < row.padded; e += 16) {
    const F8 a = Exp(F8::Load(row.logits + e) - largest);
    const F8 b = Exp(F8::Load(row.logits + e + 8) - largest);
    a.Store(row.score + e);
    b.Store(row.score + e + 8);
    low = low + a;
    high = high + b;
  }
  row.sum = TreeSum16(low, high);
}

// What corrections and groups ask for: all scores, finished.
void AllScores(const RouteArgs& a, Row& row) {
  const F8 sum = F8::Set(row.sum);
  for (int64_t e = 0; e < row.padded; e += 8) {
    const F8 score = a.scoring == Scoring::kSoftmax ? F8::Load(row.score + e) / sum
                                                    : Sigmoid(F8::Load(row.logits + e));
    score.Store(row.score + e);
  }
}

void Values(const RouteArgs& a, const float* from, Row& row) {
  __m256 nan = _mm256_setzero_ps();
  int64_t e = 0;
  for (; e + 8 <= row.experts; e += 8) {
    F8 x = F8::Load(from + e);
    if (a.correction != nullptr) x = x + F8::Load(a.correction + e);
    nan = _mm256_or_ps(nan, _mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q));
    x = F8::IfNaN(x, F8::Set(kLowest), x);
    x.Store(row.value + e);
    _mm256_store_si256(reinterpret_cast<__m256i*>(row.key + e), Keys(x));
  }
  row.has_nan = _mm256_movemask_ps(nan) != 0;
  if (e == row.padded) return;
  alignas(32) float rest[16];
  alignas(32) int32_t keys[16];
  for (int i = 0; i < 16; ++i) {
    float x = kLowest;
    if (e + i < row.experts)
      x = a.correction != nullptr ? from[e + i] + a.correction[e + i] : from[e + i];
    row.has_nan = row.has_nan || x != x;
    rest[i] = x != x ? kLowest : x;
  }
  for (int i = 0; i < 16; i += 8) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(keys + i), Keys(F8::Load(rest + i)));
  }
  for (int i = 0; e < row.padded; ++e, ++i) {
    row.value[e] = rest[i];
    row.key[e] = e < row.experts ? keys[i] : kTaken;
  }
}

// The sum of the two largest of `count` values, none of which is NaN.
float BestTwo(const float* value, int64_t count) {
  float first = kLowest;
  float second = kLowest;
  int64_t i = 0;
  if (count >= 16) {
    F8 large = F8::Set(kLowest);
    F8 next = F8::Set(kLowest);
    for (; i + 8 <= count; i += 8) {
      const F8 x = F8::Load(value + i);
      next = F8::Max(next, {_mm256_min_ps(large.v, x.v)});
      large = F8::Max(large, x);
    }
    float lanes[16];
    large.Store(lanes);
    next.Store(lanes + 8);
    for (const float x : lanes) {
      second = x > first ? first : x > second ? x : second;
      first = x > first ? x : first;
    }
  }
  for (; i < count; ++i) {
    const float x = value[i];
    second = x > first ? first : x > second ? x : second;
    first = x > first ? x : first;
  }
  const float sum = first + second;
  return sum != sum ? kLowest : sum;
}

void TakeDroppedGroups(const RouteArgs& a, Row& row) {
  const int64_t size = row.experts / a.groups;
  float worth[kExpertsMax / 2];
  bool kept[kExpertsMax / 2];
  for (int g = 0; g < a.groups; ++g) {
    worth[g] = BestTwo(row.value + g * size, size);
    kept[g] = false;
  }
  for (int i = 0; i < a.groups_kept; ++i) {
    int best = -1;
    for (int g = 0; g < a.groups; ++g) {
      if (!kept[g] && (best < 0 || worth[g] > worth[best])) best = g;
    }
    kept[best] = true;
  }
  for (int g = 0; g < a.groups; ++g) {
    if (kept[g]) continue;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) row.key[e] = kTaken;
  }
}

// The first place of the largest key. padded is a multiple of 16.
WEFT_INLINE int64_t Best(const Row& row) {
  const auto* keys = reinterpret_cast<const __m256i*>(row.key);
  const int64_t vectors = row.padded / 8;
  __m256i even = keys[0];
  __m256i odd = keys[1];
  for (int64_t i = 2; i < vectors; i += 2) {
    even = _mm256_max_epi32(even, keys[i]);
    odd = _mm256_max_epi32(odd, keys[i + 1]);
  }
  const __m256i best = _mm256_set1_epi32(LargestLane(_mm256_max_epi32(even, odd)));
  for (int64_t i = 0;; i += 2) {
    const int low = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(keys[i], best)));
    const int high = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(keys[i + 1], best)));
    const int found = low | high << 8;
    if (found != 0) return i * 8 + __builtin_ctz(static_cast<unsigned>(found));
  }
}

void RouteRow(const RouteArgs& a, int64_t t, Row& row) {
  Load(a.logits.row<const float>(t), row);
  const bool by_logits = a.correction == nullptr && a.groups == 1;
  if (a.scoring == Scoring::kSoftmax) Exponentials(row);
  if (!by_logits) AllScores(a, row);
  Values(a, by_logits ? row.logits : row.score, row);
  if (a.groups > 1) TakeDroppedGroups(a, row);
  uint64_t chosen[kExpertsMax / 64] = {};
  for (int i = 0; i < a.top_k; ++i) {
    const int64_t best = Best(row);
    row.key[best] = kTaken;
    chosen[best / 64] |= uint64_t{1} << (best % 64);
  }
  int32_t* ids = a.ids + t * a.top_k;
  float* weights = a.weights + t * a.top_k;
  int count = 0;
  for (int64_t word = 0; word * 64 < row.experts; ++word) {
    for (uint64_t bits = chosen[word]; bits != 0; bits &= bits - 1) {
      const int64_t e = word * 64 + __builtin_ctzll(bits);
      ids[count] = static_cast<int32_t>(e);
      weights[count++] = !by_logits                       ? row.score[e]
                         : a.scoring == Scoring::kSoftmax ? row.score[e] / row.sum
                                                          : Sigmoid(F1{row.logits[e]}).v;
    }
  }
  ScaleWeights(a, row.has_nan, weights);
}

std::string Refuse(const RouteArgs& a) { return kRouteRef.refuse(a); }

int64_t Units(const RouteArgs& a) { return a.logits.rows; }

void Run(const RouteArgs& a, Slice slice, std::byte*) {
  Row row;
  row.experts = a.logits.cols;
  row.padded = (row.experts + 15) / 16 * 16;
  for (int64_t t = slice.begin; t < slice.end; ++t) RouteRow(a, t, row);
}

}  // namespace

extern const Kernel<RouteArgs> kRouteAvx2;
const Kernel<RouteArgs> kRouteAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
