// Ops of experts: who is asked, whose rows go where, the products and their sum. Included by
// graph_interpreter.h.
#pragma once

#include "support/graph_interpreter.h"

namespace weft::test {

inline Status Interpreter::Route(const Node& node, int rank) {
  const Local& x = values_[node.in[0]][rank];
  if (x.cols != g_.value(node.in[0]).dims[1].n) return Malformed(node, "part of the experts");
  const int64_t k = node.Int("top_k");
  Local ids{x.rows, k, {}, {}, 0}, weights = ids;
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* row = x.row(t);
    std::vector<int64_t> order(static_cast<size_t>(x.cols));
    for (size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int64_t>(e);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return row[a] > row[b]; });
    order.resize(static_cast<size_t>(k));
    std::sort(order.begin(), order.end());
    float sum = 0;
    for (int64_t e : order) sum += std::exp(row[e]);
    for (int64_t e : order) {
      ids.data.push_back(static_cast<float>(e));
      weights.data.push_back(std::exp(row[e]) / sum);
    }
  }
  values_[node.out[0]][rank] = std::move(ids);
  values_[node.out[1]][rank] = std::move(weights);
  return Status::Ok();
}

// A row for every route to an expert that is here: (expert, token, which of the token's).
inline Status Interpreter::GroupRoutes(const Node& node, int rank) {
  const Local& ids = values_[node.in[0]][rank];
  if (ids.rows != static_cast<int64_t>(step_.ids.size()))
    return Malformed(node, "routes of some tokens only");
  const LeafRange own = LeavesOf(g_, g_.value(node.out[0]), 0, rank);
  const LeafTable& experts = g_.tables[g_.value(node.out[0]).dims[0].table].leaves;
  Local y{0, 3, {}, {}, 0};
  for (int64_t e = experts.start(own.begin); e < experts.start(own.end); ++e) {
    for (int64_t i = 0; i < ids.rows * ids.cols; ++i) {
      if (ids.data[i] != static_cast<float>(e)) continue;
      y.data.insert(y.data.end(), {static_cast<float>(e), static_cast<float>(i / ids.cols),
                                   static_cast<float>(i % ids.cols)});
      ++y.rows;
    }
  }
  values_[node.out[0]][rank] = std::move(y);
  return Status::Ok();
}

// Every route's row from whoever of the group has its token; who sends what is told by the ids
// alone.
inline Status Interpreter::DispatchRows(const Node& node, int rank) {
  const Local &routes = values_[node.in[1]][rank], &ids = values_[node.in[2]][rank];
  const auto tokens = static_cast<int64_t>(step_.ids.size());
  if (ids.rows != tokens) return Malformed(node, "routes of some tokens only");
  Local y{routes.rows, values_[node.in[0]][rank].cols, {}, {}, 0};
  for (int64_t r = 0; r < routes.rows; ++r) {
    const auto token = static_cast<int64_t>(routes.data[3 * r + 1]),
               at = token * ids.cols + static_cast<int64_t>(routes.data[3 * r + 2]);
    if (at >= static_cast<int64_t>(ids.data.size()) || ids.data[at] != routes.data[3 * r])
      return Malformed(node, "a row is sent by other ids");
    const float* found = nullptr;
    for (int peer : GroupOf(g_, node, rank)) {
      const std::vector<int64_t> theirs = Rows(node.in[0], tokens, peer);
      const auto row = std::find(theirs.begin(), theirs.end(), token);
      if (row == theirs.end()) continue;
      const Local& x = values_[node.in[0]][peer];
      if (x.cols != y.cols) return Malformed(node, "rows of other widths");
      found = x.row(row - theirs.begin());
    }
    if (found == nullptr) return Malformed(node, "nobody of the group has the row");
    y.data.insert(y.data.end(), found, found + y.cols);
  }
  values_[node.out[0]][rank] = std::move(y);
  return Status::Ok();
}

inline Status Interpreter::ExpertMatmul(const Node& node, int rank) {
  const graph::MatmulOperands operands = OperandsOf(node);
  const Local &x = values_[operands.x][rank], &routes = values_[node.in[1]][rank];
  if (x.rows != routes.rows) return Malformed(node, "not a row for every route");
  for (size_t i = 0; i < operands.weights.size(); ++i) {
    const Value& w_value = g_.value(operands.weights[i]);
    const Local& w = values_[operands.weights[i]][rank];
    const int64_t n_count = w_value.dims[1].n;
    const ElementRange own = Range(operands.weights[i], 0, rank);
    const int table = w_value.dims[2].table;
    const LeafTable leaves = table < 0 ? LeafTable::Whole(x.cols) : g_.tables[table].leaves;
    Local y{x.rows, n_count, {}, {}, 0};
    for (int64_t r = 0; r < x.rows; ++r) {
      const auto expert = static_cast<int64_t>(routes.data[3 * r]);
      if (expert < own.begin || expert >= own.end)
        return Malformed(node, "an expert is on another rank");
      for (int64_t n = 0; n < n_count; ++n) {
        const float* row = w.row((expert - own.begin) * n_count + n);
        std::vector<std::pair<LeafRange, float>> sums;
        for (int l = 0; l < leaves.count(); ++l) {
          float sum = 0;
          for (int64_t j = leaves.start(l); j < leaves.start(l + 1); ++j)
            sum = std::fma(row[j], x.data[r * x.cols + j], sum);
          sums.push_back({{l, l + 1}, sum});
        }
        y.data.push_back(Round(*Tree(0, leaves.count(), sums), g_.value(node.out[i])));
      }
    }
    values_[node.out[i]][rank] = std::move(y);
  }
  return Status::Ok();
}

