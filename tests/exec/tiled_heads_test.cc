// Hybrids from GGUF whose out_proj has blocks that reach over heads: their value heads stay as the
// file has them.
// Covers src/exec/rank_tables.cc
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "support/checkpoints.h"
#include "support/value_checkpoint.h"

namespace weft::exec {
namespace {

using support::ValueTensor;

constexpr int64_t kTiledHidden = 64, kHeads = 4, kKeys = 2, kDim = 16, kValues = kHeads * kDim,
                  kFfn = 64, kTiledVocab = 96;

// A small qwen35 of random weights; ssm_out in blocks of 32 columns, two heads each, or the same
// values as float32. swapped: the key heads of the first layer have changed places.
support::SparseCheckpoint Hybrid(bool blocks, bool swapped = false) {
  io::GgufWriter w;
  w.String("general.architecture", "qwen35");
  for (const auto& [key, n] : {std::pair<const char*, uint32_t>{"block_count", 4},
                               {"context_length", 256},
                               {"embedding_length", kTiledHidden},
                               {"feed_forward_length", kFfn},
                               {"attention.head_count", 2},
                               {"attention.head_count_kv", 1},
                               {"attention.key_length", 16},
                               {"attention.value_length", 16},
                               {"rope.dimension_count", 8},
                               {"vocab_size", kTiledVocab},
                               {"ssm.group_count", kKeys},
                               {"ssm.time_step_rank", kHeads},
                               {"ssm.state_size", kDim},
                               {"ssm.conv_kernel", 4},
                               {"ssm.inner_size", kValues},
                               {"full_attention_interval", 4}}) {
    w.U32(fmt::format("qwen35.{}", key), n);
  }
  w.F32("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
  w.F32("qwen35.rope.freq_base", 10000.0f);
  Rng rng(5);
  std::vector<ValueTensor> tensors;
  const auto add = [&](std::string name, std::vector<int64_t> shape, float middle = 0) {
    ValueTensor t{std::move(name), DType::kF32, std::move(shape), {}};
    const float scale =
        t.shape.size() > 1 ? 2 / std::sqrt(static_cast<float>(t.shape.back())) : 0.3f;
    for (int64_t i = support::ElementsOf(t.shape); i > 0; --i)
      t.values.push_back(middle + scale * (static_cast<float>(rng.Below(2001)) / 1000 - 1));
    tensors.push_back(std::move(t));
    return &tensors.back();
  };
  add("token_embd.weight", {kTiledVocab, kTiledHidden});
  add("output_norm.weight", {kTiledHidden}, 1);
  for (int layer = 0; layer < 4; ++layer) {
    const std::string at = fmt::format("blk.{}.", layer);
    add(at + "attn_norm.weight", {kTiledHidden}, 1);
    add(at + "post_attention_norm.weight", {kTiledHidden}, 1);
    add(at + "ffn_gate.weight", {kFfn, kTiledHidden});
    add(at + "ffn_up.weight", {kFfn, kTiledHidden});
    add(at + "ffn_down.weight", {kTiledHidden, kFfn});
    if (layer == 3) {
      add(at + "attn_q.weight", {64, kTiledHidden});
      add(at + "attn_k.weight", {16, kTiledHidden});
      add(at + "attn_v.weight", {16, kTiledHidden});
      add(at + "attn_output.weight", {kTiledHidden, 32});
      add(at + "attn_q_norm.weight", {16}, 1);
      add(at + "attn_k_norm.weight", {16}, 1);
      continue;
    }
    ValueTensor* qkv = add(at + "attn_qkv.weight", {2 * kKeys * kDim + kValues, kTiledHidden});
    for (int64_t part = 0; swapped && layer == 0 && part < 2; ++part) {
      const auto first = qkv->values.begin() + part * kKeys * kDim * kTiledHidden,
                 second = first + kDim * kTiledHidden;
      std::swap_ranges(first, second, second);
    }
    add(at + "attn_gate.weight", {kValues, kTiledHidden});
    add(at + "ssm_beta.weight", {kHeads, kTiledHidden});
    add(at + "ssm_alpha.weight", {kHeads, kTiledHidden});
    add(at + "ssm_conv1d.weight", {2 * kKeys * kDim + kValues, 4});
    add(at + "ssm_a", {kHeads}, -0.5f);
    add(at + "ssm_dt.bias", {kHeads});
    add(at + "ssm_norm.weight", {kDim}, 1);
    ValueTensor* out = add(at + "ssm_out.weight", {kTiledHidden, kValues});
    // Values that a block of Q8_0 holds exactly: multiples of 1/128 with the largest at 127.
    for (size_t i = 0; i < out->values.size(); ++i)
      out->values[i] = i % 32 == 0 ? 127.0f / 128 : std::round(out->values[i] * 128) / 128;
    if (blocks) out->dtype = DType::kQ8_0;
  }
  return support::OpenValuesGguf(std::move(w), tensors);
}

struct Told {
  std::vector<std::vector<float>> logits;
  std::vector<uint64_t> hashes;
};

Told Logits(const io::Checkpoint& checkpoint, int ranks, int32_t chunk, bool reference = false) {
  ExecConfig config = support::SmallConfig(ranks);
  config.model_dtype = DType::kF32;
  config.int8_activations = false;
  config.reference = reference;
  const auto executor = support::MakeExecutor(checkpoint, config);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back((i * 37 + 11) % kTiledVocab);
  Told run;
  support::Forward(*executor, ids, chunk, [&](int32_t, std::span<const float> row, uint64_t hash) {
    run.logits.emplace_back(row.begin(), row.end());
    run.hashes.push_back(hash);
  });
  return run;
}

double RmsOf(const Told& a, const Told* b) {
  double sum = 0, count = 0;
  for (size_t t = 0; t < a.logits.size(); ++t) {
    for (size_t v = 0; v < a.logits[t].size(); ++v, ++count)
      sum += std::pow(a.logits[t][v] - (b == nullptr ? 0.0 : b->logits[t][v]), 2);
  }
  return std::sqrt(sum / count);
}

// The inputs of out_proj in blocks are rounded to bf16 (2^-8 at most), those of the float32 one are
// not: three layers, three roundings.
TEST(TiledHeads, GiveTheLogitsOfHeadsInOrder) {
  const auto tiled = Hybrid(true), ordered = Hybrid(false), swapped = Hybrid(true, true);
  ASSERT_TRUE(models::HasTiledHeads(*tiled, "model.layers.0."));
  ASSERT_FALSE(models::HasTiledHeads(*ordered, "model.layers.0."));
  const Told want = Logits(*ordered, 1, 64), got = Logits(*tiled, 1, 64),
             wrong = Logits(*swapped, 1, 64);
  ASSERT_EQ(got.logits.size(), 40u);
  const double bound = RmsOf(want, nullptr) * std::exp2(-8) * 3;
  EXPECT_LE(RmsOf(got, &want), bound);
  EXPECT_GT(RmsOf(wrong, &want), 10 * bound) << "keys of the wrong heads are not noticed";
}

TEST(TiledHeads, SameBitsOnAnyRanksAndInAnyChunks) {
  const auto tiled = Hybrid(true);
  const Told want = Logits(*tiled, 1, 64, /*reference=*/true);
  for (const auto& [ranks, chunk] :
       {std::pair<int, int32_t>{1, 64}, {2, 64}, {2, 7}, {3, 16}, {4, 1}}) {
    EXPECT_EQ(Logits(*tiled, ranks, chunk).hashes, want.hashes)
        << ranks << " ranks, chunks of " << chunk;
  }
}

}  // namespace
}  // namespace weft::exec
