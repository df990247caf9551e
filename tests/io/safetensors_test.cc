#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Safetensors> ParseText(std::string_view bytes) {
  return Safetensors::Parse(BytesOfText(bytes), "x.safetensors");
}

// Not in the order of its data, with a scalar, an empty tensor and padding behind the header.
std::string GoodTensors() {
  return SafetensorsFile(R"({"__metadata__":{"format":"pt"},)"
                         R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[24,36]},)"
                         R"("a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},)"
                         R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[24,24]},)"
                         R"("one":{"dtype":"U8","shape":[],"data_offsets":[36,37]}}   )",
                         37);
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string bytes = GoodTensors();
  const Result<Safetensors> file = ParseText(bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto tensors = file.value().tensors();
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dtype, DType::kF32);
  EXPECT_THAT(tensors[0].shape, ElementsAre(6));
  EXPECT_EQ(tensors[1].name, "none");
  EXPECT_EQ(tensors[1].bytes, 0);
  EXPECT_EQ(tensors[2].name, "b");
  EXPECT_EQ(tensors[2].dtype, DType::kBF16);
  EXPECT_THAT(tensors[2].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[3].name, "one");
  EXPECT_THAT(tensors[3].shape, IsEmpty());
  EXPECT_EQ(tensors[3].bytes, 1);
  EXPECT_EQ(tensors[3].data[0], static_cast<std::byte>(36 * 5 + 3));
  EXPECT_EQ(tensors[2].data[0], static_cast<std::byte>(24 * 5 + 3));
  EXPECT_THAT(file.value().metadata(), ElementsAre(testing::Pair("format", "pt")));
}

TEST(Safetensors, AFileWithoutTensorsIsAFile) {
  EXPECT_TRUE(ParseText(SafetensorsFile("{}", 0)).ok());
  EXPECT_TRUE(ParseText(SafetensorsFile(R"({"__metadata__":null})", 0)).ok());
}

TEST(Safetensors, EveryPrefixOfAGoodFileIsRefused) {
  const std::string file = GoodTensors();
  for (size_t size = 0; size < file.size(); ++size) {
    const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
    std::memcpy(copy.get(), file.data(), size);
    const Result<Safetensors> cut = Safetensors::Parse({copy.get(), size}, "cut");
    ASSERT_FALSE(cut.ok()) << "at " << size;
    ASSERT_EQ(cut.status().code(), StatusCode::kInvalid);
  }
}

TEST(Safetensors, AnyOneByteMayBeWrong) {
  const std::string file = GoodTensors();
  for (size_t at = 0; at < file.size(); ++at) {
    for (int value = 0; value < 256; value += 3) {
      const std::unique_ptr<std::byte[]> copy(new std::byte[file.size()]);
      std::memcpy(copy.get(), file.data(), file.size());
      copy[at] = static_cast<std::byte>(value);
      const Result<Safetensors> parsed = Safetensors::Parse({copy.get(), file.size()}, "x");
      if (!parsed.ok()) continue;
      for (const Tensor& tensor : parsed.value().tensors()) {
        ASSERT_GE(tensor.data, copy.get());
        ASSERT_LE(tensor.data + tensor.bytes, copy.get() + file.size());
      }
    }
  }
}

std::string One(std::string_view entry, size_t bytes) {
  return SafetensorsFile(R"({"t":)" + std::string(entry) + "}", bytes);
}

