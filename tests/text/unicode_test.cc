#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <ctime>

#include "text/utf8.h"

namespace weft::text {
namespace {

TEST(Unicode, KnowsCharactersThatTheLibraryDoesNot) {
  EXPECT_EQ(ClassOf(0x1c89), kLetter | kUpper);
  EXPECT_EQ(ClassOf(0x10d40), kNumber | kDigit);
  EXPECT_EQ(ClassOf(0x11de0), kDigit);  // Unicode 17: the Digits splitter alone knows it
  EXPECT_EQ(ClassOf(0x0378), 0);        // never assigned
  EXPECT_EQ(ClassOf('\n'), kSpace | kNewline);
  EXPECT_EQ(ClassOf(0x85), kSpace);
  EXPECT_EQ(ClassOf(0x200b), 0);
}

TEST(Unicode, AsciiTableAgreesWithTheLibrary) {
  for (utf8proc_int32_t c = 0; c < 128; ++c) {
    const char category = utf8proc_category_string(c)[0];
    const uint16_t classes = ClassOf(static_cast<char32_t>(c));
    EXPECT_EQ((classes & kLetter) != 0, category == 'L') << c;
    EXPECT_EQ((classes & kNumber) != 0, category == 'N') << c;
    EXPECT_EQ((classes & kPunct) != 0, category == 'P') << c;
    EXPECT_EQ((classes & kSymbol) != 0, category == 'S') << c;
  }
}

TEST(Unicode, NormalFormOfEachCharacterIsTheLibrarys) {
  for (char32_t code = 1; code < 0x30000; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text = "a";
    AppendUtf8(text, code);
    text += "\xcc\x81\xcc\xa3";  // two marks out of order
    utf8proc_uint8_t* expected =
        utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    ASSERT_EQ(ToNfc(text), reinterpret_cast<const char*>(expected))
        << std::hex << static_cast<uint32_t>(code);
    std::free(expected);
  }
}

TEST(Unicode, NormalisesALongRunOfMarksInLittleTime) {
  std::string text = "a";
  for (int i = 0; i < 500000; ++i) text += "\xcc\x81\xcc\xa3";
  const std::clock_t start = std::clock();
  const std::string nfc = ToNfc(text);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5.0);
  EXPECT_TRUE(nfc.starts_with("\xe1\xba\xa1"));  // a with dot below, then the rest of the marks
}

}  // namespace
}  // namespace weft::text
