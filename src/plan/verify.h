// The laws of a plan beyond its graph's: who waits for whom, and whose memory is whose. Found by
// other means than the layout was made, so that the two can disagree.
#pragma once

#include "base/status.h"
#include "plan/plan.h"

namespace weft::plan {

enum class Law : uint8_t {
  kOrder,    // P1 the steps are the graph's nodes, in order
  kWaits,    // P2 what others make is waited for
  kMemory,   // P3 no two values that are alive share a byte
  kRegions,  // P4 a peer reads the rank's memory alone, a worker keeps what it makes for itself
  kBounds,   // P5 every value is inside its arena
  kPosts,    // P6 one exchange is under way at a time, and is waited for
  kFetches,  // P7 what a wait fetches is read by a product that is still to come
};
inline constexpr Law kLaws[] = {Law::kOrder,  Law::kWaits, Law::kMemory, Law::kRegions,
                                Law::kBounds, Law::kPosts, Law::kFetches};

// Errors: kInternal with the law's id, the step and the value.
Status VerifyLaw(const Plan& plan, Law law);
// All of them, P1 first. Cheap enough for every compile: no walk is longer than steps x values
// read.
Status VerifyPlan(const Plan& plan);

}  // namespace weft::plan
