#include "base/check.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Check, AFailureNamesThePlaceTheExpressionAndTheMessage) {
  const int rows = 3;
  EXPECT_DEATH(WEFT_CHECK(rows == 4, "{} rows in step {}", rows, 7),
               "check_test.cc:[0-9]+: check failed: rows == 4: 3 rows in step 7");
}

TEST(Check, WhatHoldsCostsNoMessage) {
  int formatted = 0;
  const auto count = [&formatted] { return ++formatted; };
  WEFT_CHECK(true, "{}", count());
  EXPECT_EQ(formatted, 0);
}

TEST(Check, IsOneStatementUnderAnIf) {
  bool other = false;
  if (other)
    WEFT_CHECK(false, "not reached");
  else
    other = true;
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace weft
