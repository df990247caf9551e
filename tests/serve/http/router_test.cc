#include "serve/http/router.h"

#include <gtest/gtest.h>

namespace weft::serve {
namespace {

HttpResponse ErrorOf(int status, std::string_view) { return {.status = status, .body = "{}"}; }

Router MakeRouter(AccessRules rules) {
  Router router(std::move(rules), ErrorOf);
  router.Add({.method = "GET", .path = "/health", .open = true, .handle = {}});
  router.Add({.method = "GET", .path = "/v1/models/*", .handle = {}});
  router.Add({.method = "POST", .path = "/v1/completions", .handle = {}});
  return router;
}

int Ask(const Router& router, const std::string& method, const std::string& path,
        Headers headers = {}) {
  HttpRequest request{.method = method, .path = path, .headers = std::move(headers)};
  const auto refusal = router.Gate(request);
  return refusal ? refusal->status : 0;
}

TEST(Router, WithAKeyEveryRouteButHealthNeedsIt) {
  const Router router = MakeRouter({.api_keys = {"first", "second"}});
  for (const Route& route : router.routes()) {
    const std::string path = route.path.back() == '*' ? route.path + "x" : route.path;
    EXPECT_EQ(Ask(router, route.method, path), route.path == "/health" ? 0 : 401) << path;
  }
  EXPECT_EQ(Ask(router, "GET", "/unknown"), 401);
  for (const char* key : {"Bearer first", "bearer second"}) {
    EXPECT_EQ(Ask(router, "POST", "/v1/completions", {{"authorization", key}}), 0) << key;
  }
  for (const char* key :
       {"Bearer firs", "Bearer first1", "Bearer ", "Bearer", "first", "Basic first", ""}) {
    EXPECT_EQ(Ask(router, "POST", "/v1/completions", {{"Authorization", key}}), 401) << key;
  }
}

TEST(Router, UnknownPathsAndMethodsAreToldApart) {
  const Router router = MakeRouter({});
  EXPECT_EQ(Ask(router, "GET", "/nothing"), 404);
  EXPECT_EQ(Ask(router, "GET", "/v1/models/"), 404);
  EXPECT_EQ(Ask(router, "GET", "/v1/models/a"), 0);
  EXPECT_EQ(Ask(router, "HEAD", "/health"), 0);
  HttpRequest request{.method = "DELETE", .path = "/health"};
  const auto refusal = router.Gate(request);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 405);
  ASSERT_FALSE(refusal->headers.empty());
  EXPECT_EQ(refusal->headers.front().second, "GET, HEAD");
}

TEST(Router, OnLoopbackAForeignHostNameIsRefused) {
  const Router router = MakeRouter({.host_names = {"weft.lan"}, .check_host = true});
  EXPECT_EQ(Ask(router, "GET", "/health", {{"Host", "evil.example"}}), 403);
  EXPECT_EQ(Ask(router, "GET", "/health", {{"Host", "localhost:8000"}}), 0);
  EXPECT_EQ(Ask(router, "GET", "/health", {{"Host", "weft.lan:8000"}}), 0);
}

TEST(Router, CrossOriginIsOffUntilAnOriginIsAllowed) {
  const Headers foreign = {{"Host", "localhost:8000"}, {"Origin", "https://page.example"}};
  const Router closed = MakeRouter({});
  EXPECT_EQ(Ask(closed, "POST", "/v1/completions", foreign), 403);
  EXPECT_EQ(Ask(closed, "POST", "/v1/completions",
                {{"Host", "localhost:8000"}, {"Origin", "http://localhost:8000"}}),
            0);
  EXPECT_EQ(Ask(closed, "OPTIONS", "/v1/completions", foreign), 405);
  HttpResponse response;
  closed.Decorate({.headers = foreign}, &response);
  EXPECT_TRUE(response.headers.empty());

  const Router open = MakeRouter({.allowed_origins = {"https://page.example"}});
  EXPECT_EQ(Ask(open, "POST", "/v1/completions", foreign), 0);
  EXPECT_EQ(Ask(open, "OPTIONS", "/v1/completions", foreign), 204);
  open.Decorate({.headers = foreign}, &response);
  ASSERT_FALSE(response.headers.empty());
  EXPECT_EQ(response.headers.front().second, "https://page.example");
  EXPECT_EQ(Ask(open, "POST", "/v1/completions",
                {{"Host", "localhost:8000"}, {"Origin", "https://other.example"}}),
            403);
}

}  // namespace
}  // namespace weft::serve
