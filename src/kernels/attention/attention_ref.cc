// The contract of attention: the order of every sum, and every rounding (docs/numerics.md 9).
//
// One query row (position p, query head h, D = head_dim) against keys 0 .. p of its kv head.
// Keys come in spans of 1,024 at absolute positions, spans in tiles of 64, ascending; a span or
// tile that begins after p is not visited. All in fp32 but P.
//
//  A span starts from m = -inf, l[0..15] = +0, O[0..D) = +0. For each tile of it, whole (64 keys):
//   1 score  a = +0; bf16: for each pair i of d ascending, a = fma(q[2i+1], k[2i+1], a), then
//            a = fma(q[2i], k[2i], a); float32: a = fma(q[d], k[d], a), d ascending.
//            s = a * scale; a key beyond p gets s = -inf whatever its memory holds.
//   2 max    t = the largest s that is no NaN, from -inf; n = t > m ? t : m.
//   3 rescale  alpha = exp(m - n); l[j] = l[j] * alpha; O[d] = O[d] * alpha. If n == m then alpha is
//            1 and the products change nothing: a variant may skip them. So may it in the first tile.
//   4 P      P = the model dtype's rounding of exp(s - n); exactly +0 for a key beyond p.
//   5 sum    l[j] = l[j] + P[j], then + P[j+16], + P[j+32], + P[j+48]; j < 16.
//   6 values bf16: for each pair i of keys ascending, O[d] = fma(P[2i+1], v[2i+1][d], O[d]), then
//            O[d] = fma(P[2i], v[2i][d], O[d]); float32: O[d] = fma(P[i], v[i][d], O[d]), i
//            ascending. The v of a key beyond p is +0 whatever its memory holds, and is added: that
//            is O[d] + 0, which turns a -0 into +0 and else nothing, so pairs wholly beyond p may be
//            one such addition.
//   7 m = n.
//  A span ends with l = Tree(0, 16) of its lanes. Spans merge left to right into (M, L, A): the
//  first is taken as it is; then N = m > M ? m : M, a = exp(M - N), b = exp(m - N),
//  L = fma(l, b, L * a), A[d] = fma(O[d], b, A[d] * a), M = N.
//  y[d] = the model dtype's rounding of A[d] / L; a NaN is stored as the one NaN 0x7fc0(0000).
//
// K and V are read from the cache, the current rows' too. A page beyond page_count is page 0.
#include <string>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"
#include "kernels/simd/tree.h"

