// A request and an answer as the rooms above HTTP see them: plain values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Header names compare without case.
bool SameName(std::string_view a, std::string_view b);

struct HttpRequest {
  std::string method;
  std::string target;  // as sent, with the query
  std::string path;    // percent-decoded, without the query
  std::string query;
  Headers headers;
  std::string body;
  std::string id;  // the client's X-Request-Id if it is a plain word, else ours

  // The first header of that name, or "".
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
  bool close = false;  // end the connection after this answer
};

// Decodes %XX.  False: a bad escape, or one that stands for NUL.
bool DecodePercent(std::string_view text, std::string* out);

}  // namespace weft::serve
