#include "io/bounded_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/checked_math.h"
#include "io/printable.h"
#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::HasSubstr;

TEST(BoundedCursor, ReadsInOrderAndStopsAtTheEnd) {
  const std::string bytes = ByteWriter().Put<uint16_t>(0x1234).Text("abc").Put<uint8_t>(7).bytes();
  BoundedCursor cursor(BytesOfText(bytes));
  uint16_t word = 0;
  std::string_view text;
  uint8_t byte = 0;
  ASSERT_TRUE(cursor.Read(&word, "w").ok());
  ASSERT_TRUE(cursor.ReadString(10, &text, "t").ok());
  ASSERT_TRUE(cursor.Read(&byte, "b").ok());
  EXPECT_EQ(word, 0x1234);
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(byte, 7);
  EXPECT_EQ(cursor.remaining(), 0u);
  EXPECT_EQ(cursor.Read(&byte, "one more").message(),
            "the file ends inside one more: 1 bytes are needed at byte 14, 0 remain");
}

TEST(BoundedCursor, AFailedReadMovesNothing) {
  const std::string bytes = ByteWriter().Put<uint64_t>(100).Raw("abc").bytes();
  BoundedCursor cursor(BytesOfText(bytes));
  std::string_view text;
  EXPECT_THAT(cursor.ReadString(1000, &text, "name").message(),
              HasSubstr("inside name: 100 bytes"));
  EXPECT_THAT(cursor.ReadString(50, &text, "name").message(), HasSubstr("limit of 50"));
  EXPECT_EQ(cursor.position(), 0u);
  std::span<const std::byte> some;
  EXPECT_FALSE(cursor.Take(~uint64_t{0}, &some, "all").ok());
  EXPECT_EQ(cursor.position(), 0u);
  EXPECT_TRUE(cursor.Take(11, &some, "all").ok());
}

TEST(BoundedCursor, CountsAreComparedWithoutOverflow) {
  const std::string bytes(100, 'x');
  const BoundedCursor cursor(BytesOfText(bytes));
  EXPECT_TRUE(cursor.CheckCount(25, 4, "things").ok());
  EXPECT_FALSE(cursor.CheckCount(26, 4, "things").ok());
  EXPECT_FALSE(cursor.CheckCount((uint64_t{1} << 62) + 1, 4, "things").ok());
}

TEST(CheckedMath, SaysWhenItLeavesInt64) {
  EXPECT_EQ(CheckedAdd(INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(INT64_MAX - 1, 1), INT64_MAX);
  EXPECT_EQ(CheckedMul(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedAlignUp(33, 32), 64);
  EXPECT_EQ(CheckedAlignUp(64, 32), 64);
  EXPECT_EQ(CheckedAlignUp(INT64_MAX - 3, 32), std::nullopt);
  EXPECT_EQ(CheckedElements(std::vector<int64_t>{}), 1);
  EXPECT_EQ(CheckedElements(std::vector<int64_t>{3, 0, 5}), 0);
  EXPECT_EQ(CheckedElements(std::vector<int64_t>{0, int64_t{1} << 62, 4}), std::nullopt);
}

TEST(Printable, EscapesAndShortens) {
  EXPECT_EQ(Printable("a\n\x1b\\\xc3"), "a\\x0a\\x1b\\x5c\\xc3");
  EXPECT_EQ(Printable(std::string(100, 'y')), std::string(64, 'y') + "...");
}

}  // namespace
}  // namespace weft::io
