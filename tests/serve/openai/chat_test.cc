#include "serve/openai/chat.h"

#include <gtest/gtest.h>

#include "serve/openai/sample_piece.h"

namespace weft::serve {
namespace {

TEST(ChatFormat, ClosesAChoiceInAChunkOfItsOwn) {
  const auto chunks = ChatFormat().Chunks(kHead, MakePiece());
  ASSERT_EQ(chunks.size(), 2u);
  const Json& first = chunks[0].Find("choices")->as_array()[0];
  EXPECT_EQ(first.Find("delta")->Find("content")->as_string(), "h\xc3\xa9");
  EXPECT_TRUE(first.Find("finish_reason")->is_null());
  const Json& last = chunks[1].Find("choices")->as_array()[0];
  EXPECT_EQ(DumpJson(*last.Find("delta")), "{}");
  EXPECT_EQ(last.Find("finish_reason")->as_string(), "stop");
}

TEST(ChatFormat, LogprobsAreFiniteAndBytesAreExact) {
  const Json chunk = ChatFormat().Chunks(kHead, MakePiece())[0];
  const Json& content = *chunk.Find("choices")->as_array()[0].Find("logprobs")->Find("content");
  const Json& banned = content.as_array()[0].Find("top_logprobs")->as_array()[1];
  EXPECT_EQ(banned.Find("logprob")->as_double(), -9999.0);
  EXPECT_EQ(DumpJson(*banned.Find("bytes")), "[195]");
  EXPECT_EQ(banned.Find("token")->as_string(), "bytes:\\xc3");
}

TEST(ChatFormat, AWholeAnswerHasTheShapeThatClientsKnow) {
  std::vector<Piece> pieces = {{.index = 0, .text = "hi", .finish_reason = "length"}};
  EXPECT_EQ(
      DumpJson(ChatFormat().Whole(
          kHead, pieces, {.prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 1})),
      R"({"id":"id-1","object":"chat.completion","created":5,"model":"m","system_fingerprint":"f",)"
      R"("choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"logprobs":null,)"
      R"("finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":2,)"
      R"("total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},)"
      R"("completion_tokens_details":{"reasoning_tokens":0}}})");
}

}  // namespace
}  // namespace weft::serve
