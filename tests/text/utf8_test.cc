#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace weft::text {
namespace {

TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\xff"
       "b",
       "a\ufffdb"},
      {"\xf0\x9f\x98", "\ufffd"},
      {"\xf0\x9f\x98"
       "x",
       "\ufffdx"},
      {"\xe2\x82\xe2\x82\xac", "\ufffd€"},
      {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
      {"\xc0\xaf", "\ufffd\ufffd"},
      {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
      {"\xc3\xc3\xa9", "\ufffdé"},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), text);
    EXPECT_FALSE(IsValidUtf8(bytes));
    EXPECT_TRUE(IsValidUtf8(text));
  }
}

TEST(Utf8, EachCodePointIsReadAsItIsWritten) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string bytes;
    AppendUtf8(bytes, code);
    const CodePoint read = ReadUtf8(bytes, 0);
    ASSERT_EQ(read.value, code);
    ASSERT_EQ(read.bytes, bytes.size());
    ASSERT_TRUE(IsValidUtf8(bytes));
  }
}

TEST(Utf8, HowBytesAreCutDoesNotMatter) {
  std::mt19937 random(1);
  constexpr std::string_view kBytes =
      "ab\x80\xbf\xc2\xc3\xe0\xa0\xe2\x82\xac\xed\xf0\x9f\x98\x80\xf4\x8f\xff";
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 12, ' ');
    for (char& c : bytes) c = kBytes[random() % kBytes.size()];
    Utf8Assembler assembler;
    std::string out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min<size_t>(random() % 4, bytes.size() - at);
      assembler.Feed(std::string_view(bytes).substr(at, n), out);
      at += n;
    }
    assembler.Finish(out);
    ASSERT_EQ(out, ReplaceInvalidUtf8(bytes));
    ASSERT_TRUE(IsValidUtf8(out));
    ASSERT_EQ(IsValidUtf8(bytes), out == bytes);
  }
}

}  // namespace
}  // namespace weft::text
