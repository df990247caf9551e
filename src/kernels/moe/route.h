// Which experts each token goes to, and with which weight: top-k of the router's logits.
//
// score[e]   kSoftmax: x_e = exp(logit_e - max), score = x_e / sum over all E of x; the sum in 16
// lanes (lane j
//            takes experts j, j+16, ...), then Tree(0,16). kSigmoid: 1 / (1 + exp(-logit)).
// value[e]   what is compared: score + correction if there is a correction, else score; but the
// logit itself where
//            neither a correction nor groups ask for scores: softmax and sigmoid keep its order, and rounded scores
//            would tie where logits differ. NaN counts as -inf, so ids are valid and distinct whatever comes.
// groups     the experts are cut into equal runs; a group's worth is the sum of its two largest
// values, and only
//            experts of the best groups_kept groups can be chosen.
// chosen     the k largest values; ties, among groups too, go to the lowest id. Results ascend by
// id. weight     w = score of the chosen; renormalise: w / (sum of these, from +0, ascending id);
// then * scale.
//            A NaN among the values makes every weight of the row NaN: ids alone would hide it. Scores that are all
//            +0 renormalise to NaN as well.
//
// Source: docs/numerics.md 5 (row statistics) and 10; Fedus et al. 2021; DeepSeek-V3 (2024) for
// groups and correction.
#pragma once

#include "kernels/kernel.h"
#include "tensor/view.h"

namespace weft::kernels {

inline constexpr int kExpertsMax = 1024;
inline constexpr int kTopKMax = 64;

enum class Scoring : uint8_t { kSoftmax, kSigmoid };

struct RouteArgs {
  View logits;                        // [T, E] float32
  const float* correction = nullptr;  // [E] or nullptr
  int32_t* ids = nullptr;             // [T, top_k]
  float* weights = nullptr;           // [T, top_k]
  int top_k = 1;
  Scoring scoring = Scoring::kSoftmax;
  bool renormalise = false;
  float scale = 1;
  int groups = 1;  // 1 of 1: no groups
  int groups_kept = 1;
};
std::span<const Kernel<RouteArgs>* const> RouteKernels();  // unit = row

}  // namespace weft::kernels
