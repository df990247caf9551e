#include "serve/http/head_rules.h"

#include <arpa/inet.h>

#include <string>

#include "serve/http/message.h"

namespace weft::serve {
namespace {

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

bool IsDecimal(std::string_view s) {
  if (s.empty() || s.size() > 19) return false;
  for (char c : s) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

// token of RFC 9110: what a header name may be made of.
bool IsToken(std::string_view s) {
  if (s.empty()) return false;
  for (char c : s) {
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!alnum && std::string_view("!#$%&'*+-.^_`|~").find(c) == std::string_view::npos)
      return false;
  }
  return true;
}

}  // namespace

HeadVerdict CheckHead(std::string_view head, const HttpLimits& limits) {
  if (head.size() > limits.head_bytes_max) return {431, "The request's head is too large."};
  size_t line_count = 0;
  int lengths = 0, encodings = 0, hosts = 0;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    if (end == std::string_view::npos) return {400, "The head does not end in an empty line."};
    std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 1);
    if (line.empty() || line.back() != '\r') return {400, "A line of the head ends without CR."};
    line.remove_suffix(1);
    if (line.size() > limits.line_bytes_max) return {431, "A line of the head is too long."};
    for (char c : line) {
      if (c == '\0' || c == '\r') return {400, "The head holds a control character."};
    }
    if (line_count++ == 0) continue;
    if (line.empty()) break;
    if (line_count - 1 > limits.headers_max) return {431, "There are too many headers."};
    if (line.front() == ' ' || line.front() == '\t') return {400, "Folded headers are refused."};
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return {400, "A header has no colon."};
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = Trim(line.substr(colon + 1));
    if (!IsToken(name)) return {400, "A header's name is not a token."};
    if (SameName(name, "Content-Length")) {
      ++lengths;
      if (!IsDecimal(value)) return {400, "Content-Length is not a number."};
    } else if (SameName(name, "Transfer-Encoding")) {
      ++encodings;
      if (!SameName(value, "chunked")) return {400, "Transfer-Encoding may only be chunked."};
    } else if (SameName(name, "Host")) {
      ++hosts;
    }
  }
  if (lengths > 1) return {400, "Content-Length is given twice."};
  if (encodings > 1) return {400, "Transfer-Encoding is given twice."};
  if (lengths > 0 && encodings > 0) return {400, "Content-Length and Transfer-Encoding together."};
  if (hosts > 1) return {400, "Host is given twice."};
  return {};
}

HeadVerdict CheckRequest(unsigned version, HttpRequest* request) {
  const std::string_view target = request->target;
  const std::string_view path = target.substr(0, target.find('?'));
  if (path.size() < target.size()) request->query = target.substr(path.size() + 1);
  if (!DecodePercent(path, &request->path)) return {400, "The request's path is not well-formed."};
  if (version != 10 && version != 11) return {505, "Only HTTP/1.0 and HTTP/1.1 are spoken here."};
  if (version == 11 && request->Header("Host").empty())
    return {400, "HTTP/1.1 needs a Host header."};
  const std::string_view encoding = request->Header("Content-Encoding");
  if (!encoding.empty() && !SameName(encoding, "identity")) {
    return {415, "Compressed request bodies are not accepted."};
  }
  const std::string_view expect = request->Header("Expect");
  if (!expect.empty() && !SameName(expect, "100-continue")) {
    return {417, "Only 100-continue may be expected."};
  }
  return {};
}

bool IsLocalHostName(std::string_view host) {
  if (!host.empty() && host.front() == '[') {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !IsDecimal(rest.substr(1)))) return false;
    in6_addr six;
    return inet_pton(AF_INET6, std::string(host.substr(1, end - 1)).c_str(), &six) == 1;
  }
  if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    if (!IsDecimal(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  if (SameName(host, "localhost")) return true;
  in_addr four;
  return inet_pton(AF_INET, std::string(host).c_str(), &four) == 1;
}

}  // namespace weft::serve
