#include "serve/openai/fields.h"

#include <gtest/gtest.h>

namespace weft::serve {
namespace {

TEST(Fields, TheFirstFaultIsKeptWithItsPath) {
  Json object;
  object.Set("a", "x");
  object.Set("b", "y");
  Fields fields(object, "outer.0");
  EXPECT_FALSE(fields.Int("a", 0, 1));
  EXPECT_FALSE(fields.Bool("b"));
  ASSERT_FALSE(fields.ok());
  EXPECT_EQ(fields.error()->param, "outer.0.a");
}

TEST(Fields, IntegersAreExactOrNone) {
  EXPECT_EQ(IntegerOf(Json(3.0), 0, 5), 3);
  EXPECT_FALSE(IntegerOf(Json(3.5), 0, 5));
  EXPECT_FALSE(IntegerOf(Json(6), 0, 5));
  EXPECT_FALSE(IntegerOf(Json("3"), 0, 5));
  EXPECT_FALSE(IntegerOf(Json(1e18), 0, INT64_MAX)) << "a double does not say which integer";
  EXPECT_EQ(IntegerOf(Json(INT64_MIN), INT64_MIN, INT64_MAX), INT64_MIN);
}

TEST(Fields, WhatNobodyAskedForIsUnknown) {
  Json object;
  object.Set("a", 1);
  object.Set("b", Json());
  object.Set("c", 2);
  Fields fields(object);
  fields.Get("a");
  fields.Get("b");
  EXPECT_EQ(fields.Unknown(), std::vector<std::string>{"c"});
  EXPECT_FALSE(Fields(Json(7)).ok());
}

}  // namespace
}  // namespace weft::serve
