// Ops between the tokens of a sequence: states, keys and values. Included by graph_interpreter.h.
#pragma once

#include "support/graph_interpreter.h"

namespace weft::test {

// The step's rows of the same sequence before row t, nearest last, and t: all begin at position
// 0.
inline std::vector<int64_t> Interpreter::History(int64_t t) const {
  std::vector<int64_t> rows;
  for (int64_t s = 0; s <= t; ++s) {
    if (step_.sequence(step_.slots[s]) == step_.sequence(step_.slots[t])) rows.push_back(s);
  }
  return rows;
}

inline Status Interpreter::CausalConv(const Node& node, int rank) {
  Local& state = values_[node.in[0]][rank];
  const Local &x = values_[node.in[1]][rank], &w = values_[node.in[2]][rank];
  if (x.rows != static_cast<int64_t>(step_.ids.size()))
    return Malformed(node, "part of a sequence");
  if (w.rows != x.cols || state.cols != x.cols) return Malformed(node, "other channels");
  Local y{x.rows, x.cols, {}, {}, 0};
  for (int64_t t = 0; t < x.rows; ++t) {
    const std::vector<int64_t> rows = History(t);
    for (int64_t c = 0; c < x.cols; ++c) {
      float sum = 0;
      for (int64_t j = 0; j < w.cols; ++j) {
        const int64_t at = static_cast<int64_t>(rows.size()) - w.cols + j;
        if (at >= 0)
          sum = std::fma(w.data[c * w.cols + j], x.data[rows[static_cast<size_t>(at)] * x.cols + c],
                         sum);
      }
      y.data.push_back(Round(sum / (1 + std::exp(-sum)), g_.value(node.out[0])));
      state.data[step_.slots[t] * x.cols + c] = x.data[t * x.cols + c];
    }
  }
  values_[node.out[0]][rank] = std::move(y);
  values_[node.out[1]][rank] = state;
  return Status::Ok();
}

inline Status Interpreter::GatedDelta(const Node& node, int rank) {
  const auto in = [&](size_t i) -> const Local& { return values_[node.in[i]][rank]; };
  Local& state = values_[node.in[0]][rank];
  const Local &q = in(1), &k = in(2), &v = in(3);
  const int64_t dk = node.Int("key_dim"), dv = node.Int("value_dim"), heads = v.cols / dv;
  const int64_t ratio =
      (g_.value(node.in[3]).dims[1].n / dv) / (g_.value(node.in[2]).dims[1].n / dk);
  const int64_t v_first = Range(node.in[3], 1, rank).begin / dv,
                k_first = Range(node.in[2], 1, rank).begin / dk;
  if (v.rows != static_cast<int64_t>(step_.ids.size()))
    return Malformed(node, "part of a sequence");
  if (in(4).cols != in(6).cols || in(5).cols != in(7).cols)
    return Malformed(node, "the gates of some heads");
  Local y{v.rows, v.cols, std::vector<float>(v.data.size(), 0.0f), {}, 0};
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t key =
        node.Has("tiled") ? (v_first + h) % (k.cols / dk) : (v_first + h) / ratio - k_first;
    if (key < 0 || (key + 1) * dk > std::min(k.cols, q.cols))
      return Malformed(node, "a head's keys are on another rank");
    std::map<int, std::vector<float>> s_of;
    for (int64_t t = 0; t < v.rows; ++t) {
      std::vector<float>& s = s_of[step_.sequence(step_.slots[t])];
      s.resize(static_cast<size_t>(dk * dv));
      const float a = in(4).data[t * in(4).cols + v_first + h] + in(7).data[v_first + h],
                  b = in(5).data[t * in(5).cols + v_first + h];
      const float gamma = std::exp(-std::fabs(in(6).data[v_first + h]) * std::log1p(std::exp(a))),
                  beta = 1 / (1 + std::exp(-b));
      const float *kt = k.row(t) + key * dk, *qt = q.row(t) + key * dk;
      float k2 = 1e-6f, q2 = 1e-6f;
      for (int64_t i = 0; i < dk; ++i) k2 += kt[i] * kt[i], q2 += qt[i] * qt[i];
      for (int64_t j = 0; j < dv; ++j) {
        float dot = 0, o = 0;
        for (int64_t i = 0; i < dk; ++i) dot += kt[i] / std::sqrt(k2) * s[i * dv + j];
        const float e = beta * (v.data[t * v.cols + h * dv + j] - gamma * dot);
        for (int64_t i = 0; i < dk; ++i) {
          s[i * dv + j] = std::fma(kt[i] / std::sqrt(k2), e, gamma * s[i * dv + j]);
          o = std::fma(qt[i] / std::sqrt(q2), s[i * dv + j], o);
          state.data[(step_.sequence(step_.slots[t]) * dk + i) * v.cols + h * dv + j] =
              s[i * dv + j];
        }
        y.data[t * v.cols + h * dv + j] = Round(o, g_.value(node.out[0]));
      }
    }
  }
  values_[node.out[0]][rank] = std::move(y);
  values_[node.out[1]][rank] = state;
  return Status::Ok();
}

