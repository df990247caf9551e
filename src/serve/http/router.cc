#include "serve/http/router.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "serve/http/head_rules.h"

namespace weft::serve {
namespace {

std::array<unsigned char, 32> Sha256(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  const int ok =
      EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  WEFT_CHECK(ok == 1, "SHA-256 is not available");
  return digest;
}

std::string_view WithoutPort(std::string_view host) {
  const size_t colon = host.rfind(':');
  return colon == std::string_view::npos ? host : host.substr(0, colon);
}

bool Matches(const Route& route, std::string_view path) {
  if (!route.path.empty() && route.path.back() == '*') {
    const std::string_view prefix = std::string_view(route.path).substr(0, route.path.size() - 1);
    return path.size() > prefix.size() && path.substr(0, prefix.size()) == prefix;
  }
  return route.path == path;
}

}  // namespace

ApiKeys::ApiKeys(std::span<const std::string> keys) {
  for (const std::string& key : keys) digests_.push_back(Sha256(key));
}

int ApiKeys::Find(std::string_view key) const {
  const auto digest = Sha256(key);
  int found = -1;
  for (size_t i = 0; i < digests_.size(); ++i) {
    const bool same = CRYPTO_memcmp(digest.data(), digests_[i].data(), digest.size()) == 0;
    found = same ? static_cast<int>(i) : found;
  }
  return found;
}

std::string_view BearerKey(const HttpRequest& request) {
  const std::string_view value = request.Header("Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() <= kScheme.size() || !SameName(value.substr(0, kScheme.size()), kScheme))
    return {};
  return value.substr(kScheme.size());
}

Router::Router(AccessRules rules, std::function<HttpResponse(int, std::string_view)> error)
    : rules_(std::move(rules)), keys_(rules_.api_keys), error_(std::move(error)) {}

const Route* Router::Find(std::string_view method, std::string_view path,
                          std::string* allow) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : routes_) {
    if (!Matches(route, path)) continue;
    if (route.method == wanted) return &route;
    if (!allow->empty()) *allow += ", ";
    *allow += route.method;
    if (route.method == "GET") *allow += ", HEAD";
  }
  return nullptr;
}

bool Router::OriginAllowed(std::string_view origin) const {
  if (origin.empty()) return false;
  for (const std::string& allowed : rules_.allowed_origins) {
    if (allowed == "*" || allowed == origin) return true;
  }
  return false;
}

std::optional<HttpResponse> Router::Gate(const HttpRequest& request) const {
  const std::string_view host = request.Header("Host");
  if (rules_.check_host && !host.empty() && !IsLocalHostName(host)) {
    bool known = false;
    for (const std::string& name : rules_.host_names) {
      known = known || SameName(name, host) || SameName(name, WithoutPort(host));
    }
    if (!known) return error_(403, "The Host header names another machine; see --allowed-hosts.");
  }
  if (request.method == "OPTIONS" && OriginAllowed(request.Header("Origin"))) {
    HttpResponse preflight;
    preflight.status = 204;
    preflight.content_type.clear();
    preflight.headers = {
        {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
        {"Access-Control-Allow-Headers", "authorization, content-type, x-request-id"},
        {"Access-Control-Max-Age", "600"}};
    return preflight;
  }
  if (request.method == "POST") {
    const std::string_view origin = request.Header("Origin");
    const size_t scheme = origin.find("://");
    const bool ours = scheme != std::string_view::npos && SameName(origin.substr(scheme + 3), host);
    if (!origin.empty() && !ours && !OriginAllowed(origin)) {
      return error_(403, "Web pages of other origins may not ask; see --allowed-origins.");
    }
  }
  std::string allow;
  const Route* route = Find(request.method, request.path, &allow);
  if (!keys_.empty() && (route == nullptr || !route->open)) {
    // An absent key takes the same work as a wrong one.
    if (keys_.Find(BearerKey(request)) < 0) {
      HttpResponse response = error_(401, "The API key is missing or wrong.");
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
  }
  if (route != nullptr) return std::nullopt;
  if (allow.empty()) return error_(404, "There is no such path.");
  HttpResponse response = error_(405, "The path does not answer this method.");
  response.headers.emplace_back("Allow", allow);
  return response;
}

void Router::Handle(std::shared_ptr<Exchange> exchange) const {
  std::string allow;
  const HttpRequest& request = exchange->request();
  const Route* route = Find(request.method, request.path, &allow);
  WEFT_CHECK(route != nullptr, "the gate let an unknown path pass");
  route->handle(std::move(exchange));
}

void Router::Decorate(const HttpRequest& request, HttpResponse* response) const {
  if (!request.id.empty()) response->headers.emplace_back("X-Request-Id", request.id);
  const std::string_view origin = request.Header("Origin");
  if (!OriginAllowed(origin)) return;
  response->headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  response->headers.emplace_back("Vary", "Origin");
}

}  // namespace weft::serve
