#include "serve/http/sse.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace weft::serve {
namespace {

TEST(Sse, AnEventIsOneLineWhateverTheTextHolds) {
  const std::string event = SseEvent(DumpJson(Json("a\r\n\ndata: [DONE]\n\n")));
  EXPECT_EQ(event.rfind("data: ", 0), 0u);
  EXPECT_EQ(event.find('\n'), event.size() - 2);
}

}  // namespace
}  // namespace weft::serve
