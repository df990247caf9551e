// The end of a routed row, the same for every variant: k scores become k weights.
#pragma once

#include "kernels/moe/route.h"
#include "kernels/simd/vec.h"

namespace weft::kernels {

// weights: [top_k], scores of the chosen by ascending id; changed in place.
static WEFT_INLINE void ScaleWeights(const RouteArgs& a, bool has_nan, float* weights) {
  float sum = 0.0f;
  for (int i = 0; i < a.top_k; ++i) sum += weights[i];
  for (int i = 0; i < a.top_k; ++i) {
    const float share = a.renormalise ? weights[i] / sum : weights[i];
    weights[i] = has_nan ? __builtin_nanf("") : share * a.scale;
  }
}

}  // namespace weft::kernels
