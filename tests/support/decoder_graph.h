// A decoder in words of intention, small enough to be computed in plain loops and with everything in
// it that the rules of placement look at: uneven heads, biases, norms per head, quantised weights.
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
};

inline graph::Graph DecoderBody(const DecoderShape& s) {
  using graph::Dim;
  using graph::kNoValue;
  using graph::ValueId;
  graph::Builder b("decoder.body", s.model_dtype);
  const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim, group = s.heads / s.kv_heads;
  const ValueId ids = b.Input("ids", DType::kI32, {Dim::T()});
  const ValueId positions = b.Input("positions", DType::kI32, {Dim::T()});
  const ValueId slots = b.Input("slots", DType::kI64, {Dim::T()});
  const ValueId segments = b.Input("segments", DType::kI32, {});
  const int vocab = b.Table("vocab", LeafTable::Make(s.vocab, 32));
  const ValueId table = b.Param("embed", s.weights, {Dim::C(s.vocab, vocab), Dim::C(s.hidden)});
  b.Layer("embed");
  ValueId r = b.Embedding(ids, table);
  const int64_t head_atom = IsQuantised(s.weights) && s.head_dim < 32 ? 32 / s.head_dim * s.head_dim : s.head_dim;
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string name = fmt::format("l{}.", layer), label = fmt::format("L{:02}", layer);
    const auto vector = [&](const char* what, Dim n) { return b.Param(name + what, DType::kF32, {n}); };
    const auto matrix = [&](const char* what, Dim n, Dim k) { return b.Param(name + what, s.weights, {n, k}); };
    b.Layer(label);
    const ValueId x = b.RmsNorm(r, vector("norm1", Dim::C(s.hidden)), 1e-5, 1, 32, "attn_norm");
    b.Layer(label + ".attn");
    const int heads = b.Table(label + ".heads", LeafTable::Make(q_width, head_atom));
    const int kv_heads = b.FollowingTable(label + ".kv_heads", kv_width, s.head_dim, heads, group * s.head_dim);
    const Dim q_dim = Dim::C(q_width, heads), kv_dim = Dim::C(kv_width, kv_heads), h_dim = Dim::C(s.hidden);
    std::vector<ValueId> biases(3, kNoValue);
    if (s.attention_bias) biases = {vector("bq", q_dim), vector("bk", kv_dim), vector("bv", kv_dim)};
    auto qkv = b.ColumnLinear(x, {matrix("q", q_dim, h_dim), matrix("k", kv_dim, h_dim), matrix("v", kv_dim, h_dim)}, biases,
                              {"q", "k", "v"});
    if (s.head_norms) {
      qkv[0] = b.RmsNorm(qkv[0], vector("q_norm", Dim::C(s.head_dim)), 1e-5, s.heads, s.head_dim, "q_norm");
      qkv[1] = b.RmsNorm(qkv[1], vector("k_norm", Dim::C(s.head_dim)), 1e-5, s.kv_heads, s.head_dim, "k_norm");
    }
    qkv[0] = b.Rope(qkv[0], positions, s.head_dim, s.head_dim, "q_rope");
    qkv[1] = b.Rope(qkv[1], positions, s.head_dim, s.head_dim, "k_rope");
    const ValueId kv = b.State(fmt::format("kv.{}", layer), {Dim::C(2), kv_dim});
    const auto [attended, written] = b.SelfAttention({qkv[0], qkv[1], qkv[2], kv, slots, segments, s.head_dim, group,
                                                      1 / std::sqrt(static_cast<double>(s.head_dim))});
    (void)written;
    const ValueId o = b.RowLinear(attended, matrix("o", h_dim, q_dim), s.output_bias ? vector("bo", h_dim) : kNoValue, "o");
    b.Layer(label);
    r = b.Add(r, o, "attn_residual");
    const ValueId y = b.RmsNorm(r, vector("norm2", h_dim), 1e-5, 1, 32, "mlp_norm");
    b.Layer(label + ".mlp");
    const int ffn = b.Table(label + ".ffn", LeafTable::Make(s.width, 32));
    const Dim f_dim = Dim::C(s.width, ffn);
    std::vector<ValueId> mlp_biases(2, kNoValue);
    if (s.mlp_bias) mlp_biases = {vector("bg", f_dim), vector("bu", f_dim)};
    const auto gate_up = b.ColumnLinear(y, {matrix("gate", f_dim, h_dim), matrix("up", f_dim, h_dim)}, mlp_biases, {"gate", "up"});
    const ValueId h = b.SwiGlu(gate_up[0], gate_up[1]);
    const ValueId down = b.RowLinear(h, matrix("down", h_dim, f_dim), s.mlp_bias ? vector("bd", h_dim) : kNoValue, "down");
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
  const ValueId logits = b.LmHead(x, b.Param("embed", s.weights, {Dim::C(s.vocab, vocab), Dim::C(s.hidden)}));
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
      {.heads = 4, .kv_heads = 2, .weights = DType::kQ4_1, .attention_bias = true, .output_bias = true, .mlp_bias = true},
  };
}

}  // namespace weft::test
