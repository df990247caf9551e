// Experts of quantised weights where rows are cut: int8 rows, scales and sums go from their owners
// to their experts.
// Covers src/exec/bind_exchanges.cc src/exec/exchange_runners.h
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "exec/cpu_target.h"
#include "support/checkpoints.h"
#include "support/value_checkpoint.h"

namespace weft::exec {
namespace {

constexpr int64_t kHidden = 64, kQuery = 64, kKey = 32, kExperts = 6, kWidth = 32, kShared = 64,
                  kVocab = 96;

// Two layers of attention and experts, Q8_0 but for norms and routers.
support::SparseCheckpoint Model() {
  io::GgufWriter w;
  w.String("general.architecture", "qwen35moe");
  for (const auto& [key, n] :
       std::map<std::string, uint32_t>{{"block_count", 2},
                                       {"context_length", 256},
                                       {"embedding_length", kHidden},
                                       {"attention.head_count", 4},
                                       {"attention.head_count_kv", 2},
                                       {"attention.key_length", 16},
                                       {"attention.value_length", 16},
                                       {"rope.dimension_count", 8},
                                       {"vocab_size", kVocab},
                                       {"ssm.group_count", 2},
                                       {"ssm.time_step_rank", 4},
                                       {"ssm.state_size", 16},
                                       {"ssm.conv_kernel", 4},
                                       {"ssm.inner_size", 64},
                                       {"full_attention_interval", 1},
                                       {"expert_count", kExperts},
                                       {"expert_used_count", 2},
                                       {"expert_feed_forward_length", kWidth},
                                       {"expert_shared_feed_forward_length", kShared}}) {
    w.U32("qwen35moe." + key, n);
  }
  w.F32("qwen35moe.attention.layer_norm_rms_epsilon", 1e-6f);
  w.F32("qwen35moe.rope.freq_base", 10000.0f);
  Rng rng(11);
  std::vector<support::ValueTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       DType dtype = DType::kQ8_0) {
    support::ValueTensor& t =
        tensors.emplace_back(support::ValueTensor{name, dtype, std::move(shape), {}});
    const bool gain = t.shape.size() == 1;
    const float scale = gain ? 0.2f : 2 / std::sqrt(static_cast<float>(t.shape.back()));
    for (int64_t i = support::ElementsOf(t.shape); i > 0; --i)
      t.values.push_back((gain ? 1.0f : 0.0f) +
                         scale * (static_cast<float>(rng.Below(2001)) / 1000 - 1));
  };
  add("token_embd.weight", {kVocab, kHidden});
  add("output_norm.weight", {kHidden}, DType::kF32);
  for (const std::string at : {"blk.0.", "blk.1."}) {
    for (const auto& [name, n] : std::map<std::string, int64_t>{{"attn_norm", kHidden},
                                                                {"post_attention_norm", kHidden},
                                                                {"attn_q_norm", 16},
                                                                {"attn_k_norm", 16}}) {
      add(at + name + ".weight", {n}, DType::kF32);
    }
    add(at + "attn_q.weight", {2 * kQuery, kHidden});
    add(at + "attn_k.weight", {kKey, kHidden});
    add(at + "attn_v.weight", {kKey, kHidden});
    add(at + "attn_output.weight", {kHidden, kQuery});
    add(at + "ffn_gate_inp.weight", {kExperts, kHidden}, DType::kF32);
    add(at + "ffn_gate_inp_shexp.weight", {1, kHidden}, DType::kF32);
    for (const char* part : {"ffn_gate", "ffn_up"}) {
      add(at + part + "_exps.weight", {kExperts, kWidth, kHidden});
      add(at + part + "_shexp.weight", {kShared, kHidden});
    }
    add(at + "ffn_down_exps.weight", {kExperts, kHidden, kWidth});
    add(at + "ffn_down_shexp.weight", {kHidden, kShared});
  }
  return support::OpenValuesGguf(std::move(w), tensors);
}

std::vector<uint64_t> HashesOf(const io::Checkpoint& checkpoint, const ExecConfig& config,
                               int32_t chunk) {
  std::vector<uint64_t> hashes;
  const auto executor = support::MakeExecutor(checkpoint, config);
  if (executor == nullptr) return hashes;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back((i * 37 + 11) % kVocab);
  support::Forward(*executor, ids, chunk,
                   [&](int32_t, std::span<const float>, uint64_t hash) { hashes.push_back(hash); });
  return hashes;
}

// Tiles pay off from 16 rows on: of 48 tokens that choose 2 of 6 experts each.
TEST(QuantisedExperts, TheKernelIsThatOfAnExpertsRows) {
  const auto checkpoint = Model();
  const auto plan = ExplainPlan(*checkpoint, support::SmallConfig(1), PlanKind::kBody, 40);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const CpuTarget target({.isa = kernels::Isa::kAmxInt8});
  int asked = 0;
  for (const graph::Node& node : plan->graph.nodes) {
    if (node.op != graph::Op::kExpertMatmul) continue;
    ++asked;
    const auto impl = [&](int32_t rows) {
      return target.Choose(plan->graph, node, {.rows_min = rows, .rows_max = rows}).impl;
    };
    EXPECT_EQ(impl(1).find("amx"), std::string::npos) << impl(1);
    EXPECT_EQ(impl(47).find("amx"), std::string::npos) << impl(47);
    EXPECT_NE(impl(48).find("amx"), std::string::npos) << impl(48);
  }
  EXPECT_EQ(asked, 4) << "gate and up, down, in two layers";
}

TEST(QuantisedExperts, RowsGoAsTheyAreAndGiveTheBitsOfOneRank) {
  const auto checkpoint = Model();
  ExecConfig one = support::SmallConfig(1);
  one.reference = true;
  const std::vector<uint64_t> want = HashesOf(*checkpoint, one, 40);
  ASSERT_EQ(want.size(), 40u);
  for (const int ranks : {2, 3, 4, 6, 8}) {
    for (const bool whole : {false, true}) {
      ExecConfig config = support::SmallConfig(ranks, ranks < 4 ? 2 * ranks : ranks);
      config.whole_shared_expert = whole;
      config.schedule.schedule = ranks % 2 == 0 ? plan::Schedule::kFc1 : plan::Schedule::kSp;
      config.schedule.sp_min_tokens = config.schedule.fc1_min_tokens = 1;
      config.compile.switches["exchange_experts"] = graph::Switch::kOn;
      const auto plan = ExplainPlan(*checkpoint, config, PlanKind::kBody, 40);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      int dispatched = 0;
      for (const graph::Node& node : plan->graph.nodes) {
        dispatched +=
            node.op == graph::Op::kDispatchRows && plan->graph.value(node.in[0]).int8_rows;
      }
      EXPECT_EQ(dispatched, 2);
      ExecConfig contracts = config;
      contracts.reference = true;
      if (ranks == 4) {
        EXPECT_EQ(HashesOf(*checkpoint, contracts, 7), want)
            << "virtual ranks" << (whole ? ", whole" : "");
      }
      for (const int32_t chunk : {40, 7, 1})
        EXPECT_EQ(HashesOf(*checkpoint, config, chunk), want)
            << ranks << " ranks, chunks of " << chunk << (whole ? ", whole" : "");
    }
  }
}

}  // namespace
}  // namespace weft::exec
