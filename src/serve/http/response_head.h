// The head of an answer as bytes. Internal to http/. Thread: any (pure).
#pragma once

#include <string>

#include "serve/http/message.h"

namespace weft::serve {

struct HeadForm {
  unsigned version = 11;  // of HTTP: 10 or 11
  bool streamed = false;  // the body comes in parts; else its length is known
  bool keep_alive = true;
};

std::string SerialiseHead(const HttpResponse& response, const HeadForm& form);

}  // namespace weft::serve
