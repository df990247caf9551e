#include "base/json.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Json, KeepsOrderAndKindsOfNumbers) {
  const auto json =
      ParseJson(R"({"b":1,"a":[1.5,true,null,"x\u00e9"],"big":18446744073709551615})");
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ(DumpJson(*json), R"({"b":1,"a":[1.5,true,null,"xé"],"big":1.8446744073709552e+19})");
  EXPECT_EQ(DumpJson(*json->Find("a"), {.spaces = true, .ascii_only = true}),
            R"([1.5, true, null, "x\u00e9"])");
}

TEST(Json, RefusesWithTheReason) {
  EXPECT_NE(ParseJson(R"({"a":1,"a":2})").status().message().find("'a' twice"), std::string::npos);
  EXPECT_NE(ParseJson(std::string(100, '[')).status().message().find("64 levels"),
            std::string::npos);
  for (const char* bad : {"", "{", "[1,]", "nul", "1e999", "{} x", "\"\xff\"", "[1 2]", "01"}) {
    EXPECT_FALSE(ParseJson(bad).ok()) << bad;
  }
  EXPECT_FALSE(ParseJson("[1,2,3]", {.bytes_max = 3}).ok());
}

}  // namespace
}  // namespace weft
