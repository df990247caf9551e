// The contract of the gated delta rule; the order is in gated_delta.h. A row is done column by
// column, each over all of Dk.
#include <cstring>
#include <string>

#include "base/check.h"
#include "kernels/gdn/gated_delta.h"
#include "kernels/simd/math.h"
#include "kernels/simd/storage.h"
#include "kernels/simd/tree.h"

namespace weft::kernels {
namespace {

// One worker's memory: q and k of a row, e of a row, and the state that logged rows work on.
struct Scratch {
  float* q;      // [Dk]
  float* k;      // [Dk]
  float* e;      // [Dv rounded up to 16]
  float* state;  // one head

  static int64_t Floats(const DeltaStateLayout& layout) {
    return 2 * layout.key_dim + DeltaStateLayout::Padded(layout.value_dim) + layout.head_floats();
  }
  static Scratch In(std::byte* memory, const DeltaStateLayout& layout) {
    auto* q = reinterpret_cast<float*>(memory);
    float* e = q + 2 * layout.key_dim;
    return {q, q + layout.key_dim, e, e + DeltaStateLayout::Padded(layout.value_dim)};
  }
};

template <typename T>
void Normalise(const T* x, int64_t dim, float gain, float* out) {
  float lanes[16] = {};
  for (int64_t i = 0; i < dim; ++i) {
    lanes[i % 16] = __builtin_fmaf(LoadElement(x + i), LoadElement(x + i), lanes[i % 16]);
  }
  const float scale = 1.0f / __builtin_sqrtf(TreeSum16(lanes) + 1e-6f);
  for (int64_t i = 0; i < dim; ++i) out[i] = (LoadElement(x + i) * scale) * gain;
}

// The sum over i of x_i * S[i][j]; S points at S[0][j].
float Dot(const float* x, const float* state, int dim) {
  float chains[4] = {};
  for (int i = 0; i < dim; ++i) {
    chains[i % 4] = __builtin_fmaf(x[i], state[i * kDeltaTile], chains[i % 4]);
  }
  return (chains[0] + chains[1]) + (chains[2] + chains[3]);
}

void Update(float gamma, const float* k, float e, int dim, float* state) {
  for (int i = 0; i < dim; ++i) {
    state[i * kDeltaTile] = __builtin_fmaf(k[i], e, gamma * state[i * kDeltaTile]);
  }
}

template <typename T>
void RunUnit(const GatedDeltaArgs& a, const Segment& s, int head, const Scratch& scratch) {
  const DeltaStateLayout layout = a.layout();
  const int columns = layout.tiles() * kDeltaTile;
  float* slot = a.state + s.state * a.state_stride;
  float* state = slot + layout.head_offset(head);
  const auto column = [&](int j) { return state + layout.element_offset(0, 0, j); };

  if (s.position_begin == 0) std::memset(state, 0, sizeof(float) * layout.head_floats());
  for (int row = 0; row < s.replay; ++row) {
    const float* record = slot + layout.record_offset(row, head);
    for (int j = 0; j < columns; ++j) {
      Update(record[DeltaStateLayout::gamma_offset()], record + DeltaStateLayout::key_offset(),
             record[layout.error_offset() + j], a.key_dim, column(j));
    }
  }

  const float root = 1.0f / __builtin_sqrtf(static_cast<float>(a.key_dim));
  const int64_t key_begin = int64_t{a.key_of_head[head]} * a.key_dim;
  for (int r = 0; r < s.rows; ++r) {
    const int64_t t = s.row_begin + r;
    Normalise(a.k.row<const T>(t) + key_begin, a.key_dim, 1.0f, scratch.k);
    Normalise(a.q.row<const T>(t) + key_begin, a.key_dim, root, scratch.q);
    const float rate = Softplus(LoadElement(a.a.row<const T>(t) + head) + a.dt_bias[head]);
    const float gamma = Exp(a.neg_exp_a[head] * rate);
    const float beta = Sigmoid(F1{LoadElement(a.b.row<const T>(t) + head)}).v;
    if (r == s.rows - s.logged) {
      std::memcpy(scratch.state, state, sizeof(float) * layout.head_floats());
      state = scratch.state;
    }
    const T* v = a.v.row<const T>(t) + int64_t{head} * a.value_dim;
    T* y = a.y.row<T>(t) + int64_t{head} * a.value_dim;
    for (int j = 0; j < columns; ++j) {
      const float value = j < a.value_dim ? LoadElement(v + j) : 0.0f;
      scratch.e[j] = beta * (value - gamma * Dot(scratch.k, column(j), a.key_dim));
      Update(gamma, scratch.k, scratch.e[j], a.key_dim, column(j));
      if (j < a.value_dim) StoreElement(y + j, Dot(scratch.q, column(j), a.key_dim));
    }
    if (r >= s.rows - s.logged) {
      float* record = slot + layout.record_offset(r - (s.rows - s.logged), head);
      record[DeltaStateLayout::gamma_offset()] = gamma;
      std::memcpy(record + DeltaStateLayout::key_offset(), scratch.k, sizeof(float) * a.key_dim);
      std::memcpy(record + layout.error_offset(), scratch.e, sizeof(float) * columns);
    }
  }
}

std::string Refuse(const GatedDeltaArgs& a) {
  if (a.y.dtype != DType::kBF16 && a.y.dtype != DType::kF32) {
    return "y is " + std::string(NameOf(a.y.dtype)) + ", not bfloat16 or float32";
  }
  for (const View* view : {&a.q, &a.k, &a.v, &a.a, &a.b}) {
    if (view->dtype != a.y.dtype) return "an operand is not of y's dtype";
  }
  if (a.value_heads == 0) return "";  // another rank has them all
  if (a.key_dim < 1 || a.value_dim < 1 || a.key_heads < 1) {
    return "heads of " + std::to_string(a.key_dim) + " by " + std::to_string(a.value_dim);
  }
  const int64_t keys = int64_t{a.key_heads} * a.key_dim;
  const int64_t values = int64_t{a.value_heads} * a.value_dim;
  if (a.q.cols != keys || a.k.cols != keys) {
    return "q or k is not " + std::to_string(keys) + " wide";
  }
  if (a.v.cols != values || a.y.cols != values) {
    return "v or y is not " + std::to_string(values) + " wide";
  }
  if (a.a.cols < a.value_heads || a.b.cols < a.value_heads) {
    return "a or b is narrower than " + std::to_string(a.value_heads) + " heads";
  }
  if (a.log_max < 0 || a.log_max > kDeltaLogMax) {
    return "a log of " + std::to_string(a.log_max) + " rows, not 0.." +
           std::to_string(kDeltaLogMax);
  }
  if (a.state_stride < a.layout().slot_floats() || a.state_stride % kDeltaTile != 0) {
    return "slots " + std::to_string(a.state_stride) + " floats apart, not a multiple of 16 from " +
           std::to_string(a.layout().slot_floats());
  }
  return "";
}

int64_t Units(const GatedDeltaArgs& a) { return int64_t{a.value_heads} * a.segment_count; }

int64_t ScratchBytes(const GatedDeltaArgs& a) {
  return Scratch::Floats(a.layout()) * static_cast<int64_t>(sizeof(float));
}

void Run(const GatedDeltaArgs& a, Slice slice, std::byte* memory) {
  const Scratch scratch = Scratch::In(memory, a.layout());
  for (int64_t unit = slice.begin; unit < slice.end; ++unit) {
    const Segment& s = a.segments[unit % a.segment_count];
    WEFT_CHECK(s.logged <= s.rows && s.logged <= a.log_max && s.replay <= a.log_max,
               "gated_delta: {} rows, {} logged, {} replayed, log of {}", s.rows, s.logged,
               s.replay, a.log_max);
    const auto head = static_cast<int>(unit / a.segment_count);
    a.y.dtype == DType::kBF16 ? RunUnit<Bf16>(a, s, head, scratch)
                              : RunUnit<float>(a, s, head, scratch);
  }
}

}  // namespace

extern const Kernel<GatedDeltaArgs> kGatedDeltaRef{.name = "ref",
                                                   .isa = Isa::kPortable,
                                                   .refuse = Refuse,
                                                   .units = Units,
                                                   .scratch_bytes = ScratchBytes,
                                                   .run = Run};

}  // namespace weft::kernels
