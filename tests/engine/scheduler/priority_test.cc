#include <gtest/gtest.h>

#include "engine/scheduler/policy.h"

namespace weft::engine {
namespace {

Sequence Make(int32_t priority, int64_t arrival_ns, uint64_t number) {
  Sequence s;
  s.request = std::make_unique<Request>();
  s.request->priority = priority;
  s.request->arrival_ns = arrival_ns;
  s.number = number;
  return s;
}

TEST(Priority, LowerNumberThenArrivalThenAcceptance) {
  EXPECT_TRUE(kPriority.before(Make(0, 9, 9), Make(1, 1, 1)));
  EXPECT_TRUE(kPriority.before(Make(1, 1, 9), Make(1, 2, 1)));
  EXPECT_TRUE(kPriority.before(Make(1, 2, 1), Make(1, 2, 2)));
  EXPECT_FALSE(kPriority.before(Make(1, 2, 1), Make(1, 2, 1)));
}

TEST(Priority, OnlyAStrictlyHigherPriorityDisplaces) {
  EXPECT_TRUE(kPriority.displaces(Make(0, 9, 9), Make(1, 1, 1)));
  EXPECT_FALSE(kPriority.displaces(Make(1, 1, 1), Make(1, 9, 9)));
}

}  // namespace
}  // namespace weft::engine
