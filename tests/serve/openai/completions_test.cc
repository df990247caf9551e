#include "serve/openai/completions.h"

#include <gtest/gtest.h>

#include "serve/openai/sample_piece.h"

namespace weft::serve {
namespace {

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
