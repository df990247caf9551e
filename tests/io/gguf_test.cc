#include "io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<Gguf> Parse(std::string_view bytes) { return Gguf::Parse(BytesOfText(bytes), "x.gguf"); }

// Every value type once, an own alignment, and tensors whose sizes need padding.
GgufWriter GoodFile() {
  GgufWriter w;
  w.Alignment(64)
      .U32("general.alignment", 64)
      .Pair("u8", 0, ByteWriter().Put<uint8_t>(200).bytes())
      .Pair("i8", 1, ByteWriter().Put<int8_t>(-3).bytes())
      .Pair("u16", 2, ByteWriter().Put<uint16_t>(60000).bytes())
      .Pair("i16", 3, ByteWriter().Put<int16_t>(-300).bytes())
      .Pair("i32", 5, ByteWriter().Put<int32_t>(-70000).bytes())
      .F32("f32", 1.5f)
      .Pair("bool", 7, ByteWriter().Put<uint8_t>(9).bytes())
      .String("string", "weft")
      .Pair("u64", 10, ByteWriter().Put<uint64_t>(~uint64_t{0}).bytes())
      .Pair("i64", 11, ByteWriter().Put<int64_t>(-5'000'000'000).bytes())
      .Pair("f64", 12, ByteWriter().Put<double>(0.1).bytes())
      .Strings("strings", {"a", "", "ccc"})
      .I32s("ints", {3, -4})
      .Pair("bools", 9,
            ByteWriter().Put<uint32_t>(7).Put<uint64_t>(2).Put<uint8_t>(0).Put<uint8_t>(1).bytes())
      .Pair("empty", 9, ByteWriter().Put<uint32_t>(6).Put<uint64_t>(0).bytes())
      .Tensor("a", DType::kF32, {3, 5})
      .Tensor("b", DType::kQ4_1, {2, 64})
      .Tensor("none", DType::kF16, {0, 4})
      .Tensor("scalar", DType::kBF16, {})
      .Tensor("k", DType::kQ6_K, {1, 2, 256});
  return w;
}

TEST(Gguf, ReadsEveryKindOfValue) {
  const std::string file = GoodFile().Build();
  const Result<Gguf> gguf = Parse(file);
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  const Gguf& g = gguf.value();
  EXPECT_EQ(g.version(), 3u);
  EXPECT_EQ(g.Find("u8")->AsInt(), 200);
  EXPECT_EQ(g.Find("i8")->AsInt(), -3);
  EXPECT_EQ(g.Find("u16")->AsInt(), 60000);
  EXPECT_EQ(g.Find("i16")->AsInt(), -300);
  EXPECT_EQ(g.Find("i32")->AsInt(), -70000);
  EXPECT_EQ(g.Find("i64")->AsInt(), -5'000'000'000);
  EXPECT_EQ(g.Find("u64")->AsInt(), std::nullopt) << "above int64";
  EXPECT_EQ(g.Find("f32")->AsInt(), std::nullopt) << "no silent rounding";
  EXPECT_EQ(g.Find("f32")->AsDouble(), 1.5);
  EXPECT_EQ(g.Find("f64")->AsDouble(), 0.1);
  EXPECT_EQ(g.Find("u8")->AsDouble(), 200.0);
  EXPECT_EQ(g.Find("bool")->AsBool(), true);
  EXPECT_EQ(g.Find("bool")->AsInt(), std::nullopt);
  EXPECT_EQ(g.Find("string")->AsString(), "weft");
  EXPECT_THAT(*g.Find("strings")->AsStrings(), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(*g.Find("ints")->AsInts(), ElementsAre(3, -4));
  EXPECT_EQ(g.Find("bools")->size(), 2u);
  EXPECT_EQ(g.Find("bools")->AsInts(), std::nullopt);
  EXPECT_EQ(g.Find("empty")->size(), 0u);
  EXPECT_TRUE(g.Find("empty")->AsFloats()->empty());
  EXPECT_EQ(g.Find("absent"), nullptr);
  EXPECT_EQ(g.Find("strings")->type_name(), "array of string");
  EXPECT_EQ(g.Find("ints")->type_name(), "array of i32");
  EXPECT_EQ(g.Find("u64")->type_name(), "u64");
}

TEST(Gguf, FindsTensorsAtAlignedOffsetsWithOutermostDimensionFirst) {
  const std::string file = GoodFile().Build();
  const Result<Gguf> gguf = Parse(file);
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  const auto tensors = gguf.value().tensors();
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_THAT(tensors[0].shape, ElementsAre(3, 5));
  EXPECT_THAT(tensors[4].shape, ElementsAre(1, 2, 256));
  EXPECT_EQ(tensors[0].bytes, 60);
  EXPECT_EQ(tensors[1].bytes, 80);
  EXPECT_EQ(tensors[2].bytes, 0);
  EXPECT_EQ(tensors[3].bytes, 2);
  EXPECT_EQ(tensors[4].bytes, 420);
  for (const Tensor& tensor : tensors) {
    EXPECT_EQ((tensor.data - BytesOfText(file).data()) % 64, 0) << tensor.name;
    for (int64_t i = 0; i < tensor.bytes; ++i) {
      ASSERT_EQ(tensor.data[i], static_cast<std::byte>(i * 7 + 1)) << tensor.name << " byte " << i;
    }
  }
}

TEST(Gguf, VersionTwoIsReadAlike) { EXPECT_TRUE(Parse(GoodFile().Version(2).Build()).ok()); }

TEST(Gguf, AFileWithoutTensorsNeedsNoPadding) {
  ByteWriter w;
  w.Raw("GGUF").Put<uint32_t>(3).Put<int64_t>(0).Put<int64_t>(0);
  EXPECT_TRUE(Parse(w.bytes()).ok());
}

// Each prefix is copied into a block of exactly its size, so that a sanitizer sees any read beyond.
TEST(Gguf, EveryPrefixOfAGoodFileIsRefused) {
  const std::string file = GoodFile().Build();
  const size_t needed =
      file.size() - 28;  // the last tensor's padding may be missing: 420 = 448 - 28
  for (size_t size = 0; size < file.size(); ++size) {
    const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
    std::memcpy(copy.get(), file.data(), size);
    const Result<Gguf> gguf = Gguf::Parse({copy.get(), size}, "cut.gguf");
    ASSERT_EQ(gguf.ok(), size >= needed) << "at " << size;
    if (!gguf.ok()) {
      ASSERT_EQ(gguf.status().code(), StatusCode::kInvalid);
      ASSERT_THAT(gguf.status().message(), HasSubstr("cut.gguf: "));
    }
  }
}

// One byte changed anywhere: whatever the answer, no read outside and no huge allocation.
TEST(Gguf, AnyOneByteMayBeWrong) {
  const std::string file = GoodFile().Build();
  for (size_t at = 0; at < file.size(); ++at) {
    for (const uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      const std::unique_ptr<std::byte[]> copy(new std::byte[file.size()]);
      std::memcpy(copy.get(), file.data(), file.size());
      copy[at] = static_cast<std::byte>(value);
      const Result<Gguf> gguf = Gguf::Parse({copy.get(), file.size()}, "x");
      if (!gguf.ok()) continue;
      for (const Tensor& tensor : gguf.value().tensors()) {
        ASSERT_GE(tensor.data, copy.get());
        ASSERT_LE(tensor.data + tensor.bytes, copy.get() + file.size());
      }
    }
  }
}

struct BadFile {
  const char* what;
  std::string bytes;
  const char* words;
  StatusCode code = StatusCode::kInvalid;
};

std::string ArrayOf(uint32_t type, uint64_t count) {
  return ByteWriter().Put(type).Put(count).bytes();
}

std::vector<BadFile> BadFiles() {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::string name63(63, 'n');
  const std::string name64(64, 'n');
  std::vector<BadFile> bad{
      {"empty", "", "inside the magic bytes"},
      {"magic", GgufWriter().Magic("GGML").Build(), "does not begin with 'GGUF'"},
      {"version 0", GgufWriter().Version(0).Build(), "version 0"},
      {"version 1", GgufWriter().Version(1).Build(), "version 1;", StatusCode::kUnsupported},
      {"version 4", GgufWriter().Version(4).Build(), "version 4;", StatusCode::kUnsupported},
      {"big endian", GgufWriter().Version(0x03000000).Build(), "other endianness",
       StatusCode::kUnsupported},
      {"negative tensors", GgufWriter().TensorCount(-1).Build(), "number of tensors is -1"},
      {"negative pairs", GgufWriter().PairCount(-7).Build(), "number of metadata pairs is -7"},
      {"many tensors", GgufWriter().TensorCount(kHuge).Build(), "number of tensors is 4611"},
      {"many pairs", GgufWriter().PairCount(kHuge).Build(), "number of metadata pairs is 4611"},
      {"pairs beyond the file", GgufWriter().PairCount(60'000).Build(),
       "60000 metadata pairs cannot fit"},
      {"tensors beyond the file", GgufWriter().TensorCount(1'000'000).Build(),
       "1000000 tensors cannot fit"},
      {"empty key", GgufWriter().U32("", 1).Build(), "empty key"},
      {"key twice", GgufWriter().U32("k", 1).F32("k", 2).Build(), "key 'k' twice"},
      {"key length 2^63",
       GgufWriter()
           .RawInfo(ByteWriter().Put<uint64_t>(uint64_t{1} << 63).Put<uint64_t>(0).bytes())
           .PairCount(1)
           .TensorCount(0)
           .Build(),
       "a metadata key of 9223372036854775808 bytes"},
      {"key longer than the file",
       GgufWriter()
           .RawInfo(ByteWriter().Put<uint64_t>(4000).Put<uint64_t>(0).bytes())
           .PairCount(1)
           .TensorCount(0)
           .Build(),
       "inside a metadata key: 4000 bytes"},
      {"value type 13", GgufWriter().Pair("k", 13, "abcd").Build(), "'k': unknown value type 13"},
      {"value type -1", GgufWriter().Pair("k", ~0u, "abcd").Build(), "unknown value type"},
      {"string beyond the file",
       GgufWriter().Pair("k", 8, ByteWriter().Put<uint64_t>(999).bytes()).Build(),
       "inside a string value"},
      {"string of 2^40",
       GgufWriter().Pair("k", 8, ByteWriter().Put(uint64_t{1} << 40).bytes()).Build(),
       "exceeds the limit of 1073741824"},
      {"array of arrays", GgufWriter().Pair("k", 9, ArrayOf(9, 1) + ArrayOf(0, 0)).Build(),
       "array of arrays"},
      {"array type", GgufWriter().Pair("k", 9, ArrayOf(77, 0)).Build(),
       "unknown array element type 77"},
      {"array of 2^31", GgufWriter().Pair("k", 9, ArrayOf(0, uint64_t{1} << 31)).Build(),
       "exceeds the limit"},
      {"array count wraps", GgufWriter().Pair("k", 9, ArrayOf(12, (uint64_t{1} << 61) + 1)).Build(),
       "exceeds the limit"},
      {"array beyond the file", GgufWriter().Pair("k", 9, ArrayOf(5, 1000)).Build(),
       "1000 array elements cannot fit"},
      {"strings beyond the file", GgufWriter().Pair("k", 9, ArrayOf(8, 1000)).Build(),
       "1000 array elements cannot fit"},
      {"alignment type", GgufWriter().F32("general.alignment", 32).Build(),
       "must be a u32, found f32"},
      {"alignment u64",
       GgufWriter().Pair("general.alignment", 10, ByteWriter().Put<uint64_t>(32).bytes()).Build(),
       "must be a u32, found u64"},
      {"alignment 0", GgufWriter().U32("general.alignment", 0).Build(), "power of two, found 0"},
      {"alignment 48", GgufWriter().U32("general.alignment", 48).Build(), "power of two, found 48"},
      {"empty tensor name", GgufWriter().Tensor("", DType::kF32, {1}).Build(), "empty name"},
      {"name of 64", GgufWriter().Tensor(name64, DType::kF32, {1}).Build(), "of 64 bytes"},
      {"tensor twice",
       GgufWriter().Tensor("t", DType::kF32, {1}).Tensor("t", DType::kF32, {1}).Build(),
       "two tensors 't'"},
      {"5 dimensions", GgufWriter().Describe("t", {1, 1, 1, 1, 1}, 0, 0).Build(),
       "'t': 5 dimensions"},
      {"2^32-1 dimensions",
       GgufWriter()
           .RawInfo(ByteWriter().Text("t").Put(~0u).Put<uint64_t>(0).Put<uint64_t>(0).bytes())
           .Build(),
       "4294967295 dimensions"},
      {"negative dimension", GgufWriter().Describe("t", {4, -2}, 0, 0).Build(),
       "dimension 1 is negative: -2"},
      {"product overflows", GgufWriter().Describe("t", {kHuge, 4}, 0, 0).Build(),
       "product of its dimensions overflows"},
      {"overflow behind a zero", GgufWriter().Describe("t", {kHuge, 4, 0}, 0, 0).Build(),
       "product of its dimensions overflows"},
      {"bytes overflow", GgufWriter().Describe("t", {kHuge}, 0, 0).Build(),
       "size in bytes overflows"},
      {"sum overflows",
       GgufWriter()
           .Describe("s", {1}, 0, 0)
           .Describe("t", {int64_t{1} << 61}, 24, 32)
           .Describe("u", {kHuge}, 24, 32 + (uint64_t{1} << 61))
           .Describe("v", {kHuge}, 24, 32 + 3 * (uint64_t{1} << 61))
           .Build(),
       "sum of the tensor sizes overflows"},
      {"padding overflows", GgufWriter().Describe("t", {INT64_MAX}, 24, 0).Build(),
       "sum of the tensor sizes overflows"},
      {"unknown type", GgufWriter().Describe("t", {32}, 99, 0).Build(),
       "'t': unknown tensor type 99", StatusCode::kUnsupported},
      {"type -1", GgufWriter().Describe("t", {32}, ~0u, 0).Build(),
       "unknown tensor type 4294967295", StatusCode::kUnsupported},
      {"IQ2_XXS", GgufWriter().Describe("blk.0.w", {256}, 16, 0).Build(),
       "'blk.0.w': tensor type IQ2_XXS (16)", StatusCode::kUnsupported},
      {"removed type", GgufWriter().Describe("t", {32}, 4, 0).Build(), "type 4 was removed",
       StatusCode::kUnsupported},
      {"row of half a block", GgufWriter().Describe("t", {48, 2}, 2, 0).Build(),
       "row of 48 elements is no whole number of Q4_0 blocks of 32"},
      {"scalar of blocks", GgufWriter().Describe("t", {}, 2, 0).Build(), "row of 1 elements"},
      {"K row of 128", GgufWriter().Describe("t", {128}, 12, 0).Build(), "Q4_K blocks of 256"},
      {"first offset", GgufWriter().Describe("t", {8}, 0, 32).Data(std::string(64, 'x')).Build(),
       "data offset 32, but the tensors before it end at 0"},
      {"hole",
       GgufWriter()
           .Tensor("s", DType::kF32, {8})
           .Describe("t", {8}, 0, 64)
           .Data(std::string(96, 'x'))
           .Build(),
       "data offset 64, but the tensors before it end at 32"},
      {"overlap", GgufWriter().Tensor("s", DType::kF32, {16}).Describe("t", {8}, 0, 32).Build(),
       "data offset 32, but the tensors before it end at 64"},
      {"data beyond the file",
       GgufWriter().Describe("t", {1000}, 0, 0).Data(std::string(32, 'x')).Build(),
       "tensor 't': its 4000 bytes at offset 0 end beyond the file's"},
      {"control letters in a key", GgufWriter().Pair("a\x1b[2J", 13, "").Build(), "'a\\x1b[2J'"},
  };
  return bad;
}

TEST(Gguf, RefusesEachBadFileWithTheReason) {
  const std::vector<BadFile> files = BadFiles();
  EXPECT_GE(files.size(), 40u);
  for (const BadFile& bad : files) {
    const Result<Gguf> gguf = Parse(bad.bytes);
    ASSERT_FALSE(gguf.ok()) << bad.what;
    EXPECT_THAT(gguf.status().message(), HasSubstr(bad.words)) << bad.what;
    EXPECT_THAT(gguf.status().message(), testing::StartsWith("x.gguf: ")) << bad.what;
    EXPECT_EQ(gguf.status().code(), bad.code) << bad.what << ": " << gguf.status().message();
  }
}

TEST(Gguf, LongestNameIsAccepted) {
  EXPECT_TRUE(Parse(GgufWriter().Tensor(std::string(63, 'n'), DType::kF32, {1}).Build()).ok());
}

TEST(Gguf, MovingItKeepsItsViews) {
  const std::string file = GoodFile().Build();
  Result<Gguf> first = Parse(file);
  ASSERT_TRUE(first.ok());
  const Gguf second = std::move(first).value();
  EXPECT_EQ(second.Find("string")->AsString(), "weft");
  EXPECT_EQ(second.tensors()[1].name, "b");
}

}  // namespace
}  // namespace weft::io
