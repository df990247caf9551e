#include "models/blocks/source.h"

#include <gtest/gtest.h>

#include "support/sparse_checkpoint.h"

namespace weft::models {
namespace {

using graph::Dim;

class SourceTest : public testing::Test {
 protected:
  support::SparseCheckpoint checkpoint_ = support::OpenSparse(
      support::DecoderSpec{}.Config(), {{"a", DType::kBF16, {64, 32}},
                                        {"b", DType::kF16, {64}},
                                        {"c", DType::kI8, {64, 32}},
                                        {"e", DType::kI8, {64}},
                                        {"model.embed_tokens.weight", DType::kBF16, {100, 64}}});
  graph::Builder builder_{"test", DType::kBF16};
  ParamSource params_{&builder_, checkpoint_.file.get()};
};

TEST_F(SourceTest, AMatrixKeepsItsFormatAndAVectorIsFloat32) {
  auto a = params_.Matrix("a", Dim::C(64), Dim::C(32));
  auto b = params_.Vector("b", Dim::C(64));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*params_.FormatOf("b"), DType::kF16);
  const graph::Graph g = builder_.Finish({});
  EXPECT_EQ(g.value(*a).dtype, DType::kBF16);
  EXPECT_EQ(g.value(*a).name, "a");
  EXPECT_EQ(g.value(*b).dtype, DType::kF32);
}

TEST_F(SourceTest, AskedForTwiceItIsThereOnce) {
  EXPECT_EQ(*params_.Matrix("a", Dim::C(64), Dim::C(32)),
            *params_.Matrix("a", Dim::C(64), Dim::C(32)));
}

TEST_F(SourceTest, SaysWhichTensorIsWrongAndWhatItWants) {
  const std::string file = checkpoint_.folder->path();
  EXPECT_EQ(params_.Matrix("d", Dim::C(64), Dim::C(32)).status().message(),
            file + ": tensor 'd' is missing");
  EXPECT_EQ(params_.Vector("d", Dim::C(64)).status().message(), file + ": tensor 'd' is missing");
  EXPECT_EQ(params_.FormatOf("d").status().message(), file + ": tensor 'd' is missing");
  EXPECT_EQ(params_.Matrix("a", Dim::C(32), Dim::C(64)).status().message(),
            file + ": tensor 'a' has shape [64, 32], [32, 64] expected");
  EXPECT_EQ(params_.Vector("a", Dim::C(64)).status().message(),
            file + ": tensor 'a' has shape [64, 32], [64] expected");
  EXPECT_EQ(params_.Matrix("b", Dim::C(64), Dim::C(1)).status().message(),
            file + ": tensor 'b' has shape [64], [64, 1] expected");
  constexpr const char* kFormats =
      "; a weight is bfloat16, float16, float32 or a GGUF block format";
  EXPECT_EQ(params_.Matrix("c", Dim::C(64), Dim::C(32)).status().message(),
            file + ": tensor 'c' is int8" + kFormats);
  EXPECT_EQ(params_.Vector("e", Dim::C(64)).status().message(),
            file + ": tensor 'e' is int8" + kFormats);
}

}  // namespace
}  // namespace weft::models
