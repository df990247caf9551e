#include "io/json_file.h"

#include <gtest/gtest.h>

#include "io/test_files.h"

namespace weft::io {
namespace {

TEST(JsonFile, ReadsAnObject) {
  const TempDir dir;
  const auto json = ReadJsonObject(dir.Write("config.json", R"({"a": 1})"));
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ(json->Find("a")->as_int(), 1);
}

TEST(JsonFile, EveryErrorNamesTheFile) {
  const TempDir dir;
  const auto absent = ReadJsonObject(dir / "absent.json");
  EXPECT_EQ(absent.status().code(), StatusCode::kNotFound);
  EXPECT_NE(absent.status().message().find(dir / "absent.json"), std::string::npos);
  for (const char* text : {"", "{", "[1]", "3", R"({"a": 1} x)", R"({"a": 1, "a": 2})"}) {
    const std::string path = dir.Write("bad.json", text);
    const auto json = ReadJsonObject(path);
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.status().code(), StatusCode::kInvalid) << text;
    EXPECT_NE(json.status().message().find(path), std::string::npos) << json.status().message();
  }
}

TEST(JsonFile, LimitsHold) {
  const TempDir dir;
  const std::string path = dir.Write("deep.json", R"({"a": [[[[1]]]]})");
  EXPECT_TRUE(ReadJsonObject(path).ok());
  EXPECT_FALSE(ReadJsonObject(path, {.depth_max = 3}).ok());
}

}  // namespace
}  // namespace weft::io
