#include "engine/request.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

TEST(FinishReason, IsSpelledAsOpenAiDoes) {
  EXPECT_EQ(NameOf(FinishReason::kNone), "");
  EXPECT_EQ(NameOf(FinishReason::kStop), "stop");
  EXPECT_EQ(NameOf(FinishReason::kLength), "length");
  EXPECT_EQ(NameOf(FinishReason::kAbort), "abort");
  EXPECT_EQ(NameOf(FinishReason::kError), "error");
}

}  // namespace
}  // namespace weft::engine