inline Status Interpreter::Combine(const Node& node, int rank) {
  const Local &x = values_[node.in[0]][rank], &routes = values_[node.in[1]][rank],
              &weights = values_[node.in[3]][rank];
  const auto tokens = static_cast<int64_t>(step_.ids.size());
  if (weights.rows != tokens || x.rows != routes.rows)
    return Malformed(node, "not a weight for every route");
  const Value& grouping = g_.value(node.in[1]);
  const LeafTable& experts = g_.tables[grouping.dims[0].table].leaves;
  Local y{tokens, x.cols, {}, {}, experts.count()};
  for (const LeafRange root : MaximalSubtrees(experts.count(), LeavesOf(g_, grouping, 0, rank))) {
    y.roots.push_back(root);
    for (int64_t i = 0; i < tokens * x.cols; ++i) {
      std::vector<std::pair<LeafRange, float>> sums;
      for (int l = root.begin; l < root.end; ++l) {
        float sum = 0;
        for (int64_t r = 0; r < x.rows; ++r) {  // by expert, so ascending
          const auto e = static_cast<int64_t>(routes.data[3 * r]),
                     t = static_cast<int64_t>(routes.data[3 * r + 1]),
                     k = static_cast<int64_t>(routes.data[3 * r + 2]);
          if (t != i / x.cols || e < experts.start(l) || e >= experts.start(l + 1)) continue;
          sum = std::fma(weights.data[t * weights.cols + k], x.data[r * x.cols + i % x.cols], sum);
        }
        sums.push_back({{l, l + 1}, sum});
      }
      y.data.push_back(*Tree(root.begin, root.end, sums));
    }
  }
  values_[node.out[0]][rank] = std::move(y);
  return Status::Ok();
}

// Every own token's routes from whoever of the group has their experts, told by the ids alone.
inline Status Interpreter::CombineRows(const Node& node, int rank) {
  const Local &ids = values_[node.in[2]][rank], &weights = values_[node.in[3]][rank];
  const auto tokens = static_cast<int64_t>(step_.ids.size());
  const std::vector<int64_t> own = Rows(node.out[0], tokens, rank);
  if (ids.rows != tokens) return Malformed(node, "routes of some tokens only");
  if (weights.rows != static_cast<int64_t>(own.size()))
    return Malformed(node, "not the weights of own tokens");
  const Value& grouping = g_.value(node.in[1]);
  const LeafTable& experts = g_.tables[grouping.dims[0].table].leaves;
  Local y{weights.rows, values_[node.in[0]][rank].cols, {}, {}, 0};
  for (size_t t = 0; t < own.size(); ++t) {
    for (int64_t c = 0; c < y.cols; ++c) {
      std::vector<float> leaf_sums(static_cast<size_t>(experts.count()), 0.0f);
      for (int64_t k = 0; k < ids.cols; ++k) {
        const float expert = ids.data[own[t] * ids.cols + k];
        const Local* holder = nullptr;
        int64_t row = -1;
        for (int peer : GroupOf(g_, node, rank)) {
          const Local& routes = values_[node.in[1]][peer];
          for (int64_t r = 0; r < routes.rows; ++r) {
            if (routes.data[3 * r] != expert ||
                routes.data[3 * r + 1] != static_cast<float>(own[t]) ||
                routes.data[3 * r + 2] != static_cast<float>(k))
              continue;
            holder = &values_[node.in[0]][peer];
            row = r;
          }
        }
        if (holder == nullptr || holder->cols != y.cols)
          return Malformed(node, "nobody of the group has the row");
        int leaf = 0;
        while (experts.start(leaf + 1) <= static_cast<int64_t>(expert)) ++leaf;
        float& sum = leaf_sums[static_cast<size_t>(leaf)];
        sum = std::fma(weights.data[static_cast<int64_t>(t) * ids.cols + k],
                       holder->data[row * y.cols + c], sum);
      }
      std::vector<std::pair<LeafRange, float>> sums;
      for (int l = 0; l < experts.count(); ++l)
        sums.push_back({{l, l + 1}, leaf_sums[static_cast<size_t>(l)]});
      y.data.push_back(Round(*Tree(0, experts.count(), sums), g_.value(node.out[0])));
    }
  }
  values_[node.out[0]][rank] = std::move(y);
  return Status::Ok();
}

}  // namespace weft::test
