#include "serve/http/message.h"

#include <gtest/gtest.h>

namespace weft::serve {
namespace {

TEST(HttpRequest, HeadersAreFoundWithoutCase) {
  const HttpRequest request{.headers = {{"X-One", "a"}, {"x-one", "b"}}};
  EXPECT_EQ(request.Header("x-ONE"), "a");
  EXPECT_EQ(request.Header("x-on"), "");
}

TEST(Percent, BadEscapesAndNulAreRefused) {
  std::string out;
  EXPECT_TRUE(DecodePercent("/v1/models/a%2Fb%20c", &out));
  EXPECT_EQ(out, "/v1/models/a/b c");
  for (const char* bad : {"%", "%2", "%zz", "a%00b"}) EXPECT_FALSE(DecodePercent(bad, &out)) << bad;
}

}  // namespace
}  // namespace weft::serve