TEST(Safetensors, RefusesEachBadFileWithTheReason) {
  struct BadFile {
    std::string bytes;
    const char* words;
    StatusCode code = StatusCode::kInvalid;
  };
  const std::vector<BadFile> files{
      {"", "inside the header's length"},
      {"1234567", "inside the header's length"},
      {ByteWriter().Put<uint64_t>(100'000'001).bytes(),
       "header of 100000001 bytes exceeds the limit of 100000000"},
      {ByteWriter().Put(~uint64_t{0}).bytes(), "exceeds the limit"},
      {ByteWriter().Put<uint64_t>(3).Raw("{}").bytes(), "inside the header: 3 bytes"},
      {SafetensorsFile("", 0), "does not begin with '{'"},
      {SafetensorsFile(" {}", 0), "does not begin with '{'"},
      {SafetensorsFile("[]", 0), "does not begin with '{'"},
      {SafetensorsFile("{", 0), "bad JSON"},
      {SafetensorsFile("{} x", 0), "bad JSON"},
      {SafetensorsFile("{\"\xff\":1}", 0), "bad JSON"},
      {SafetensorsFile(R"({"t":1})", 0), "tensor 't': must be an object, found integer"},
      {SafetensorsFile(
           R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           2),
       "'t' twice"},
      {SafetensorsFile(R"({"t":[[[[[[[[[[]]]]]]]]]]})", 0), "nested deeper than 8"},
      {SafetensorsFile(R"({"__metadata__":[]})", 0), "'__metadata__' must be an object"},
      {SafetensorsFile(R"({"__metadata__":{"a":1}})", 0),
       "'__metadata__' maps strings to strings, but 'a' to a integer"},
      {SafetensorsFile("{}", 1), "1 bytes of the buffer belong to no tensor"},
      {SafetensorsFile("{" + std::string(8'000'001, ',') + "}", 0), "more than 8000000 values"},
      {One(R"({"shape":[1],"data_offsets":[0,1]})", 1), "'dtype' is missing"},
      {One(R"({"dtype":"U8","data_offsets":[0,1]})", 1), "'shape' is missing"},
      {One(R"({"dtype":"U8","shape":[1]})", 1), "'data_offsets' is missing"},
      {One(R"({"dtype":8,"shape":[1],"data_offsets":[0,1]})", 1), "'dtype' must be a string"},
      {One(R"({"dtype":"u8","shape":[1],"data_offsets":[0,1]})", 1), "unknown dtype 'u8'"},
      {One(R"({"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]})", 1),
       "dtype F8_E4M3 is not supported", StatusCode::kUnsupported},
      {One(R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]})", 8),
       "tensor 't': dtype F64 is not supported", StatusCode::kUnsupported},
      {One(R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})", 1),
       "'shape' must be an array, found integer"},
      {One(R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", 1),
       "'shape' must hold integers from 0 on, found -1"},
      {One(R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})", 1),
       "'shape' must hold integers"},
      {One(R"({"dtype":"U8","shape":["1"],"data_offsets":[0,1]})", 1),
       "'shape' must hold integers"},
      {One(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]})", 1),
       "'shape' must hold integers"},
      {One(R"({"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0),
       "size of its shape overflows"},
      {One(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})", 0),
       "size of its shape overflows"},
      {One(R"({"dtype":"U8","shape":[0,4611686018427387904,4],"data_offsets":[0,0]})", 0),
       "size of its shape overflows"},
      {One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
       "takes 8 bytes, but data_offsets hold 4"},
      {One(R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})", 1),
       "data_offsets [1, 0] run backwards"},
      {One(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})", 1), "must be [begin, end], found 1"},
      {One(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,2]})", 1),
       "must be [begin, end], found 3"},
      {One(R"({"dtype":"U8","shape":[1],"data_offsets":[-1,0]})", 1),
       "'data_offsets' must hold integers from 0 on"},
      {One(R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]})", 2), "a hole"},
      {One(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 1),
       "ends at 2 of a buffer of 1 bytes"},
      {One(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 5),
       "3 bytes of the buffer belong to no tensor"},
      {SafetensorsFile(
           R"({"s":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"t":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
           4),
       "tensor 't': begins at 2 of the buffer, but the data before it end at 3 (an overlap)"},
      {SafetensorsFile(
           R"({"s":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
           2),
       "an overlap"},
  };
  EXPECT_GE(files.size(), 20u);
  for (const BadFile& bad : files) {
    const Result<Safetensors> file = ParseText(bad.bytes);
    const std::string head = bad.bytes.substr(0, 120);
    ASSERT_FALSE(file.ok()) << head;
    EXPECT_THAT(file.status().message(), HasSubstr(bad.words)) << head;
    EXPECT_THAT(file.status().message(), testing::StartsWith("x.safetensors: "));
    EXPECT_EQ(file.status().code(), bad.code) << head;
  }
}

}  // namespace
}  // namespace weft::io
