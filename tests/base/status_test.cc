#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/result.h"

namespace weft {
namespace {

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    names.insert(StatusCodeName(static_cast<StatusCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(StatusCode::kInternal) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(Status, IsOkUntilSomethingIsWrong) {
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(Status::Ok().message().empty());
  const Status wrong = Status::Exhausted("{} of {}", 3, 2);
  EXPECT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.code(), StatusCode::kExhausted);
  EXPECT_EQ(wrong.message(), "3 of 2");
}

TEST(Status, InAddsTheSurroundingsAndKeepsTheCode) {
  const Status inner = Status::NotFound("tensor 'a'");
  const Status outer = inner.In("block 3").In("model.gguf");
  EXPECT_EQ(outer.message(), "model.gguf: block 3: tensor 'a'");
  EXPECT_EQ(outer.code(), StatusCode::kNotFound);
  EXPECT_TRUE(Status::Ok().In("anywhere").message().empty());
}

Result<int> Half(int x) {
  if (x % 2 != 0) return Status::Invalid("{} is odd", x);
  return x / 2;
}

Result<int> Quarter(int x) {
  WEFT_ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

Status BothEven(int a, int b) {
  WEFT_RETURN_IF_ERROR(Half(a).status());
  WEFT_RETURN_IF_ERROR(Half(b).status());
  return Status::Ok();
}

TEST(Status, TheFirstErrorIsPassedOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(Quarter(5).status().message(), "5 is odd");
  EXPECT_TRUE(BothEven(2, 4).ok());
  EXPECT_EQ(BothEven(2, 7).message(), "7 is odd");
}

}  // namespace
}  // namespace weft
