#include "io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "io/test_files.h"
#include "tensor/quant_format.h"

namespace weft::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string MessageOf(const std::string& path) {
  const auto checkpoint = Checkpoint::Open(path);
  return checkpoint.ok() ? "opened" : checkpoint.status().message();
}

std::string OneTensor(std::string_view name, size_t bytes) {
  return SafetensorsFile(
      fmt::format(R"({{"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})", name, bytes,
                  bytes),
      bytes);
}

TEST(Checkpoint, OpensAGgufFile) {
  TempDir dir;
  const std::string path = dir.Write("m.gguf", TinyLlamaGguf().Build());
  const auto opened = Checkpoint::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Checkpoint& c = *opened.value();
  EXPECT_EQ(c.format(), Format::kGguf);
  EXPECT_EQ(c.path(), path);
  EXPECT_EQ(c.config().family, "llama");
  ASSERT_NE(c.gguf(), nullptr);
  EXPECT_EQ(c.gguf()->Find("tokenizer.ggml.tokens")->AsStrings()->at(4), "e");
  const Tensor* embedding = c.Find("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_THAT(embedding->shape, ElementsAre(5, 64));
  EXPECT_EQ(c.Find("lm_head.weight"), nullptr);
  EXPECT_EQ(c.tensors().size(), 2u);
}

TEST(Checkpoint, DroppedPagesComeBackAlike) {
  TempDir dir;
  const std::string path = dir.Write("m.gguf", TinyLlamaGguf().Build());
  const auto c = Checkpoint::Open(path).value();
  const Tensor& tensor = *c->Find("token_embd.weight");
  std::vector<std::byte> before(tensor.data, tensor.data + tensor.bytes);
  c->DropPages(tensor);
  EXPECT_EQ(std::memcmp(before.data(), tensor.data, before.size()), 0);
  c->DropPages(tensor.data + 3, tensor.bytes - 3);
  EXPECT_EQ(std::memcmp(before.data(), tensor.data, before.size()), 0);
}

TEST(Checkpoint, OpensADirectoryWithOneFile) {
  TempDir dir;
  dir.Write("config.json", kTinyLlamaConfig);
  dir.Write("model.safetensors", OneTensor("model.norm.weight", 9));
  const auto opened = Checkpoint::Open(dir.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Checkpoint& c = *opened.value();
  EXPECT_EQ(c.format(), Format::kSafetensors);
  EXPECT_EQ(c.gguf(), nullptr);
  ASSERT_NE(c.Find("model.norm.weight"), nullptr);
  EXPECT_EQ(c.Find("model.norm.weight")->data[8], static_cast<std::byte>(8 * 5 + 3));
  c.DropPages(*c.Find("model.norm.weight"));
}

TEST(Checkpoint, OpensAShardedDirectory) {
  TempDir dir;
  dir.Write("config.json", kTinyLlamaConfig);
  dir.Write("model-1.safetensors", OneTensor("a", 3));
  dir.Write(
      "model-2.safetensors",
      SafetensorsFile(
          R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"extra":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2));
  dir.Write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":99999},"weight_map":{"b":"model-2.safetensors","a":"model-1.safetensors"}})");
  const auto opened = Checkpoint::Open(dir.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Checkpoint& c = *opened.value();
  ASSERT_EQ(c.tensors().size(), 2u);
  EXPECT_EQ(c.tensors()[0].name, "b");
  EXPECT_EQ(c.Find("a")->bytes, 3);
  EXPECT_EQ(c.Find("extra"), nullptr);
  EXPECT_THAT(c.config().notes,
              ElementsAre(HasSubstr("1 tensors of its files are not in the index")));
}

TEST(Checkpoint, RefusesEachBadIndexWithTheReason) {
  struct Case {
    const char* index;
    const char* words;
  };
  for (const Case& bad :
       {Case{"{", "index.json: bad JSON"},
        {"[]", "must hold an object"},
        {"{}", "'weight_map' is missing"},
        {R"({"weight_map":[]})", "'weight_map' must be an object"},
        {R"({"weight_map":{}})", "'weight_map' is empty"},
        {R"({"weight_map":{"a":1}})", "tensor 'a' must be mapped to a file name"},
        {R"({"weight_map":{"a":""}})", "must be mapped to a file name"},
        {R"({"weight_map":{"a":".."}})", "must be mapped to a file name"},
        {R"({"weight_map":{"a":"../secret"}})", "without directories, found \"../secret\""},
        {R"({"weight_map":{"a":"/etc/passwd"}})", "without directories"},
        {R"({"weight_map":{"a":"m\u0000x"}})", "without directories"},
        {R"({"weight_map":{"a":"absent.safetensors"}})", "absent.safetensors: no such file"},
        {R"({"weight_map":{"z":"m.safetensors"}})",
         "places tensor 'z' in m.safetensors, which does not hold it"},
        {R"({"weight_map":{"a":"m.safetensors","a":"m.safetensors"}})", "'a' twice"}}) {
    TempDir dir;
    dir.Write("config.json", kTinyLlamaConfig);
    dir.Write("m.safetensors", OneTensor("a", 3));
    dir.Write("model.safetensors.index.json", bad.index);
    EXPECT_THAT(MessageOf(dir.path()), HasSubstr(bad.words)) << bad.index;
  }
}

TEST(Checkpoint, MissingFilesAreNamed) {
  TempDir dir;
  EXPECT_THAT(MessageOf(dir / "nothing"), HasSubstr("nothing: no such file or directory"));
  EXPECT_THAT(MessageOf(dir / "nothing.gguf"), HasSubstr("nothing.gguf: no such file"));
  EXPECT_THAT(MessageOf(dir.path()), HasSubstr("config.json: no such file"));
  dir.Write("config.json", kTinyLlamaConfig);
  EXPECT_THAT(MessageOf(dir.path()),
              HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  dir.Write("weights.bin", "x");
  EXPECT_THAT(MessageOf(dir / "weights.bin"),
              HasSubstr("neither a directory with config.json nor a .gguf file"));
  dir.Write("empty.gguf", "");
  EXPECT_THAT(MessageOf(dir / "empty.gguf"), HasSubstr("empty.gguf: the file is empty"));
}

// A model cut in three, the way llama.cpp's splitter does: each part a whole file.
struct Parts {
  int count = 3;
  int count_key = 3;
  int number_of_second = 1;
  int total = 4;
  const char* third_tensor = "c";
  void Write(const TempDir& dir) const {
    for (int i = 0; i < count; ++i) {
      GgufWriter w = i == 0 ? TinyLlamaGguf() : GgufWriter();
      const auto u16 = [&](const char* key, int v) {
        w.Pair(key, 2, ByteWriter().Put(static_cast<uint16_t>(v)).bytes());
      };
      u16("split.no", i == 1 ? number_of_second : i);
      u16("split.count", count_key);
      w.Pair("split.tensors.count", 5, ByteWriter().Put<int32_t>(total).bytes());
      if (i > 0) w.Tensor(i == 1 ? "b" : third_tensor, DType::kF32, {4});
      dir.Write(fmt::format("m-{:05d}-of-00003.gguf", i + 1), w.Build());
    }
  }
};

TEST(Checkpoint, OpensASplitGguf) {
  TempDir dir;
  Parts{}.Write(dir);
  const auto opened = Checkpoint::Open(dir / "m-00001-of-00003.gguf");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened.value()->tensors().size(), 4u);
  const Tensor* c = opened.value()->Find("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->data[1], static_cast<std::byte>(8));
  opened.value()->DropPages(*c);
  EXPECT_EQ(opened.value()->config().layers, 2);
}

TEST(Checkpoint, RefusesEachBadSplitWithTheReason) {
  struct Case {
    Parts parts;
    const char* file;
    const char* words;
  };
  for (const Case& bad :
       {Case{{}, "m-00002-of-00003.gguf", "is part 2 of 3; give the first part"},
        {{.count = 2}, "m-00001-of-00003.gguf", "m-00003-of-00003.gguf: no such file"},
        {{.count_key = 4}, "m-00001-of-00003.gguf", "'split.count' must be 3, found 4"},
        {{.number_of_second = 2},
         "m-00001-of-00003.gguf",
         "m-00002-of-00003.gguf: 'split.no' must be 1, found 2"},
        {{.total = 5},
         "m-00001-of-00003.gguf",
         "'split.tensors.count' must be 4, as the parts hold, found 5"},
        {{.third_tensor = "b"}, "m-00001-of-00003.gguf", "two files hold a tensor 'b'"}}) {
    TempDir dir;
    bad.parts.Write(dir);
    EXPECT_THAT(MessageOf(dir / bad.file), HasSubstr(bad.words));
  }
  TempDir dir;
  Parts{}.Write(dir);
  std::filesystem::rename(dir / "m-00001-of-00003.gguf", dir / "renamed.gguf");
  EXPECT_THAT(MessageOf(dir / "renamed.gguf"),
              HasSubstr("is one of 3 parts, but its name does not end in"));
}

// Counts beyond 2^31 must survive every int: a hole in a sparse file costs no disk.
TEST(Checkpoint, TensorsMayHaveMoreThanTwoToThe31Elements) {
  constexpr int64_t kElements = (int64_t{1} << 31) + 256;
  TempDir dir;
  GgufWriter w;
  w.Describe("big", {256, kElements / 256}, 8, 0);  // Q8_0
  const std::string head = w.Build();
  const std::string path = dir.Write("big.gguf", head);
  const int64_t bytes = kElements / 32 * 34;
  if (::truncate(path.c_str(), static_cast<off_t>(head.size()) + bytes) != 0) {
    GTEST_SKIP() << "no sparse files of 2 GiB here";
  }
  {
    // The last block: d = 1 (0x3c00), q = 0, 1, ..., 31.
    std::FILE* file = std::fopen(path.c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    std::string block("\x00\x3c", 2);
    for (int i = 0; i < 32; ++i) block += static_cast<char>(i);
    std::fseek(file, -34, SEEK_END);
    std::fwrite(block.data(), 1, block.size(), file);
    std::fclose(file);
  }
  const Mapping mapping = Mapping::Open(path).value();
  const Result<Gguf> gguf = Gguf::Parse(mapping.bytes(), path);
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  const Tensor& tensor = gguf.value().tensors()[0];
  EXPECT_EQ(tensor.bytes, bytes);
  std::vector<float> row(256);
  DequantiseRow(tensor.dtype, tensor.data + BytesOf(tensor.dtype, kElements - 256), 256,
                row.data());
  EXPECT_EQ(row[0], 0.0f);
  EXPECT_EQ(row[255], 31.0f);
}

}  // namespace
}  // namespace weft::io
