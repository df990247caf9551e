#include "serve/openai/errors.h"

#include <gtest/gtest.h>

namespace weft::serve {
namespace {

TEST(Errors, HaveOpenAisFourMembers) {
  const Json json = ToJson(BadField("top_p", "wrong"));
  const Json* inner = json.Find("error");
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(
      DumpJson(*inner),
      R"({"message":"wrong","type":"invalid_request_error","param":"top_p","code":"invalid_value"})");
  EXPECT_EQ(DumpJson(ToJson(ApiError{.status = 500, .message = "m"})),
            R"({"error":{"message":"m","type":"server_error","param":null,"code":null}})");
}

TEST(Errors, WhoMayComeBackIsTold) {
  for (const auto& [status, retry] :
       std::vector<std::pair<Status, bool>>{{Status::Exhausted("x"), true},
                                            {Status::Unavailable("x"), true},
                                            {Status::Invalid("x"), false}}) {
    const HttpResponse response = ToResponse(FromStatus(status));
    EXPECT_EQ(!response.headers.empty(), retry) << response.status;
  }
}

TEST(Errors, WhatHappenedInsideStaysInside) {
  const ApiError error = FromStatus(Status::Internal("/src/kernels/x.cc:17 at 0x7ffdeadbeef"));
  EXPECT_EQ(error.status, 500);
  EXPECT_EQ(error.message.find("0x"), std::string::npos);
  EXPECT_EQ(error.message.find(".cc"), std::string::npos);
}

TEST(Errors, AnEchoIsShortAndPrintable) {
  EXPECT_EQ(Echo("a'\n\xff"), "'a\\x27\\x0a\\xff'");
  EXPECT_EQ(Echo(std::string(1000, 'a')).size(), 64u + 5u);
}

}  // namespace
}  // namespace weft::serve
