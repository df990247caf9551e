#include "io/weight_index.h"

#include <gtest/gtest.h>

namespace weft::io {
namespace {

Result<WeightIndex> Parse(const char* text) {
  return ParseWeightIndex(*ParseJson(text), "model.safetensors.index.json");
}

TEST(WeightIndex, EveryFileStandsOnceAndEveryTensorKnowsIts) {
  const auto index = Parse(
      R"({"metadata": {"total_size": -5}, "weight_map": {"a": "one", "b": "two", "c": "one"}})");
  ASSERT_TRUE(index.ok()) << index.status().message();
  ASSERT_EQ(index->files.size(), 2u);
  ASSERT_EQ(index->placement.size(), 3u);
  for (const auto& [tensor, file] : index->placement) {
    EXPECT_EQ(index->files[file], tensor == "b" ? "two" : "one");
  }
}

TEST(WeightIndex, AFileNameCannotLeaveTheDirectory) {
  for (const char* name : {"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\u0000b"}) {
    const std::string text = std::string(R"({"weight_map": {"w": ")") + name + "\"}}";
    const auto index = Parse(text.c_str());
    ASSERT_FALSE(index.ok()) << name;
    EXPECT_NE(index.status().message().find("tensor 'w'"), std::string::npos)
        << index.status().message();
  }
  const std::string longest(256, 'x');
  EXPECT_FALSE(Parse(("{\"weight_map\": {\"w\": \"" + longest + "\"}}").c_str()).ok());
  EXPECT_TRUE(Parse(("{\"weight_map\": {\"w\": \"" + longest.substr(1) + "\"}}").c_str()).ok());
}

TEST(WeightIndex, WhatIsNoMapIsRefused) {
  for (const char* text :
       {"{}", R"({"weight_map": []})", R"({"weight_map": {}})", R"({"weight_map": {"w": 3}})"}) {
    const auto index = Parse(text);
    ASSERT_FALSE(index.ok()) << text;
    EXPECT_TRUE(index.status().message().starts_with("model.safetensors.index.json: "))
        << index.status().message();
  }
}

TEST(WeightIndex, HasAnEndToItsFiles) {
  std::string text = R"({"weight_map": {)";
  for (int i = 0; i <= 10'000; ++i)
    text += fmt::format("{}\"t{}\": \"f{}\"", i == 0 ? "" : ",", i, i);
  EXPECT_FALSE(Parse((text + "}}").c_str()).ok());
}

}  // namespace
}  // namespace weft::io
