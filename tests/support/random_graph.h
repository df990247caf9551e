// Bodies that no model has: values read late and often, twice by one node, norms of norms, columns
// of one matmul with different fates. Lawful, so that what refuses their plan is wrong.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "base/rng.h"
#include "graph/builder.h"

namespace weft::test {

class RandomBody {
 public:
  explicit RandomBody(Rng* rng)
      : rng_(*rng), b_("random.body", Coin() ? DType::kBF16 : DType::kF32) {}

  // `blocks` random pieces over a pool of rows of one width, and a sum as the answer, or two.
  graph::Graph Make(int blocks) {
    head_dim_ = 16 << rng_.Below(2);
    kv_heads_ = 1 + static_cast<int64_t>(rng_.Below(4));
    group_ = 1 + static_cast<int64_t>(rng_.Below(3));
    hidden_ = 32 * (1 + static_cast<int64_t>(rng_.Below(3)));
    width_ = 32 * (1 + static_cast<int64_t>(rng_.Below(6))) + (Coin() ? 4 : 0);
    constexpr DType kFormats[] = {DType::kBF16, DType::kF32, DType::kQ8_0, DType::kQ4_1};
    weights_ = kFormats[rng_.Below(std::size(kFormats))];
    if (IsQuantised(weights_)) width_ = (width_ + 31) / 32 * 32;
    const graph::ValueId ids = b_.Input("ids", DType::kI32, {Dim::T()});
    positions_ = b_.Input("positions", DType::kI32, {Dim::T()});
    slots_ = b_.Input("slots", DType::kI64, {Dim::T()});
    segments_ = b_.Input("segments", DType::kI32, {});
    ffn_ = b_.Table("ffn", LeafTable::Make(width_, 32));
    b_.Layer("embed");
    const int vocab = b_.Table("vocab", LeafTable::Make(96, 32));
    pool_.push_back(
        b_.Embedding(ids, b_.Param("embed", weights_, {Dim::C(96, vocab), Dim::C(hidden_)})));
    for (int i = 0; i < blocks; ++i) {
      b_.Layer(fmt::format("B{:02}", i));
      name_ = fmt::format("b{}.", i);
      switch (rng_.Below(5)) {
        case 0:
          pool_.push_back(b_.RmsNorm(Any(), Vector("gain", Dim::C(hidden_)), 1e-5, 1, 32, "norm"));
          break;
        case 1:
        case 2: pool_.push_back(b_.Add(Any(), Any(), name_ + "sum")); break;
        case 3: Mlp(); break;
        default: Attention();
      }
    }
    b_.Layer("end");
    std::vector<ValueId> answers{b_.Add(Any(), Any(), "answer")};
    if (Coin()) answers.push_back(pool_[rng_.Below(pool_.size())]);
    return b_.Finish(answers);
  }

 private:
  using Dim = graph::Dim;
  using ValueId = graph::ValueId;

  bool Coin() { return rng_.Below(2) == 0; }
  // The newest as often as any other, so that chains grow and old values stay alive.
  ValueId Any() { return Coin() ? pool_.back() : pool_[rng_.Below(pool_.size())]; }
  ValueId Vector(const char* what, Dim n) { return b_.Param(name_ + what, DType::kF32, {n}); }
  ValueId Matrix(const char* what, Dim n, Dim k) {
    return b_.Param(name_ + what, weights_, {n, k});
  }
  ValueId MaybeBias(const char* what, Dim n) { return Coin() ? Vector(what, n) : graph::kNoValue; }

  void Mlp() {
    const Dim f = Dim::C(width_, ffn_), h = Dim::C(hidden_);
    const ValueId x = Any();
    const ValueId bias_gate = MaybeBias("bg", f), bias_up = MaybeBias("bu", f);
    const auto y = b_.ColumnLinear(x, {Matrix("gate", f, h), Matrix("up", f, h)},
                                   {bias_gate, bias_up}, {"gate", "up"});
    // Any two of the columns so far: an older one stays alive beside its own, long read, matmul.
    columns_.insert(columns_.end(), y.begin(), y.end());
    const ValueId a = Coin() ? y[0] : columns_[rng_.Below(columns_.size())];
    const ValueId m = b_.SwiGlu(a, y[1]);
    const ValueId bias_down = MaybeBias("bd", h);
    pool_.push_back(b_.RowLinear(m, Matrix("down", h, f), bias_down, "down"));
  }

  void Attention() {
    const int64_t q_width = kv_heads_ * group_ * head_dim_, kv_width = kv_heads_ * head_dim_;
    const int64_t atom = IsQuantised(weights_) ? std::max<int64_t>(32, head_dim_) : head_dim_;
    if (q_width % atom != 0) return;
    const int heads = b_.Table(name_ + "heads", LeafTable::Make(q_width, atom));
    const int kv_heads =
        b_.FollowingTable(name_ + "kv_heads", kv_width, head_dim_, heads, group_ * head_dim_);
    const Dim q_dim = Dim::C(q_width, heads), kv_dim = Dim::C(kv_width, kv_heads);
    const Dim h = Dim::C(hidden_);
    auto qkv = b_.ColumnLinear(
        Any(), {Matrix("q", q_dim, h), Matrix("k", kv_dim, h), Matrix("v", kv_dim, h)},
        {graph::kNoValue, graph::kNoValue, graph::kNoValue}, {"q", "k", "v"});
    if (Coin()) {
      qkv[0] = b_.RmsNorm(qkv[0], Vector("qn", Dim::C(head_dim_)), 1e-5, kv_heads_ * group_,
                          head_dim_, "q_norm");
    }
    if (Coin()) qkv[0] = b_.Rope(qkv[0], positions_, head_dim_, head_dim_, "q_rope");
    if (Coin()) qkv[1] = b_.Rope(qkv[1], positions_, head_dim_, head_dim_, "k_rope");
    const ValueId kv = b_.State(name_ + "kv", {Dim::C(2), kv_dim});
    const ValueId o =
        b_.SelfAttention({qkv[0], qkv[1], qkv[2], kv, slots_, segments_, head_dim_, group_, 0.25})
            .first;
    pool_.push_back(b_.RowLinear(o, Matrix("o", h, q_dim), MaybeBias("bo", h), "o"));
  }

  Rng& rng_;
  graph::Builder b_;
  std::string name_;
  int64_t head_dim_ = 0, kv_heads_ = 0, group_ = 0, hidden_ = 0, width_ = 0;
  DType weights_ = DType::kBF16;
  int ffn_ = -1;
  ValueId positions_ = -1, slots_ = -1, segments_ = -1;
  std::vector<ValueId> pool_;     // [T, hidden], on every rank
  std::vector<ValueId> columns_;  // [T, width], cut by ffn
};

}  // namespace weft::test
