#include "io/json_fields.h"

#include <gtest/gtest.h>

namespace weft::io {
namespace {

class JsonFieldsTest : public testing::Test {
 protected:
  const Json json_ =
      *ParseJson(R"({"layers": 12, "eps": 1e-5, "bias": true, "name": "llama", "none": null,
                                    "huge": 9000000000, "wrong": "twelve", "fraction": 1.5, "zero": 0})");
  const JsonFields fields_{json_, "config.json"};
};

TEST_F(JsonFieldsTest, ValuesInRangeComeOut) {
  EXPECT_EQ(*fields_.Int("layers", {1, 100}), 12);
  EXPECT_DOUBLE_EQ(*fields_.Real("eps", {0, 1}), 1e-5);
  EXPECT_TRUE(*fields_.BoolOr("bias", false));
  EXPECT_EQ(*fields_.StringOr("name", ""), "llama");
}

TEST_F(JsonFieldsTest, AbsentAndNullAreTheSame) {
  for (const char* key : {"absent", "none"}) {
    EXPECT_EQ(fields_.Find(key), nullptr);
    EXPECT_FALSE(fields_.IntIfAny(key, {0, 1})->has_value());
    EXPECT_FALSE(fields_.RealIfAny(key, {0, 1})->has_value());
    EXPECT_TRUE(*fields_.BoolOr(key, true));
    EXPECT_EQ(*fields_.StringOr(key, "other"), "other");
    EXPECT_EQ(fields_.Int(key, {0, 1}).status().message(),
              fmt::format("config.json: '{}' is missing", key));
    EXPECT_FALSE(fields_.Real(key, {0, 1}).ok());
  }
}

TEST_F(JsonFieldsTest, ARefusalNamesFileKeyRangeAndValue) {
  const std::string message = fields_.Int("huge", {1, 4096}).status().message();
  EXPECT_EQ(message, "config.json: 'huge' must be an integer from 1 to 4096, found 9000000000");
}

TEST_F(JsonFieldsTest, OtherTypesAreRefusedNotConverted) {
  EXPECT_FALSE(fields_.Int("wrong", {0, 100}).ok());
  EXPECT_FALSE(fields_.Int("fraction", {0, 100}).ok());
  EXPECT_FALSE(fields_.Int("bias", {0, 100}).ok());
  EXPECT_FALSE(fields_.Real("name", {0, 100}).ok());
  EXPECT_FALSE(fields_.BoolOr("layers", false).ok());
  EXPECT_FALSE(fields_.StringOr("layers", "").ok());
}

TEST_F(JsonFieldsTest, ARealRangeIsOpenBelow) {
  EXPECT_FALSE(fields_.Real("zero", {0, 1}).ok());
  EXPECT_TRUE(fields_.Real("zero", {-1, 0}).ok());
  EXPECT_TRUE(fields_.Real("layers", {0, 12}).ok());
  EXPECT_FALSE(fields_.Real("layers", {12, 13}).ok());
}

}  // namespace
}  // namespace weft::io
