// The largest logit of a row and the lowest id that has it; NaN is reported, never chosen.
// Source: docs/numerics.md 3 (argmax) and 6 (max-pair).
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

struct ValueIndex {
  float value = 0;
  int32_t index = -1;  // -1: the shard is empty
  int32_t has_nan = 0;
};

struct ArgmaxArgs {
  View logits;                // [R, V'] float32, the vocabulary shard
  int32_t first_id = 0;       // global id of column 0
  ValueIndex* out = nullptr;  // [R]
};
std::span<const Kernel<ArgmaxArgs>* const> ArgmaxKernels();

// Larger value, then lower id; an empty shard never wins; NaN is sticky. Associative and
// commutative.
inline ValueIndex Better(ValueIndex a, ValueIndex b) {
  ValueIndex out = b.index >= 0 && (a.index < 0 || b.value > a.value ||
                                    (b.value == a.value && b.index < a.index))
                       ? b
                       : a;
  out.has_nan = a.has_nan | b.has_nan;
  return out;
}

}  // namespace weft::kernels
