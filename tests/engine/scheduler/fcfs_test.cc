#include <gtest/gtest.h>

#include "engine/scheduler/policy.h"

namespace weft::engine {
namespace {

TEST(Fcfs, OrderOfAcceptanceWhateverThePriority) {
  Sequence a, b;
  a.request = std::make_unique<Request>();
  b.request = std::make_unique<Request>();
  a.number = 1;
  a.request->priority = 9;
  b.number = 2;
  EXPECT_TRUE(kFcfs.before(a, b));
  EXPECT_FALSE(kFcfs.before(b, a));
  EXPECT_FALSE(kFcfs.displaces(a, b));
}

}  // namespace
}  // namespace weft::engine
