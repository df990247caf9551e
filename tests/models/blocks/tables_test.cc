// Leaf tables come from the tensors alone (docs/numerics.md 4).
#include "models/blocks/tables.h"

#include <gtest/gtest.h>

#include "models/model.h"
#include "support/sparse_checkpoint.h"

namespace weft::models {
namespace {

TEST(Tables, AHeadAtomIsTheFewestWholeHeadsThatABlockDivides) {
  for (int64_t head_dim = 2; head_dim <= 256; head_dim += 2) {
    for (const int64_t block : {2, 32, 256}) {
      int64_t heads = 1;
      while (heads * head_dim % block != 0) ++heads;
      EXPECT_EQ(HeadAtom(head_dim, block), heads * head_dim) << head_dim << " " << block;
    }
  }
}

TEST(Tables, AWidthAtomIsTheFewestThatBothDivide) {
  for (const int64_t block : {2, 32, 64, 256}) {
    int64_t width = 32;
    while (width % block != 0) width += 32;
    EXPECT_EQ(WidthAtom(block), width);
  }
}

TEST(Tables, BlocksAreOfTheFormatAndOfWhatItIsMultipliedWith) {
  for (const bool int8 : {false, true}) {
    for (const DType plain : {DType::kBF16, DType::kF16, DType::kF32}) {
      EXPECT_EQ(QuantBlockOf(plain, int8), 2) << "bfloat16 pairs";
    }
    for (const DType block32 : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
      EXPECT_EQ(QuantBlockOf(block32, int8), 32);
    }
    EXPECT_EQ(QuantBlockOf(DType::kQ6_K, int8), 256);
  }
}

std::vector<int64_t> Starts(const graph::Graph& g, std::string_view name) {
  for (const graph::AxisTable& t : g.tables) {
    if (t.name == name) return {t.leaves.starts().begin(), t.leaves.starts().end()};
  }
  ADD_FAILURE() << "no table " << name;
  return {};
}

graph::Graph BodyOf(const support::SparseCheckpoint& checkpoint) {
  auto model = FindModel((*checkpoint).config());
  EXPECT_TRUE(model.ok());
  auto body = (*model)->build_body(*checkpoint, {});
  EXPECT_TRUE(body.ok()) << body.status().message();
  return std::move(body).value();
}

TEST(Tables, EachAxisIsCutByTheWeightThatSumsOverIt) {
  // q and the gate are plain; o_proj is in blocks of 32, so two heads of 16 stay together, and
  // down_proj in blocks of 256.
  const support::DecoderSpec spec{.layers = 1,
                                  .hidden = 256,
                                  .width = 512,
                                  .heads = 6,
                                  .kv_heads = 3,
                                  .vocab = 100,
                                  .dtype = DType::kF16};
  std::vector<support::TensorSpec> tensors = support::GgufTensors(spec, DType::kF16);
  for (support::TensorSpec& t : tensors) {
    if (t.name == "blk.0.attn_output.weight") t.dtype = DType::kQ4_0;
    if (t.name == "blk.0.ffn_down.weight") t.dtype = DType::kQ6_K;
  }
  const graph::Graph g = BodyOf(support::OpenSparseGguf(support::GgufMetadata(spec), tensors));
  EXPECT_EQ(Starts(g, "L00.heads"), (std::vector<int64_t>{0, 32, 64, 96}));
  EXPECT_EQ(Starts(g, "L00.kv_heads"), (std::vector<int64_t>{0, 16, 32, 48}))
      << "one leaf a kv head";
  EXPECT_EQ(Starts(g, "L00.ffn"), (std::vector<int64_t>{0, 256, 512}));
  EXPECT_EQ(Starts(g, "vocab"), (std::vector<int64_t>{0, 32, 64, 96, 100}));
}

TEST(Tables, AtMostSixteenLeavesAndTheLastMayBeShort) {
  const graph::Graph g = BodyOf(support::OpenSparse(
      {.layers = 1, .width = 1000, .heads = 24, .kv_heads = 24, .vocab = 2000}));
  const std::vector<int64_t> heads = Starts(g, "L00.heads"), ffn = Starts(g, "L00.ffn");
  ASSERT_EQ(heads.size(), 17u);
  EXPECT_EQ(heads[1], 16);  // floor(1 * 24 / 16) heads of 16
  EXPECT_EQ(heads[2], 48);
  EXPECT_EQ(heads[16], 384);
  ASSERT_EQ(ffn.size(), 17u);
  EXPECT_EQ(ffn[15], 30 * 32) << "floor(15 * 32 / 16) atoms";
  EXPECT_EQ(ffn[16], 1000);
  EXPECT_EQ(Starts(g, "L00.kv_heads").size(), 25u) << "kv heads are never summed over: no limit";
}

}  // namespace
}  // namespace weft::models
