#include "serve/http/sse.h"

#include "base/check.h"

namespace weft::serve {

std::string SseEvent(std::string_view data) {
  WEFT_CHECK(data.find_first_of("\r\n") == std::string_view::npos, "an event of several lines");
  std::string out;
  out.reserve(data.size() + 8);
  out += "data: ";
  out += data;
  out += "\n\n";
  return out;
}

}  // namespace weft::serve