namespace weft::kernels {
namespace {

struct Row {
  int64_t row = 0;
  int64_t position = 0;
  const Segment* segment = nullptr;
};

// The index-th row over all segments.
Row RowAt(const AttentionArgs& a, int64_t index) {
  for (int i = 0; i < a.segment_count; ++i) {
    const Segment& s = a.segments[i];
    if (index < s.rows) return {s.row_begin + index, s.position_begin + index, &s};
    index -= s.rows;
  }
  WEFT_CHECK(false, "attention: rows {} is more than the segments have", a.rows);
}

struct State {
  float m;
  float l[16];
  float* o;  // [D]
};

template <typename T>
float Score(const AttentionArgs& a, const T* q, const T* k, int64_t offset) {
  const int d_end = a.kv.head_dim;
  const auto term = [&](int d, float acc) {
    return __builtin_fmaf(LoadElement(q + d), LoadElement(k + a.kv.key_index(offset, d)), acc);
  };
  float acc = 0.0f;
  if (a.kv.dtype == DType::kBF16) {
    for (int d = 0; d < d_end; d += 2) acc = term(d, term(d + 1, acc));
  } else {
    for (int d = 0; d < d_end; ++d) acc = term(d, acc);
  }
  return acc * a.scale;
}

template <typename T>
void AddTile(const AttentionArgs& a, const Row& row, int kv_head, const T* q, int64_t tile_begin,
             State& state) {
  const int d_end = a.kv.head_dim;
  const auto page_of = [&](int64_t position) {
    const int64_t page = position / a.kv.page_tokens;
    return page < row.segment->page_count ? row.segment->pages[page] : 0;
  };

  float s[kKvTile];
  float n = state.m;
  for (int i = 0; i < kKvTile; ++i) {
    const int64_t position = tile_begin + i;
    const auto* k = reinterpret_cast<const T*>(a.kv.keys(page_of(position), kv_head));
    s[i] =
        position > row.position ? -__builtin_inff() : Score(a, q, k, position % a.kv.page_tokens);
    if (s[i] > n) n = s[i];
  }

  const float alpha = Exp(state.m - n);
  for (float& lane : state.l) lane = lane * alpha;
  for (int d = 0; d < d_end; ++d) state.o[d] = state.o[d] * alpha;

  float p[kKvTile];
  for (int i = 0; i < kKvTile; ++i) {
    p[i] = tile_begin + i > row.position ? 0.0f : Rounded<T>(Exp(s[i] - n));
    state.l[i % 16] = state.l[i % 16] + p[i];
  }

  const int step = a.kv.dtype == DType::kBF16 ? 2 : 1;
  for (int i = 0; i < kKvTile; i += step) {
    for (int j = i + step - 1; j >= i; --j) {  // of a pair, the odd key first
      const int64_t position = tile_begin + j;
      const auto* v = reinterpret_cast<const T*>(a.kv.values(page_of(position), kv_head));
      for (int d = 0; d < d_end; ++d) {
        const float value = position > row.position
                                ? 0.0f
                                : LoadElement(v + a.kv.value_index(position % a.kv.page_tokens, d));
        state.o[d] = __builtin_fmaf(p[j], value, state.o[d]);
      }
    }
  }
  state.m = n;
}

template <typename T>
void RunRow(const AttentionArgs& a, const Row& row, int head, float* scratch) {
  const int d_end = a.kv.head_dim;
  const int kv_head = a.kv_of_head[head];
  const T* q = a.q.row<const T>(row.row) + head * d_end;
  float* merged = scratch;
  State span{.m = 0, .l = {}, .o = scratch + d_end};
  float m = 0;
  float l = 0;
  for (int64_t span_begin = 0; span_begin <= row.position; span_begin += kKvSpan) {
    span.m = -__builtin_inff();
    for (float& lane : span.l) lane = 0.0f;
    for (int d = 0; d < d_end; ++d) span.o[d] = 0.0f;
    for (int64_t tile = span_begin; tile < span_begin + kKvSpan && tile <= row.position;
         tile += kKvTile) {
      AddTile<T>(a, row, kv_head, q, tile, span);
    }
    const float span_l = TreeSum16(span.l);
    if (span_begin == 0) {
      m = span.m;
      l = span_l;
      for (int d = 0; d < d_end; ++d) merged[d] = span.o[d];
      continue;
    }
    const float n = span.m > m ? span.m : m;
    const float old_weight = Exp(m - n);
    const float span_weight = Exp(span.m - n);
    l = __builtin_fmaf(span_l, span_weight, l * old_weight);
    for (int d = 0; d < d_end; ++d) {
      merged[d] = __builtin_fmaf(span.o[d], span_weight, merged[d] * old_weight);
    }
    m = n;
  }
  T* y = a.y.row<T>(row.row) + head * d_end;
  for (int d = 0; d < d_end; ++d) {
    const float out = merged[d] / l;
    StoreElement(y + d, out != out ? __builtin_nanf("") : out);
  }
}

std::string Refuse(const AttentionArgs& a) {
  if (a.kv.dtype != DType::kBF16 && a.kv.dtype != DType::kF32) {
    return "kv dtype is " + std::string(NameOf(a.kv.dtype)) + ", not bfloat16 or float32";
  }
  if (a.q.dtype != a.kv.dtype || a.y.dtype != a.kv.dtype) return "q or y is not of the kv dtype";
  if (a.kv.head_dim < 2 || a.kv.head_dim % 2 != 0) {
    return "head_dim " + std::to_string(a.kv.head_dim) + " is odd";
  }
  if (a.kv.page_tokens < 16 || a.kv.page_tokens % 16 != 0) {
    return "page_tokens " + std::to_string(a.kv.page_tokens) + " is no multiple of 16";
  }
  return "";
}

int64_t Units(const AttentionArgs& a) { return a.rows * a.heads; }

int64_t ScratchBytes(const AttentionArgs& a) {
  return int64_t{2} * a.kv.head_dim * static_cast<int64_t>(sizeof(float));
}

void Run(const AttentionArgs& a, Slice slice, std::byte* scratch) {
  auto* floats = reinterpret_cast<float*>(scratch);
  for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const Row row = RowAt(a, unit / a.heads);
    const int head = static_cast<int>(unit % a.heads);
    if (a.kv.dtype == DType::kBF16) {
      RunRow<Bf16>(a, row, head, floats);
    } else {
      RunRow<float>(a, row, head, floats);
    }
  }
}

}  // namespace

extern const Kernel<AttentionArgs> kAttentionRef{.name = "ref",
                                                 .isa = Isa::kPortable,
                                                 .refuse = Refuse,
                                                 .units = Units,
                                                 .scratch_bytes = ScratchBytes,
                                                 .run = Run};

}  // namespace weft::kernels
