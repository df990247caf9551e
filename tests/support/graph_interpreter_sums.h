// Sums: of squares, over leaves, and of what ranks hold of them. Included by graph_interpreter.h.
#pragma once

#include "support/graph_interpreter.h"

namespace weft::test {

inline Status Interpreter::Norm(const Node& node, int rank, const Local& x, ValueId gain_id,
                                size_t output) {
  const int64_t width = node.Int("width");
  const Local& gain = values_[gain_id][rank];
  if (x.cols % width != 0 || gain.cols != width || !x.roots.empty())
    return Malformed(node, "not whole rows");
  const LeafTable leaves = LeafTable::Make(width, node.Int("leaf_atom"));
  Local y{x.rows, x.cols, {}, {}, 0};
  for (int64_t at = 0; at < x.rows * x.cols; at += width) {
    std::vector<std::pair<LeafRange, float>> sums;
    for (int l = 0; l < leaves.count(); ++l) {
      float sum = 0;
      for (int64_t j = leaves.start(l); j < leaves.start(l + 1); ++j)
        sum += x.data[at + j] * x.data[at + j];
      sums.push_back({{l, l + 1}, sum});
    }
    const float scale = 1 / std::sqrt(*Tree(0, leaves.count(), sums) / static_cast<float>(width) +
                                      static_cast<float>(node.Real("eps")));
    for (int64_t j = 0; j < width; ++j)
      y.data.push_back(Round(x.data[at + j] * scale * gain.data[j], g_.value(node.out[output])));
  }
  values_[node.out[output]][rank] = std::move(y);
  return Status::Ok();
}

inline Status Interpreter::Matmul(const Node& node, int rank) {
  const graph::MatmulOperands operands = OperandsOf(node);
  const Local& x = values_[operands.x][rank];
  if (!x.roots.empty()) return Malformed(node, "reads an unfinished tree");
  for (size_t i = 0; i < operands.weights.size(); ++i) {
    const ValueId w_id = operands.weights[i];
    const Local& w = values_[w_id][rank];
    if (x.cols != w.cols) return Malformed(node, "x and weight differ in K");
    const int table = g_.value(w_id).dims[1].table;
    const LeafTable whole = LeafTable::Whole(std::max<int64_t>(g_.value(w_id).dims[1].n, 1));
    const LeafTable& leaves = table < 0 ? whole : g_.tables[table].leaves;
    const LeafRange own =
        table >= 0 ? LeavesOf(g_, g_.value(w_id), 1, rank) : LeafRange{0, leaves.count()};
    Local y{x.rows, w.rows, {}, {}, 0};
    const int64_t first = leaves.start(own.begin);
    if (w.cols != leaves.start(own.end) - first)
      return Malformed(node, "it does not hold the leaves that it sums over");
    const auto dot = [&](int64_t t, int64_t n, int leaf) {
      float sum = 0;
      for (int64_t j = leaves.start(leaf) - first; j < leaves.start(leaf + 1) - first; ++j)
        sum = std::fma(w.data[n * w.cols + j], x.data[t * x.cols + j], sum);
      return sum;
    };
    for (const LeafRange root : MaximalSubtrees(leaves.count(), own)) {
      y.roots.push_back(root);
      for (int64_t t = 0; t < x.rows; ++t) {
        for (int64_t n = 0; n < w.rows; ++n) {
          std::vector<std::pair<LeafRange, float>> sums;
          for (int l = root.begin; l < root.end; ++l) sums.push_back({{l, l + 1}, dot(t, n, l)});
          y.data.push_back(*Tree(root.begin, root.end, sums));
        }
      }
    }
    y.leaves = leaves.count();
    if (!node.Has("roots")) {
      if (y.roots.size() != 1 || y.roots[0] != LeafRange{0, leaves.count()})
        return Malformed(node, "part of a product is no value");
      y.roots.clear();
      y.leaves = 0;
      const Local* bias =
          operands.biases[i] == graph::kNoValue ? nullptr : &values_[operands.biases[i]][rank];
      if (bias != nullptr && bias->cols != y.cols)
        return Malformed(node, "a bias of another width");
      for (size_t e = 0; e < y.data.size(); ++e) {
        if (bias != nullptr) y.data[e] += bias->data[e % y.cols];
        y.data[e] = Round(y.data[e], g_.value(node.out[i]));
      }
    }
    values_[node.out[i]][rank] = std::move(y);
  }
  return Status::Ok();
}

inline Status Interpreter::Finish(const Node& node, int rank, const std::vector<int>& group) {
  std::vector<const Local*> parts;
  for (int r : group) parts.push_back(&values_[node.in[0]][r]);
  const int64_t rows = parts[0]->rows, cols = parts[0]->cols;
  // Which of the roots' rows this rank finishes.
  const std::vector<int64_t> have = Rows(node.in[0], LiveRows(node.in[0]), rank),
                             wants = Rows(node.out[0], LiveRows(node.out[0]), rank);
  int leaves = 0;
  for (const Local* p : parts) leaves = std::max(leaves, p->leaves);
  if (leaves == 0) return Malformed(node, "no tree to finish");
  const Local* bias = node.in.size() < 2 ? nullptr : &values_[node.in[1]][rank];
  if (bias != nullptr && bias->cols != cols) return Malformed(node, "a bias of another width");
  Local y{static_cast<int64_t>(wants.size()), cols, {}, {}, 0};
  for (int64_t i = 0; i < y.rows * cols; ++i) {
    const auto row = std::find(have.begin(), have.end(), wants[i / cols]);
    if (row == have.end()) return Malformed(node, "rows are missing");
    const int64_t e = (row - have.begin()) * cols + i % cols;
    std::vector<std::pair<LeafRange, float>> roots;
    for (const Local* p : parts) {
      if (p->rows != rows || p->cols != cols) return Malformed(node, "ranks hold different widths");
      for (size_t i = 0; i < p->roots.size(); ++i)
        roots.push_back({p->roots[i], p->data[i * rows * cols + e]});
    }
    auto sum = Tree(0, leaves, roots);
    if (!sum) return Malformed(node, "leaves are missing");
    if (bias != nullptr) *sum += bias->data[i % cols];
    y.data.push_back(Round(*sum, g_.value(node.out[0])));
  }
  values_[node.out[0]][rank] = std::move(y);
  return Status::Ok();
}

}  // namespace weft::test
