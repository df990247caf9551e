// Rules for a request's head that are read off its raw bytes, before a parser makes it nicer than
// it was: sizes, folded lines, bare line feeds, NUL, and the headers that frame the body.
// What two parsers may read in two ways is refused (request smuggling).
// Thread: pure functions.
#pragma once

#include <string_view>

#include "serve/http/message.h"
#include "serve/limits.h"

namespace weft::serve {

// status 0: nothing against it.
struct HeadVerdict {
  int status = 0;
  std::string_view reason;  // a fixed text
};

// `head`: from the request line up to and including the empty line.
HeadVerdict CheckHead(std::string_view head, const HttpLimits& limits);

// What a well-formed head may not say. Fills the request's path and query. version: 10 or 11.
HeadVerdict CheckRequest(unsigned version, HttpRequest* request);

// Whether a Host header (with or without a port) is an IP literal or localhost. A page of
// another site whose name was made to resolve to 127.0.0.1 sends its own name (DNS rebinding).
bool IsLocalHostName(std::string_view host);

}  // namespace weft::serve
