#include "serve/generation.h"

#include <gtest/gtest.h>

#include "serve/fake_engine.h"
#include "serve/tiny_tokenizer.h"

namespace weft::serve {
namespace {

// Every piece in brackets.
std::string Pieces(TextStream& stream, const std::vector<engine::TokenEvent>& events) {
  std::string all;
  for (const auto& event : events) {
    std::string piece;
    stream.Push(event, piece);
    if (!piece.empty()) all += "[" + piece + "]";
  }
  return all;
}

TEST(TextStream, HoldsBackAnIncompleteCharacter) {
  const auto tokenizer = MakeTinyTokenizer();
  TextStream stream(*tokenizer, {});
  EXPECT_EQ(Pieces(stream, Say("a\xf0\x9f\x98\x80"
                               "b",
                               kEos)),
            "[a][\xf0\x9f\x98\x80][b]");
  EXPECT_TRUE(stream.ended());
  EXPECT_EQ(stream.finish(), engine::FinishReason::kStop);
  EXPECT_EQ(stream.stop_token(), kEos);
  EXPECT_EQ(stream.tokens(), 7);
}

TEST(TextStream, WhatIsIncompleteAtTheEndBecomesAReplacement) {
  const auto tokenizer = MakeTinyTokenizer();
  TextStream stream(*tokenizer, {});
  EXPECT_EQ(Pieces(stream, Say("a\xf0\x9f", -1)), "[a][\xef\xbf\xbd]");
  EXPECT_EQ(stream.finish(), engine::FinishReason::kLength);
}

TEST(TextStream, AStopStringEndsTheTextBeforeItAndTheRestIsSilent) {
  const auto tokenizer = MakeTinyTokenizer();
  TextStream stream(*tokenizer, {.stop = {"zz", "END"}});
  EXPECT_EQ(Pieces(stream, Say("xENyENDmore", kEos)), "[x][ENy]");
  EXPECT_TRUE(stream.ended());
  ASSERT_NE(stream.stop_string(), nullptr);
  EXPECT_EQ(*stream.stop_string(), "END");
  EXPECT_EQ(stream.tokens(), 7);
  TextStream shown(*tokenizer, {.stop = {"END"}, .include_stop = true});
  EXPECT_EQ(Pieces(shown, Say("xEND", kEos)), "[x][END]");
}

TEST(TextStream, HeldTextComesOutWhenTheEndCame) {
  const auto tokenizer = MakeTinyTokenizer();
  TextStream stream(*tokenizer, {.stop = {"END"}});
  EXPECT_EQ(Pieces(stream, Say("xEN", kEos)), "[x][EN]");
  EXPECT_EQ(stream.stop_string(), nullptr);
}

TEST(TextStream, AStopStringWaitsForMinTokens) {
  const auto tokenizer = MakeTinyTokenizer();
  TextStream stream(*tokenizer, {.stop = {"a"}, .min_tokens = 3});
  EXPECT_EQ(Pieces(stream, Say("aaba", kEos)), "[a][a][b]");
  EXPECT_NE(stream.stop_string(), nullptr);
}

TEST(TextStream, SpecialTokensAreTextOnlyWhenWanted) {
  const auto tokenizer = MakeTinyTokenizer();
  const std::vector<engine::TokenEvent> events = {{.id = 'a'}, {.id = kImStart}, {.id = 'b'}};
  TextStream skipped(*tokenizer, {});
  EXPECT_EQ(Pieces(skipped, events), "[a][b]");
  TextStream shown(*tokenizer, {.skip_special_tokens = false});
  EXPECT_EQ(Pieces(shown, events), "[a][<|im_start|>][b]");
}

}  // namespace
}  // namespace weft::serve
