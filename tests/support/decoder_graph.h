// A decoder in words of intention, small enough to be computed in plain loops and with everything
// in it that the rules of placement look at: uneven heads, biases, norms per head, quantised
// weights.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "graph/builder.h"
#include "graph/passes/pass.h"

namespace weft::test {

struct DecoderShape {
  int layers = 2;
  int64_t heads = 6, kv_heads = 3, head_dim = 16;
  int64_t hidden = 64, width = 96, vocab = 100;
  DType model_dtype = DType::kBF16;
  DType weights = DType::kBF16;
  bool attention_bias = false, output_bias = false, mlp_bias = false;
  bool head_norms = false;
  bool output_gate = false;  // of attention
  int64_t experts = 0, top_k = 2, expert_width = 32;
  bool shared_expert = false, whole_shared = false;
  // Every other layer, from the first on, is a gated delta net.
  int64_t key_heads = 0, value_heads = 0, key_dim = 8, value_dim = 16;
};

// x -> [T, H] by experts, and by one that all tokens share.
inline graph::ValueId MoeBlock(graph::Builder& b, const DecoderShape& s, const std::string& name,
                               const std::string& label, graph::ValueId x) {
  using graph::Dim;
  using graph::kNoValue;
  b.Layer(label + ".moe");
  const Dim e_dim = Dim::C(s.experts, b.Table(label + ".experts", LeafTable::Make(s.experts, 1)));
  const Dim f_dim = Dim::C(s.expert_width,
                           b.Table(label + ".expert_ffn", LeafTable::Make(s.expert_width, 32))),
            h_dim = Dim::C(s.hidden);
  std::vector<graph::ValueId> scorers{
      b.Param(name + "router", DType::kF32, {Dim::C(s.experts), h_dim})};
  if (s.shared_expert)
    scorers.push_back(b.Param(name + "shared_gate", DType::kF32, {Dim::C(1), h_dim}));
  const auto scores =
      b.ColumnLinear(x, scorers, std::vector<graph::ValueId>(scorers.size(), kNoValue),
                     {"router", "shared_gate"}, DType::kF32);
  graph::Builder::ExpertArgs args;
  args.x = x;
  args.logits = scores[0];
  args.gate = b.Param(name + "experts.gate", s.weights, {e_dim, f_dim, h_dim});
  args.up = b.Param(name + "experts.up", s.weights, {e_dim, f_dim, h_dim});
  args.down = b.Param(name + "experts.down", s.weights, {e_dim, h_dim, f_dim});
  args.top_k = s.top_k;
  args.renormalise = true;
  const graph::ValueId routed = b.Experts(args);
  if (!s.shared_expert) return routed;
  b.Layer(label + ".shared");
  const std::string table = label + ".shared_ffn";
  const LeafTable leaves = LeafTable::Make(s.width, 32);
  const Dim w_dim =
      Dim::C(s.width, s.whole_shared ? b.WholeTable(table, leaves) : b.Table(table, leaves));
  const auto gate_up = b.ColumnLinear(x,
                                      {b.Param(name + "shared.gate", s.weights, {w_dim, h_dim}),
                                       b.Param(name + "shared.up", s.weights, {w_dim, h_dim})},
                                      {kNoValue, kNoValue}, {"gate", "up"});
  const graph::ValueId down =
      b.RowLinear(b.SwiGlu(gate_up[0], gate_up[1]),
                  b.Param(name + "shared.down", s.weights, {h_dim, w_dim}), kNoValue, "down");
  return b.Add(routed, b.GateRows(down, scores[1], "gated"), "experts_and_shared");
}

inline graph::ValueId DeltaBlock(graph::Builder& b, const DecoderShape& s, const std::string& name,
                                 const std::string& label, int layer, graph::ValueId x,
                                 graph::ValueId segments) {
  using graph::Dim;
  using graph::kNoValue;
  b.Layer(label + ".gdn");
  const int64_t ratio = s.value_heads / s.key_heads, k_width = s.key_heads * s.key_dim,
                v_width = s.value_heads * s.value_dim;
  const int64_t atom =
      IsQuantised(s.weights) && s.value_dim < 32 ? 32 / s.value_dim * s.value_dim : s.value_dim;
  const int values = b.Table(label + ".value_heads", LeafTable::Make(v_width, atom));
  const int keys =
      b.FollowingTable(label + ".key_heads", k_width, s.key_dim, values, ratio * s.value_dim);
  const Dim k_dim = Dim::C(k_width, keys), v_dim = Dim::C(v_width, values),
            heads = Dim::C(s.value_heads), h_dim = Dim::C(s.hidden);
  std::vector<graph::ValueId> weights;
  for (const auto& [what, n] : {std::pair{"q", k_dim},
                                {"k", k_dim},
                                {"v", v_dim},
                                {"z", v_dim},
                                {"b", heads},
                                {"a", heads}}) {
    weights.push_back(b.Param(name + "in_" + what, s.weights, {n, h_dim}));
  }
  const auto in = b.ColumnLinear(x, weights, std::vector<graph::ValueId>(6, kNoValue),
                                 {"q", "k", "v", "z", "b", "a"});
  graph::Builder::DeltaArgs args;
  graph::ValueId* const mixed[] = {&args.q, &args.k, &args.v};
  for (int i = 0; i < 3; ++i) {
    const std::string what(1, "qkv"[i]);
    const Dim channels = i < 2 ? k_dim : v_dim;
    const graph::ValueId window =
        b.State(fmt::format("conv.{}.{}", layer, what), {Dim::C(3), channels});
    *mixed[i] = b.CausalConv(window, in[static_cast<size_t>(i)],
                             b.Param(name + "conv_" + what, DType::kF32, {channels, Dim::C(4)}),
                             segments, "conv_" + what);
  }
  args.b = in[4];
  args.a = in[5];
  args.segments = segments;
  args.key_dim = s.key_dim;
  args.value_dim = s.value_dim;
  args.state = b.State(fmt::format("gdn.{}", layer), {Dim::C(s.key_dim), v_dim}, DType::kF32);
  args.neg_exp_a = b.Param(name + "a_log", DType::kF32, {heads});
  args.dt_bias = b.Param(name + "dt", DType::kF32, {heads});
  const graph::ValueId o = b.GatedDelta(args);
  const graph::ValueId gain = b.Param(name + "gdn_norm", DType::kF32, {Dim::C(s.value_dim)});
  const graph::ValueId y =
      b.GatedRmsNorm(o, in[3], gain, 1e-5, s.value_heads, 32, false, "gated_norm");
  return b.RowLinear(y, b.Param(name + "out", s.weights, {h_dim, v_dim}), kNoValue, "out");
}

// Attention over the heads of one layer, x -> [T, H].
inline graph::ValueId AttentionBlock(graph::Builder& b, const DecoderShape& s,
                                     const std::string& name, const std::string& label, int layer,
                                     graph::ValueId x, graph::ValueId positions,
                                     graph::ValueId slots, graph::ValueId segments) {
  using graph::Dim;
  using graph::kNoValue;
  using graph::ValueId;
  const auto vector = [&](const char* what, Dim n) {
    return b.Param(name + what, DType::kF32, {n});
  };
  const auto matrix = [&](const char* what, Dim n, Dim k) {
    return b.Param(name + what, s.weights, {n, k});
  };
  const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim,
                group = s.heads / s.kv_heads;
  const int64_t head_atom =
      IsQuantised(s.weights) && s.head_dim < 32 ? 32 / s.head_dim * s.head_dim : s.head_dim;
  b.Layer(label + ".attn");
  const int heads = b.Table(label + ".heads", LeafTable::Make(q_width, head_atom));
  const int kv_heads =
      b.FollowingTable(label + ".kv_heads", kv_width, s.head_dim, heads, group * s.head_dim);
  const Dim q_dim = Dim::C(q_width, heads), kv_dim = Dim::C(kv_width, kv_heads),
            h_dim = Dim::C(s.hidden);
  std::vector<ValueId> biases(3, kNoValue);
  if (s.attention_bias) biases = {vector("bq", q_dim), vector("bk", kv_dim), vector("bv", kv_dim)};
  std::vector<ValueId> sections{matrix("q", q_dim, h_dim), matrix("k", kv_dim, h_dim),
                                matrix("v", kv_dim, h_dim)};
  if (s.output_gate) {
    sections.push_back(matrix("q_gate", q_dim, h_dim));
    biases.push_back(kNoValue);
  }
  auto qkv = b.ColumnLinear(x, sections, biases, {"q", "k", "v", "gate"});
  if (s.head_norms) {
    qkv[0] = b.RmsNorm(qkv[0], vector("q_norm", Dim::C(s.head_dim)), 1e-5, s.heads, s.head_dim,
                       "q_norm");
    qkv[1] = b.RmsNorm(qkv[1], vector("k_norm", Dim::C(s.head_dim)), 1e-5, s.kv_heads, s.head_dim,
                       "k_norm");
  }
  qkv[0] = b.Rope(qkv[0], positions, s.head_dim, s.head_dim, "q_rope");
  qkv[1] = b.Rope(qkv[1], positions, s.head_dim, s.head_dim, "k_rope");
  const ValueId kv = b.State(fmt::format("kv.{}", layer), {Dim::C(2), kv_dim});
  auto [attended, written] =
      b.SelfAttention({qkv[0], qkv[1], qkv[2], kv, slots, segments, s.head_dim, group,
                       1 / std::sqrt(static_cast<double>(s.head_dim))});
  (void)written;
  if (s.output_gate) attended = b.SigmoidMul(attended, qkv[3], "gated");
  return b.RowLinear(attended, matrix("o", h_dim, q_dim),
                     s.output_bias ? vector("bo", h_dim) : kNoValue, "o");
}

inline graph::Graph DecoderBody(const DecoderShape& s) {
  using graph::Dim;
  using graph::kNoValue;
  using graph::ValueId;
  graph::Builder b("decoder.body", s.model_dtype);
  const ValueId ids = b.Input("ids", DType::kI32, {Dim::T()});
  const ValueId positions = b.Input("positions", DType::kI32, {Dim::T()});
  const ValueId slots = b.Input("slots", DType::kI64, {Dim::T()});
  const ValueId segments = b.Input("segments", DType::kI32, {});
  const int vocab = b.Table("vocab", LeafTable::Make(s.vocab, 32));
  const ValueId table = b.Param("embed", s.weights, {Dim::C(s.vocab, vocab), Dim::C(s.hidden)});
  b.Layer("embed");
  ValueId r = b.Embedding(ids, table);
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string name = fmt::format("l{}.", layer), label = fmt::format("L{:02}", layer);
    const auto vector = [&](const char* what, Dim n) {
      return b.Param(name + what, DType::kF32, {n});
    };
    const auto matrix = [&](const char* what, Dim n, Dim k) {
      return b.Param(name + what, s.weights, {n, k});
    };
    b.Layer(label);
    const ValueId x = b.RmsNorm(r, vector("norm1", Dim::C(s.hidden)), 1e-5, 1, 32, "attn_norm");
    const bool delta = s.key_heads > 0 && layer % 2 == 0;
    const ValueId o = delta
                          ? DeltaBlock(b, s, name, label, layer, x, segments)
                          : AttentionBlock(b, s, name, label, layer, x, positions, slots, segments);
    const Dim h_dim = Dim::C(s.hidden);
    b.Layer(label);
    r = b.Add(r, o, "attn_residual");
    const ValueId y = b.RmsNorm(r, vector("norm2", h_dim), 1e-5, 1, 32, "mlp_norm");
    if (s.experts > 0) {
      const ValueId moe = MoeBlock(b, s, name, label, y);
      b.Layer(label);
      r = b.Add(r, moe, "mlp_residual");
      continue;
    }
    b.Layer(label + ".mlp");
    const int ffn = b.Table(label + ".ffn", LeafTable::Make(s.width, 32));
    const Dim f_dim = Dim::C(s.width, ffn);
    std::vector<ValueId> mlp_biases(2, kNoValue);
    if (s.mlp_bias) mlp_biases = {vector("bg", f_dim), vector("bu", f_dim)};
    const auto gate_up = b.ColumnLinear(
        y, {matrix("gate", f_dim, h_dim), matrix("up", f_dim, h_dim)}, mlp_biases, {"gate", "up"});
    const ValueId h = b.SwiGlu(gate_up[0], gate_up[1]);
    const ValueId down = b.RowLinear(h, matrix("down", h_dim, f_dim),
                                     s.mlp_bias ? vector("bd", h_dim) : kNoValue, "down");
    b.Layer(label);
    r = b.Add(r, down, "mlp_residual");
  }
  return b.Finish({r});
}

