#include "io/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::HasSubstr;

TEST(Mapping, ShowsTheFilesBytes) {
  TempDir dir;
  const Result<Mapping> mapping = Mapping::Open(dir.Write("f", "weft"));
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ(mapping.value().bytes().size(), 4u);
  EXPECT_EQ(mapping.value().bytes()[0], std::byte{'w'});
}

TEST(Mapping, BytesStayWhereTheyAreWhenItIsMoved) {
  TempDir dir;
  Mapping first = Mapping::Open(dir.Write("f", "weft")).value();
  const std::byte* data = first.bytes().data();
  Mapping second = std::move(first);
  EXPECT_TRUE(first.bytes().empty());
  EXPECT_EQ(second.bytes().data(), data);
  Mapping third = Mapping::Open(dir.Write("g", "else")).value();
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), data);
  EXPECT_EQ(data[3], std::byte{'t'});
}

TEST(Mapping, DropChangesResidencyAndNeverContent) {
  TempDir dir;
  const std::string content(1 << 20, 'x');
  const Mapping mapping = Mapping::Open(dir.Write("f", content)).value();
  const std::byte* data = mapping.bytes().data();
  mapping.Advise(data, 1 << 20, Mapping::Access::kSequential);
  EXPECT_EQ(std::memcmp(data, content.data(), content.size()), 0);
  mapping.Drop(data + 5000, 100'000);
  mapping.Drop(data + (1 << 20), 0);
  mapping.Advise(data + 1, (1 << 20) - 1, Mapping::Access::kWillNeed);
  EXPECT_EQ(std::memcmp(data, content.data(), content.size()), 0);
}

TEST(Mapping, RefusesWithTheNameAndTheReason) {
  TempDir dir;
  struct Case {
    std::string path;
    const char* words;
    StatusCode code;
  };
  ::mkfifo((dir / "pipe").c_str(), 0600);
  for (const Case& c : {Case{dir / "absent", "absent: no such file", StatusCode::kNotFound},
                        {dir.Write("file", "x") + "/below", "no such file", StatusCode::kNotFound},
                        {dir.path(), "is no regular file", StatusCode::kInvalid},
                        {dir / "pipe", "pipe: is no regular file", StatusCode::kInvalid},
                        {dir.Write("empty", ""), "empty: the file is empty", StatusCode::kInvalid},
                        {"", "no such file", StatusCode::kNotFound}}) {
    const Result<Mapping> mapping = Mapping::Open(c.path);
    ASSERT_FALSE(mapping.ok()) << c.path;
    EXPECT_THAT(mapping.status().message(), HasSubstr(c.words));
    EXPECT_EQ(mapping.status().code(), c.code) << c.path;
  }
}

}  // namespace
}  // namespace weft::io
