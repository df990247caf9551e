// The contract of route. Unit: one row.
#include <fmt/format.h>

#include <string>

#include "kernels/moe/route.h"
#include "kernels/moe/route_weights.h"
#include "kernels/simd/math.h"
#include "kernels/simd/tree.h"

namespace weft::kernels {
namespace {

void Softmax(const float* logits, int64_t experts, float* score) {
  float max = logits[0];
  for (int64_t e = 1; e < experts; ++e) max = logits[e] > max ? logits[e] : max;
  float lanes[16] = {};
  for (int64_t e = 0; e < experts; ++e) {
    score[e] = Exp(logits[e] - max);
    lanes[e % 16] += score[e];
  }
  const float sum = TreeSum16(lanes);
  for (int64_t e = 0; e < experts; ++e) score[e] = score[e] / sum;
}

float NanAsLowest(float x) { return x != x ? -__builtin_inff() : x; }

// The first of the largest among those that are open. REQUIRES: one is.
int64_t Largest(const float* value, const bool* open, int64_t count) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (open[i] && (best < 0 || value[i] > value[best])) best = i;
  }
  return best;
}

void CloseDroppedGroups(const RouteArgs& a, const float* value, bool* open) {
  const int64_t size = a.logits.cols / a.groups;
  float worth[kExpertsMax];
  bool left[kExpertsMax];
  for (int g = 0; g < a.groups; ++g) {
    bool both[kExpertsMax];
    for (int64_t i = 0; i < size; ++i) both[i] = true;
    const int64_t first = Largest(value + g * size, both, size);
    both[first] = false;
    const int64_t second = Largest(value + g * size, both, size);
    worth[g] = NanAsLowest(value[g * size + first] + value[g * size + second]);
    left[g] = true;
  }
  for (int i = 0; i < a.groups_kept; ++i) left[Largest(worth, left, a.groups)] = false;
  for (int64_t e = 0; e < a.logits.cols; ++e) open[e] = !left[e / size];
}

void RouteRow(const RouteArgs& a, int64_t t) {
  const float* logits = a.logits.row<const float>(t);
  const int64_t experts = a.logits.cols;
  float score[kExpertsMax];
  if (a.scoring == Scoring::kSoftmax) {
    Softmax(logits, experts, score);
  } else {
    for (int64_t e = 0; e < experts; ++e) score[e] = Sigmoid(F1{logits[e]}).v;
  }
  float value[kExpertsMax];
  bool open[kExpertsMax];
  bool has_nan = false;
  for (int64_t e = 0; e < experts; ++e) {
    float x = score[e];
    if (a.correction != nullptr) x = score[e] + a.correction[e];
    if (a.correction == nullptr && a.groups == 1) x = logits[e];
    has_nan = has_nan || x != x;
    value[e] = NanAsLowest(x);
    open[e] = true;
  }
  if (a.groups > 1) CloseDroppedGroups(a, value, open);
  bool chosen[kExpertsMax] = {};
  for (int i = 0; i < a.top_k; ++i) {
    const int64_t best = Largest(value, open, experts);
    open[best] = false;
    chosen[best] = true;
  }
  int32_t* ids = a.ids + t * a.top_k;
  float* weights = a.weights + t * a.top_k;
  int count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (!chosen[e]) continue;
    ids[count] = static_cast<int32_t>(e);
    weights[count++] = score[e];
  }
  ScaleWeights(a, has_nan, weights);
}

std::string Refuse(const RouteArgs& a) {
  const int64_t experts = a.logits.cols;
  if (a.logits.dtype != DType::kF32) return fmt::format("logits in {}", NameOf(a.logits.dtype));
  if (experts > kExpertsMax) return fmt::format("{} experts, at most {}", experts, kExpertsMax);
  if (a.top_k < 1 || a.top_k > kTopKMax)
    return fmt::format("top {}, not 1 to {}", a.top_k, kTopKMax);
  if (a.groups < 1 || experts % a.groups != 0)
    return fmt::format("{} experts in {} groups", experts, a.groups);
  if (a.groups > 1 && experts / a.groups < 2)
    return "groups of one expert: a group is worth its best two";
  if (a.groups_kept < 1 || a.groups_kept > a.groups) {
    return fmt::format("{} of {} groups kept", a.groups_kept, a.groups);
  }
  if (a.top_k > experts / a.groups * a.groups_kept) {
    return fmt::format("top {} of {} experts", a.top_k, experts / a.groups * a.groups_kept);
  }
  return "";
}

int64_t Units(const RouteArgs& a) { return a.logits.rows; }

void Run(const RouteArgs& a, Slice slice, std::byte*) {
  for (int64_t t = slice.begin; t < slice.end; ++t) RouteRow(a, t);
}

}  // namespace

extern const Kernel<RouteArgs> kRouteRef;
const Kernel<RouteArgs> kRouteRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
