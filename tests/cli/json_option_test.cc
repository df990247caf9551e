#include "cli/json_option.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

TEST(MergeJson, ObjectsByKeyEverythingElseReplaced) {
  struct Row {
    const char *into, *over, *expected;
  };
  for (const Row& row :
       {Row{R"({"a":1,"b":{"c":2}})", R"({"b":{"d":3}})", R"({"a":1,"b":{"c":2,"d":3}})"},
        Row{R"({"a":1})", R"({"a":2})", R"({"a":2})"},
        Row{R"({"a":[1,2]})", R"({"a":[3]})", R"({"a":[3]})"},
        Row{R"({"a":1})", R"({"a":{"b":1}})", R"({"a":{"b":1}})"},
        Row{R"({"a":{"b":1}})", R"({"a":null})", R"({"a":null})"}}) {
    Json into = ParseJson(row.into).value();
    MergeJson(&into, ParseJson(row.over).value());
    EXPECT_EQ(DumpJson(into), row.expected);
  }
}

TEST(JsonOption, WordsBecomeOneObjectAndOthersAnError) {
  const auto merged = ReadObject({R"({"a":1,"b":{"c":2}})", R"({"b":{"c":3}})"}, "--x");
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(DumpJson(*merged), R"({"a":1,"b":{"c":3}})");
  EXPECT_EQ(ReadObject({"[1]"}, "--x").status().message(),
            "--x '[1]': a JSON object wanted, found array");
  EXPECT_FALSE(ReadObject({"{"}, "--x").ok());
}

TEST(JsonOption, KeysAreKnownOrNamed) {
  constexpr std::string_view kKnown[] = {"method", "model"}, kRead[] = {"method"};
  std::vector<std::string> idle;
  const Json object = ParseJson(R"({"method":1,"model":2})").value();
  EXPECT_TRUE(CheckKeys(object, "--x", "p.", kKnown, kRead, &idle).ok());
  EXPECT_EQ(idle, (std::vector<std::string>{"p.model"}));
  EXPECT_EQ(
      CheckKeys(ParseJson(R"({"methd":1})").value(), "--x", "", kKnown, kRead, &idle).message(),
      "--x: unknown key 'methd'; did you mean 'method'?");
}

}  // namespace
}  // namespace weft::cli
