#include "serve/openai/answer_format.h"

#include <gtest/gtest.h>

#include "serve/openai/sample_piece.h"

namespace weft::serve {
namespace {

TEST(AnswerFormat, LogprobsAreJsonNumbersWhateverTheyAre) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(LogprobJson(-infinity), Json(-9999.0));
  EXPECT_EQ(LogprobJson(std::numeric_limits<float>::quiet_NaN()), Json(-9999.0));
  EXPECT_EQ(LogprobJson(-0.5f), Json(-0.5));
  EXPECT_TRUE(LogprobJson(std::nullopt).is_null());
}

TEST(AnswerFormat, TokensThatAreNoTextAreNamedByTheirBytes) {
  EXPECT_EQ(TokenText("a\xc3\xa9"), "a\xc3\xa9");
  EXPECT_EQ(TokenText("\xc3"), "bytes:\\xc3");
}

TEST(AnswerFormat, UsageAddsUp) {
  const Json usage = ToJson(Usage{.prompt_tokens = 3, .completion_tokens = 4, .cached_tokens = 2});
  EXPECT_EQ(usage.Find("total_tokens")->as_int(), 7);
  EXPECT_EQ(usage.Find("prompt_tokens_details")->Find("cached_tokens")->as_int(), 2);
}

}  // namespace
}  // namespace weft::serve
