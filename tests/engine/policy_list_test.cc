#include <gtest/gtest.h>

#include "engine/scheduler/policy.h"

namespace weft::engine {
namespace {

TEST(PolicyList, FindsByNameOrNotAtAll) {
  EXPECT_EQ(FindPolicy("fcfs"), &kFcfs);
  EXPECT_EQ(FindPolicy("priority"), &kPriority);
  EXPECT_EQ(FindPolicy("lottery"), nullptr);
  EXPECT_EQ(PolicyNames(), "fcfs, priority");
}

}  // namespace
}  // namespace weft::engine