inline graph::Graph DecoderHead(const DecoderShape& s, bool sample, bool hash) {
  using graph::Dim;
  using graph::ValueId;
  graph::Builder b(sample ? "decoder.head.sample" : "decoder.head.greedy", s.model_dtype);
  const ValueId hidden = b.Input("hidden", s.model_dtype, {Dim::T(), Dim::C(s.hidden)});
  const ValueId rows = b.Input("head_rows", DType::kI32, {Dim::HeadRows()});
  const int vocab = b.Table("vocab", LeafTable::Make(s.vocab, 32));
  b.Layer("head");
  const ValueId picked = b.GatherRows(hidden, rows);
  const ValueId gain = b.Param("norm", DType::kF32, {Dim::C(s.hidden)});
  const ValueId x = b.RmsNorm(picked, gain, 1e-5, 1, 32, "norm");
  const ValueId logits =
      b.LmHead(x, b.Param("embed", s.weights, {Dim::C(s.vocab, vocab), Dim::C(s.hidden)}));
  std::vector<ValueId> outputs{sample ? b.Sample(logits) : b.Argmax(logits)};
  if (hash) outputs.push_back(b.HashLogits(logits));
  return b.Finish(outputs);
}

// REQUIRES: the front end's graph is lawful.
inline graph::Graph Placed(const graph::Graph& source, int ranks) {
  auto placed = graph::InsertCollectives(graph::Expand(source, {}), graph::Mesh::Tp(ranks));
  WEFT_CHECK(placed.ok(), "{}", placed.status().message());
  return std::move(placed).value();
}

// The shapes that tests sweep: each has something that the others have not.
inline std::vector<DecoderShape> DecoderShapes() {
  return {
      {},
      {.heads = 9, .kv_heads = 3, .width = 100, .model_dtype = DType::kF32, .weights = DType::kF32},
      {.heads = 8, .kv_heads = 8, .weights = DType::kQ8_0, .head_norms = true},
      {.heads = 4,
       .kv_heads = 2,
       .weights = DType::kQ4_1,
       .attention_bias = true,
       .output_bias = true,
       .mlp_bias = true},
      {.heads = 4, .kv_heads = 2, .head_norms = true, .experts = 6},
      {.heads = 4,
       .kv_heads = 1,
       .weights = DType::kQ8_0,
       .head_norms = true,
       .output_gate = true,
       .experts = 5,
       .top_k = 3,
       .expert_width = 64,
       .shared_expert = true,
       .key_heads = 2,
       .value_heads = 4},
      {.heads = 4, .kv_heads = 2, .experts = 4, .shared_expert = true, .whole_shared = true},
      {.model_dtype = DType::kF32,
       .weights = DType::kF32,
       .output_gate = true,
       .key_heads = 2,
       .value_heads = 6},
  };
}

}  // namespace weft::test
