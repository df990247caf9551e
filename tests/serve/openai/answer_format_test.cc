#include "serve/openai/answer_format.h"

#include <gtest/gtest.h>

#include <limits>

#include "serve/openai/chat.h"
#include "serve/openai/completions.h"

namespace weft::serve {
namespace {

const AnswerHead kHead{.id = "id-1", .model = "m", .fingerprint = "f", .created = 5};

Piece MakePiece() {
  Piece piece{.index = 1, .text = "h\xc3\xa9", .with_logprobs = true, .finish_reason = "stop"};
  piece.logprobs.push_back({.chosen = {.bytes = "h", .logprob = -0.5f},
                            .top = {{.bytes = "h", .logprob = -0.5f},
                                    {.bytes = "\xc3", .logprob = -std::numeric_limits<float>::infinity()}}});
  piece.logprobs.push_back({.chosen = {.bytes = "\xc3\xa9", .logprob = -1.0f}, .top = {}});
  return piece;
}

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
  EXPECT_EQ(DumpJson(ChatFormat().Whole(kHead, pieces, {.prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 1})),
            R"({"id":"id-1","object":"chat.completion","created":5,"model":"m","system_fingerprint":"f",)"
            R"("choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"logprobs":null,)"
            R"("finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":2,)"
            R"("total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}}})");
}

TEST(CompletionFormat, OffsetsCountCharactersFromTheChoicesBegin) {
  Piece piece = MakePiece();
  piece.text_offset = 10;
  const auto chunks = CompletionFormat().Chunks(kHead, piece);
  ASSERT_EQ(chunks.size(), 1u);
  const Json& logprobs = *chunks[0].Find("choices")->as_array()[0].Find("logprobs");
  EXPECT_EQ(DumpJson(*logprobs.Find("text_offset")), "[10,11]");
  EXPECT_EQ(DumpJson(*logprobs.Find("tokens")), "[\"h\",\"\xc3\xa9\"]");
}

}  // namespace
}  // namespace weft::serve
