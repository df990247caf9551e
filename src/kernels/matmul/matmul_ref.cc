// The contract of matmul: this order, these FMAs, in fp32. Unit: one panel, all rows.
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_refuse.h"
#include "kernels/matmul/panel_layout.h"
#include "tensor/leaf_table.h"

namespace weft::kernels {
namespace {

// One leaf of one panel: inputs [k_begin, k_begin + k) of x.
struct Leaf {
  const std::byte* panel = nullptr;
  int64_t k_begin = 0;
  int64_t k = 0;
};

float XAt(const MatmulArgs& a, int64_t row, int64_t k) {
  if (a.x.dtype == DType::kF32) return a.x.row<const float>(row)[k];
  return ToFloat(a.x.row<const Bf16>(row)[k]);
}

float HalfAt(const std::byte* panel, int64_t index) {
  F16 half;
  std::memcpy(&half.bits, panel + index * 2, 2);
  return ToFloat(half);
}

float Bf16At(const std::byte* panel, int64_t index) {
  Bf16 value;
  std::memcpy(&value.bits, panel + index * 2, 2);
  return ToFloat(value);
}

float FloatAt(const std::byte* panel, int64_t index) {
  float value;
  std::memcpy(&value, panel + index * 4, 4);
  return value;
}

// F16 and F32: k ascending.
float SumPlain(const MatmulArgs& a, int64_t row, Leaf leaf, int output) {
  float acc = 0.0f;
  for (int64_t k = 0; k < leaf.k; ++k) {
    const int64_t at = k * kPanelOutputs + output;
    const float w = a.w.dtype == DType::kF32 ? FloatAt(leaf.panel, at) : HalfAt(leaf.panel, at);
    acc = std::fma(w, XAt(a, row, leaf.k_begin + k), acc);
  }
  return acc;
}

// BF16: pairs, the odd one first. The missing half of an odd K is +0 times +0, and is added.
float SumBf16(const MatmulArgs& a, int64_t row, Leaf leaf, int output) {
  float acc = 0.0f;
  for (int64_t k = 0; k < leaf.k; k += 2) {
    const int64_t at = k * kPanelOutputs + output * 2;
    const float odd = k + 1 < leaf.k ? XAt(a, row, leaf.k_begin + k + 1) : 0.0f;
    acc = std::fma(Bf16At(leaf.panel, at + 1), odd, acc);
    acc = std::fma(Bf16At(leaf.panel, at), XAt(a, row, leaf.k_begin + k), acc);
  }
  return acc;
}

// Block formats by bf16: the weight and x are rounded to bf16, then pairs as above.
float SumBlocksByBf16(const MatmulArgs& a, int64_t row, Leaf leaf, int output) {
  float acc = 0.0f;
  for (int64_t step = 0; step < leaf.k / kStepInputs; ++step) {
    const StepValues w = DecodeStep(a.w.dtype, leaf.panel, step, output);
    const auto weight = [&](int i) {
      return ToFloat(ToBf16(std::fma(static_cast<float>(w.q[i]), w.scale[i / 16], w.min)));
    };
    const auto x = [&](int i) {
      return ToFloat(ToBf16(XAt(a, row, leaf.k_begin + step * kStepInputs + i)));
    };
    for (int i = 0; i < kStepInputs; i += 2) {
      acc = std::fma(weight(i + 1), x(i + 1), acc);
      acc = std::fma(weight(i), x(i), acc);
    }
  }
  return acc;
}

// Block formats by int8: an exact dot for each scale, blocks ascending, the min after the dot.
float SumInt8(const MatmulArgs& a, int64_t row, Leaf leaf, int output) {
  const DTypeFacts& facts = FactsOf(a.w.dtype);
  float acc = 0.0f;
  for (int64_t step = 0; step < leaf.k / kStepInputs; ++step) {
    const StepValues w = DecodeStep(a.w.dtype, leaf.panel, step, output);
    const int64_t block = leaf.k_begin / kStepInputs + step;
    const int8_t* x = a.xq.q + row * a.xq.k + block * kStepInputs;
    const float da = a.xq.d[row * (a.xq.k / kStepInputs) + block];
    for (int first = 0; first < kStepInputs; first += facts.scale_elements) {
      int32_t dot = 0;
      for (int i = first; i < first + facts.scale_elements; ++i) dot += w.q[i] * x[i];
      acc = std::fma(static_cast<float>(dot), w.scale[first / 16] * da, acc);
    }
    if (facts.has_min) {
      const int32_t sum = a.xq.sum[row * (a.xq.k / kStepInputs) + block];
      acc = std::fma(static_cast<float>(sum), w.min * da, acc);
    }
  }
  return acc;
}

float SumLeaf(const MatmulArgs& a, int64_t row, Leaf leaf, int output) {
  if (a.w.dtype == DType::kBF16) return SumBf16(a, row, leaf, output);
  if (!IsQuantised(a.w.dtype)) return SumPlain(a, row, leaf, output);
  return a.int8_activations ? SumInt8(a, row, leaf, output) : SumBlocksByBf16(a, row, leaf, output);
}

void Store(const MatmulArgs& a, int64_t row, int64_t n, const float* stack) {
  if (!a.finish) {
    for (int r = 0; r < a.roots; ++r) {
      a.partials[r * a.partials_stride + row * a.w.n + n] = stack[r];
    }
    return;
  }
  const float y = a.bias != nullptr ? stack[0] + a.bias[n] : stack[0];
  if (a.y.dtype == DType::kF32) {
    a.y.row<float>(row)[n] = y;
  } else {
    a.y.row<Bf16>(row)[n] = ToBf16(y);
  }
}

void Run(const MatmulArgs& a, Slice slice, std::byte*) {
  for (int64_t panel = slice.begin; panel < slice.end; ++panel) {
    const int64_t n_begin = a.w.panel_begin[panel];
    const int64_t n_end = a.w.panel_begin[panel + 1];
    for (int64_t row = 0; row < a.rows; ++row) {
      for (int64_t n = n_begin; n < n_end; ++n) {
        float stack[kLeavesMax];
        int top = 0;
        for (int l = 0; l < a.w.k_leaves; ++l) {
          const Leaf leaf{a.w.data[int64_t{l} * a.w.panels + panel], a.w.k_begin[l],
                          a.w.k_begin[l + 1] - a.w.k_begin[l]};
          stack[top++] = SumLeaf(a, row, leaf, static_cast<int>(n - n_begin));
          for (int i = 0; i < a.merges[l]; ++i) {
            stack[top - 2] += stack[top - 1];
            --top;
          }
        }
        WEFT_DCHECK(top == a.roots, "{} roots left, {} expected", top, a.roots);
        Store(a, row, n, stack);
      }
    }
  }
}

int64_t Units(const MatmulArgs& a) { return a.w.panels; }

}  // namespace

extern const Kernel<MatmulArgs> kMatmulRef;
const Kernel<MatmulArgs> kMatmulRef{.name = "ref",
                                    .isa = Isa::kPortable,
                                    .refuse = RefuseMatmul,
                                    .units = Units,
                                    .run = Run,
                                    .panels = [](const MatmulArgs&, Slice units) { return units; }};

}  // namespace weft::kernels
