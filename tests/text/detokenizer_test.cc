#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "test_data.h"

namespace weft::text {
namespace {

TEST(Detokenizer, PiecesPutTogetherAreTheDecodedText) {
  std::mt19937 random(1);
  for (const char* family : kFamilies) {
    const auto tokenizer = MakeTestTokenizer(family);
    for (int round = 0; round < 300; ++round) {
      std::vector<int32_t> ids(random() % 40);
      for (int32_t& id : ids) {
        // Half of them from the single bytes, which break characters.
        const size_t range = random() % 2 ? 260 : tokenizer->vocab_size() + 2;
        id = static_cast<int32_t>(random() % range);
      }
      for (const bool skip : {false, true}) {
        Detokenizer detokenizer(*tokenizer, {.skip_special_tokens = skip});
        std::string text;
        for (const int32_t id : ids) {
          detokenizer.Push(id, text);
          ASSERT_TRUE(IsValidUtf8(text));
        }
        detokenizer.Finish(text);
        EXPECT_EQ(text, tokenizer->Decode(ids, {.skip_special_tokens = skip}));
      }
    }
  }
}

TEST(Detokenizer, HoldsBackAnIncompleteCharacterUntilNothingCanCompleteIt) {
  const auto tokenizer = MakeTestTokenizer("gpt2");
  // No merge knows this character: one token per byte.
  const auto ids = tokenizer->Encode("\xf3\xb1\x82\x83");
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), 4u);
  Detokenizer whole(*tokenizer);
  std::string text;
  for (int i = 0; i < 3; ++i) whole.Push((*ids)[i], text);
  EXPECT_EQ(text, "");
  EXPECT_TRUE(whole.pending());
  whole.Push((*ids)[3], text);
  EXPECT_EQ(text, "\xf3\xb1\x82\x83");

  Detokenizer broken(*tokenizer);
  text.clear();
  broken.Push((*ids)[0], text);
  broken.Push(tokenizer->Encode("x")->front(), text);
  EXPECT_EQ(text, "\xef\xbf\xbdx");
  broken.Push((*ids)[0], text);
  broken.Finish(text);
  EXPECT_EQ(text, "\xef\xbf\xbdx\xef\xbf\xbd");
}

}  // namespace
}  // namespace weft::text
