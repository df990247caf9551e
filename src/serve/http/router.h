// Which handler answers which path, and who may ask at all: Host, API key, CORS.
// Deny by default: a route needs the key unless it says that it does not, and an unknown path is
// refused without the key before it is said to be unknown.
// Thread: built before the server starts, then read by the loop.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/exchange.h"
#include "serve/http/message.h"

namespace weft::serve {

// SHA-256 digests of the keys; a key is compared by digest, in a time that depends on neither.
class ApiKeys {
 public:
  explicit ApiKeys(std::span<const std::string> keys);
  bool empty() const { return digests_.empty(); }
  size_t size() const { return digests_.size(); }
  // Which of them `key` is, or -1; compares with all of them in any case.
  int Find(std::string_view key) const;

 private:
  std::vector<std::array<unsigned char, 32>> digests_;
};

struct Route {
  std::string method;  // "GET" also answers HEAD
  std::string path;    // ends in "*": a prefix
  bool open = false;   // answered without the key
  std::function<void(std::shared_ptr<Exchange>)> handle;
};

struct AccessRules {
  std::vector<std::string> api_keys;         // none: everybody may
  std::vector<std::string> allowed_origins;  // exact, or one "*"; none: CORS is off
  std::vector<std::string> host_names;       // besides IP literals and localhost
  bool check_host = false;                   // on when bound to loopback
};

// The key of an "Authorization: Bearer" header, or "".
std::string_view BearerKey(const HttpRequest& request);

class Router {
 public:
  Router(AccessRules rules, std::function<HttpResponse(int, std::string_view)> error);

  void Add(Route route) { routes_.push_back(std::move(route)); }
  std::span<const Route> routes() const { return routes_; }
  const ApiKeys& keys() const { return keys_; }

  // The refusal of a request by its head: 401, 403, 404, 405, or the answer to OPTIONS. A POST that
  // a foreign web page sends (its Origin is neither ours nor allowed) is refused too: the page
  // could not read the answer, but would have made us compute it.
  std::optional<HttpResponse> Gate(const HttpRequest& request) const;
  // REQUIRES: Gate() let the request pass.
  void Handle(std::shared_ptr<Exchange> exchange) const;
  // Adds CORS headers where the request's origin is allowed.
  void Decorate(const HttpRequest& request, HttpResponse* response) const;

 private:
  const Route* Find(std::string_view method, std::string_view path, std::string* allow) const;
  bool OriginAllowed(std::string_view origin) const;

  AccessRules rules_;
  ApiKeys keys_;
  std::function<HttpResponse(int, std::string_view)> error_;
  std::vector<Route> routes_;
};

}  // namespace weft::serve