inline Status Interpreter::Rope(const Node& node, int rank) {
  Local y = values_[node.in[0]][rank];
  const int64_t head = node.Int("head_dim"), half = node.Int("rot") / 2;
  if (y.cols % head != 0 || !y.roots.empty()) return Malformed(node, "not whole heads");
  for (int64_t t = 0; t < y.rows; ++t) {
    const float position = values_[node.in[1]][rank].data[t];
    for (int64_t h = 0; h < y.cols; h += head) {
      for (int64_t i = 0; i < half; ++i) {
        const float angle =
            position * std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(half));
        float &a = y.data[t * y.cols + h + i], &b = y.data[t * y.cols + h + half + i];
        const float x = a, z = b;
        a = Round(x * std::cos(angle) - z * std::sin(angle), g_.value(node.out[0]));
        b = Round(z * std::cos(angle) + x * std::sin(angle), g_.value(node.out[0]));
      }
    }
  }
  values_[node.out[0]][rank] = std::move(y);
  return Status::Ok();
}

inline Status Interpreter::KvWrite(const Node& node, int rank) {
  Local& kv = values_[node.in[0]][rank];  // in place: a late reader of the old version sees the new
  const Local &k = values_[node.in[1]][rank], &v = values_[node.in[2]][rank];
  if (k.cols != kv.cols || v.cols != kv.cols)
    return Malformed(node, "keys of another width than the cache");
  for (int64_t t = 0; t < k.rows; ++t) {
    const auto slot = static_cast<int64_t>(values_[node.in[3]][rank].data[t]);
    std::copy_n(k.row(t), k.cols, kv.row(slot));
    std::copy_n(v.row(t), v.cols, kv.row(StepData::kSlots + slot));
  }
  values_[node.out[0]][rank] = kv;
  return Status::Ok();
}

inline Status Interpreter::Attention(const Node& node, int rank) {
  const Local &q = values_[node.in[0]][rank], &kv = values_[node.in[1]][rank];
  const int64_t head = node.Int("head_dim"), group = node.Int("group");
  const int64_t q_first = Range(node.in[0], 1, rank).begin / head,
                kv_first = Range(node.in[1], 1, rank).begin / head;
  const auto scale = static_cast<float>(node.Real("scale"));
  Local y{q.rows, q.cols, std::vector<float>(q.data.size(), 0.0f), {}, 0};
  for (int64_t t = 0; t < q.rows; ++t) {
    for (int64_t h = 0; h < q.cols / head; ++h) {
      const int64_t kv_head = (q_first + h) / group - kv_first;
      if (kv_head < 0 || (kv_head + 1) * head > kv.cols)
        return Malformed(node, "a head's keys are on another rank");
      std::vector<float> weight;
      const int64_t begin = step_.slots[t] - step_.positions[t];
      float most = -INFINITY, sum = 0;
      for (int64_t slot = begin; slot <= step_.slots[t]; ++slot) {
        float score = 0;
        for (int64_t d = 0; d < head; ++d)
          score = std::fma(q.data[t * q.cols + h * head + d],
                           kv.data[slot * kv.cols + kv_head * head + d], score);
        weight.push_back(score * scale);
        most = std::max(most, weight.back());
      }
      for (float& w : weight) sum += w = std::exp(w - most);
      for (int64_t d = 0; d < head; ++d) {
        float o = 0;
        for (size_t s = 0; s < weight.size(); ++s)
          o = std::fma(weight[s],
                       kv.data[(StepData::kSlots + begin + static_cast<int64_t>(s)) * kv.cols +
                               kv_head * head + d],
                       o);
        y.data[t * q.cols + h * head + d] = Round(o / sum, g_.value(node.out[0]));
      }
    }
  }
  values_[node.out[0]][rank] = std::move(y);
  return Status::Ok();
}

}  // namespace weft::test
