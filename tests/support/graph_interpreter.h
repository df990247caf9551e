// Computes a graph on virtual ranks in plain loops: every rank holds what its placements say and
// nothing else crosses between them but exchanges. Sums follow the leaf trees and values are
// rounded as docs/numerics.md says, so that a change of bits shows. It judges rewrites in tests, by
// another way than the verifier: by what comes out. Here are its data and the ops that are about
// nobody but a row; the others by what they are about, in files of their own.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/rng.h"
#include "graph/graph.h"

namespace weft::test {

using graph::ElementRange;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;

// A wrong graph makes ops read what is not there: that is found out, not done.
template <typename T>
struct Checked : std::vector<T> {
  using std::vector<T>::vector;
  Checked(std::vector<T> from) : std::vector<T>(std::move(from)) {}
  T& operator[](size_t i) { return this->at(i); }
  const T& operator[](size_t i) const { return this->at(i); }
};

// Two sequences in one step: rows 0..2 continue one from position 0, row 3 begins another.
struct StepData {
  Checked<int> ids{7, 42, 3, 99};
  Checked<int> positions{0, 1, 2, 0};
  Checked<int> slots{0, 1, 2, 8};
  Checked<int> head_rows{2, 3};
  static constexpr int kSlots = 16;
  int sequence(int slot) const { return slot / 8; }
};

// A value on one rank. Roots of a leaf tree: one block of `data` each.
struct Local {
  int64_t rows = 0, cols = 0;
  Checked<float> data;
  std::vector<LeafRange> roots;  // of a Partial's tree; empty: plain
  int leaves = 0;                // of that tree
  friend bool operator==(const Local&, const Local&) = default;
  // [cols]
  const float* row(int64_t r) const {
    if (cols > 0) static_cast<void>(data[static_cast<size_t>((r + 1) * cols - 1)]);
    return data.data() + r * cols;
  }
  float* row(int64_t r) { return const_cast<float*>(std::as_const(*this).row(r)); }
};

class Interpreter {
 public:
  Interpreter(const Graph& g, StepData step = {})
      : g_(g), step_(std::move(step)), ranks_(g.mesh.ranks()) {}

  // Outputs and written states by name, as each rank holds them. kInvalid: what a rank holds does
  // not fit what the graph says or what an op needs; no machine could run it as it is meant.
  Result<std::map<std::string, std::vector<Local>>> Run() {
    values_.assign(g_.values.size(), std::vector<Local>(ranks_));
    const graph::Uses uses(g_);
    for (size_t id = 0; id < g_.values.size(); ++id) {
      if (uses.ProducerOf(static_cast<ValueId>(id)) >= 0) continue;
      for (int r = 0; r < ranks_; ++r) values_[id][r] = Source(static_cast<ValueId>(id), r);
    }
    std::map<std::string, std::vector<Local>> result;
    std::vector<Node> links;
    for (const Node& node : g_.nodes) {
      if (!IsFused(node.op)) {
        links.push_back(node);
        continue;
      }
      const graph::FusedChain chain = ChainOf(node);
      links.insert(links.end(), {chain.matmul, chain.exchange});
      if (chain.norm.op != Op::kCount) links.push_back(chain.norm);
    }
    for (const Node& node : links) {
      for (int r = 0; r < ranks_; ++r) {
        try {
          WEFT_RETURN_IF_ERROR(Compute(node, r));
        } catch (const std::out_of_range&) {
          return Malformed(node, "it reads what a rank does not hold");
        }
        for (ValueId id : node.out) {
          const Local& x = values_[id][r];
          if (g_.value(id).pairs || g_.value(id).dims.size() != 2 ||
              g_.value(id).kind == graph::ValueKind::kState)
            continue;
          if (g_.value(id).dims[0].sym == graph::Sym::kRoutes)
            continue;  // who has which is the router's to say
          if (x.cols != Range(id, 1, r).size())
            return Malformed(node, "a rank holds another width than placed");
          if (x.rows != static_cast<int64_t>(Rows(id, LiveRows(id), r).size()))
            return Malformed(node, "a rank holds other rows than placed");
        }
      }
      if (WritesState(node.op)) result["state " + FirstName(node.in[0])] = values_[node.out.back()];
    }
    for (size_t i = 0; i < g_.outputs.size(); ++i)
      result[fmt::format("output {}", i)] = values_[g_.outputs[i]];
    return result;
  }

  // The elements of dim `d` that a rank holds.
  ElementRange Range(ValueId id, int d, int rank) const {
    return ElementsOf(g_, g_.value(id), d, rank);
  }

  // The numbers of the rows that a rank holds, of `rows` live ones.
  std::vector<int64_t> Rows(ValueId id, int64_t rows, int rank) const {
    std::vector<int64_t> mine;
    const Value& v = g_.value(id);
    const graph::Cut cut = v.on.empty() ? graph::Cut{} : CutOf(g_.mesh, v.on, 0);
    const std::vector<int> chunks =
        v.on.empty() ? std::vector<int>{0} : ChunksOf(g_.mesh, cut, rank);
    for (int c : chunks) {
      for (int64_t t = graph::ChunkBegin(rows, c, cut.chunks);
           t < graph::ChunkBegin(rows, c + 1, cut.chunks); ++t)
        mine.push_back(t);
    }
    return mine;
  }

  const std::vector<Local>& at(ValueId id) const { return values_[id]; }

 private:
  int64_t LiveRows(ValueId id) const {
    return static_cast<int64_t>(g_.value(id).dims[0].sym == graph::Sym::kHeadRows
                                    ? step_.head_rows.size()
                                    : step_.ids.size());
  }

  static Status Malformed(const Node& node, std::string_view why) {
    return Status::Invalid("{} at {}: {}", NameOf(node.op), node.layer, why);
  }

  static float Weight(const std::string& name, int64_t i, int64_t j, int64_t k) {
    uint64_t state = Hash64(name) ^ (static_cast<uint64_t>(i) << 32) ^ static_cast<uint64_t>(j);
    const float unit = static_cast<float>(SplitMix64(&state) >> 40) * 0x1p-23f - 1.0f;
    return k == 0 ? 1.0f + 0.3f * unit
                  : ToFloat(ToBf16(1.7f * unit / std::sqrt(static_cast<float>(k))));
  }

  std::string FirstName(ValueId state) const {
    const graph::Uses uses(g_);
    for (int n; (n = uses.ProducerOf(state)) >= 0;) state = g_.nodes[n].in[0];
    return g_.value(state).name;
  }

  Local Source(ValueId id, int rank) const {
    const Value& v = g_.value(id);
    const auto list = [](const std::vector<int>& from) {
      Local x{static_cast<int64_t>(from.size()), 1, {}, {}, 0};
      x.data.assign(from.begin(), from.end());
      return x;
    };
    if (v.kind == graph::ValueKind::kInput) {
      if (v.name == "ids") return list(step_.ids);
      if (v.name == "positions") return list(step_.positions);
      if (v.name == "slots") return list(step_.slots);
      if (v.name == "head_rows") return list(step_.head_rows);
      if (v.dims.size() < 2) return Local{};
    }
    if (v.kind == graph::ValueKind::kState) {
      const int64_t width = Range(id, 1, rank).size();
      return Local{2 * StepData::kSlots,
                   width,
                   std::vector<float>(2 * StepData::kSlots * width, 0.0f),
                   {},
                   0};
    }
    if (v.kind == graph::ValueKind::kTemp) return Local{};
    if (v.dims.size() == 1) {
      const ElementRange n = Range(id, 0, rank);
      Local x{1, n.size(), {}, {}, 0};
      for (int64_t i = n.begin; i < n.end; ++i) x.data.push_back(Weight(v.name, i, 0, 0));
      return x;
    }
    if (v.dims.size() == 3) {  // of every expert here, one below the other
      const ElementRange e = Range(id, 0, rank);
      Local x{e.size() * v.dims[1].n, v.dims[2].n, {}, {}, 0};
      for (int64_t i = e.begin * v.dims[1].n; i < e.end * v.dims[1].n; ++i) {
        for (int64_t j = 0; j < x.cols; ++j) x.data.push_back(Weight(v.name, i, j, x.cols));
      }
      return x;
    }
    const bool input = v.kind == graph::ValueKind::kInput;  // hidden rows
    const ElementRange n = input ? ElementRange{0, static_cast<int64_t>(step_.ids.size())}
                                 : Range(id, 0, rank),
                       k = Range(id, 1, rank);
    Local x{n.size(), k.size(), {}, {}, 0};
    for (int64_t i = n.begin; i < n.end; ++i) {
      for (int64_t j = k.begin; j < k.end; ++j) x.data.push_back(Weight(v.name, i, j, v.dims[1].n));
    }
    return x;
  }

  float Round(float x, const Value& v) const {
    return v.dtype == DType::kBF16 ? ToFloat(ToBf16(x)) : x;
  }

  // The sum of tree node [lo, hi) of one element, from roots that tile the leaves.
  static std::optional<float> Tree(int lo, int hi,
                                   const std::vector<std::pair<LeafRange, float>>& roots) {
    for (const auto& [range, value] : roots) {
      if (range.begin == lo && range.end == hi) return value;
    }
    if (hi - lo < 2) return std::nullopt;
    const int middle = TreeSplit(lo, hi);
    const auto left = Tree(lo, middle, roots), right = Tree(middle, hi, roots);
    if (!left || !right) return std::nullopt;
    return *left + *right;
  }

  Status Compute(const Node& node, int rank) {
    const auto in = [&](size_t i) -> const Local& { return values_[node.in[i]][rank]; };
    const auto out = [&](size_t i) -> Local& { return values_[node.out[i]][rank]; };
    const auto y_value = [&](size_t i) -> const Value& { return g_.value(node.out[i]); };
    switch (node.op) {
      case Op::kMatmul: return Matmul(node, rank);
      case Op::kFinish: return Finish(node, rank, {rank});
      case Op::kAllReduce:
      case Op::kReduceScatter: return Finish(node, rank, GroupOf(g_, node, rank));
      case Op::kEmbed: {  // the owner's leaf is read in place
        const Value& table = g_.value(node.in[1]);
        const std::vector<int64_t> rows = Rows(node.out[0], in(0).rows, rank);
        Local y{static_cast<int64_t>(rows.size()), table.dims[1].n, {}, {}, 0};
        for (int64_t row : rows) {
          const float id = in(0).data[row];
          for (int64_t j = 0; j < y.cols; ++j)
            y.data.push_back(
                Round(Weight(table.name, static_cast<int64_t>(id), j, y.cols), y_value(0)));
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kQuantise: {
        Local y = in(0);
        for (int64_t t = 0; t < y.rows; ++t) {
          for (int64_t c = 0; c < y.cols; c += 32) {
            float amax = 0;
            const int64_t end = std::min(c + 32, y.cols);
            for (int64_t j = c; j < end; ++j)
              amax = std::max(amax, std::fabs(y.data[t * y.cols + j]));
            for (int64_t j = c; j < end && amax > 0; ++j) {
              float& x = y.data[t * y.cols + j];
              x = std::nearbyint(x * (127 / amax)) * (amax / 127);
            }
          }
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kAdd: return Elementwise(node, rank, [&](float a, float b) { return a + b; });
      case Op::kSiluMul:
        return Elementwise(node, rank,
                           [&](float a, float b) { return a / (1 + std::exp(-a)) * b; });
      case Op::kSigmoidMul:
        return Elementwise(node, rank, [&](float a, float b) { return a / (1 + std::exp(-b)); });
      case Op::kGateRows: {
        const Local &x = in(0), &gate = in(1);
        if (gate.rows != x.rows || gate.cols != 1) return Malformed(node, "not one gate a row");
        Local y = x;
        for (size_t i = 0; i < y.data.size(); ++i)
          y.data[i] = Round(x.data[i] / (1 + std::exp(-gate.data[i / static_cast<size_t>(x.cols)])),
                            y_value(0));
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kConcat: {
        const Local &a = in(0), &b = in(1);
        if (a.rows != b.rows) return Malformed(node, "operands of different rows");
        Local y{a.rows, a.cols + b.cols, {}, {}, 0};
        for (int64_t r = 0; r < a.rows; ++r) {
          y.data.insert(y.data.end(), a.row(r), a.row(r) + a.cols);
          y.data.insert(y.data.end(), b.row(r), b.row(r) + b.cols);
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kRoute: return Route(node, rank);
      case Op::kGroupRoutes: return GroupRoutes(node, rank);
      case Op::kDispatch: {
        const Local &x = in(0), &routes = in(1);
        if (x.rows != static_cast<int64_t>(step_.ids.size()))
          return Malformed(node, "a route's token is on another rank");
        Local y{routes.rows, x.cols, {}, {}, 0};
        for (int64_t r = 0; r < routes.rows; ++r) {
          const auto token = static_cast<int64_t>(routes.data[3 * r + 1]);
          y.data.insert(y.data.end(), x.row(token), x.row(token) + x.cols);
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kDispatchRows: return DispatchRows(node, rank);
      case Op::kCombineRows: return CombineRows(node, rank);
      case Op::kExpertMatmul: return ExpertMatmul(node, rank);
      case Op::kCombine: return Combine(node, rank);
      case Op::kCausalConv: return CausalConv(node, rank);
      case Op::kGatedDelta: return GatedDelta(node, rank);
      case Op::kGatedRmsNorm:
        WEFT_RETURN_IF_ERROR(Norm(node, rank, in(0), node.in[2], 0));
        if (in(1).data.size() != out(0).data.size())
          return Malformed(node, "operands of different shape");
        for (size_t i = 0; i < out(0).data.size(); ++i) {
          const float z = in(1).data[i];
          out(0).data[i] = Round(out(0).data[i] * (z / (1 + std::exp(-z))), y_value(0));
        }
        return Status::Ok();
      case Op::kRmsNorm: return Norm(node, rank, in(0), node.in[1], 0);
      case Op::kAddRmsNorm:
        WEFT_RETURN_IF_ERROR(Elementwise(node, rank, [&](float a, float b) { return a + b; }));
        return Norm(node, rank, Local(out(0)), node.in[2], 1);
      case Op::kRope: return Rope(node, rank);
      case Op::kKvWrite: return KvWrite(node, rank);
      case Op::kAttention: return Attention(node, rank);
      case Op::kGatherRows: {
        const Local& x = in(0);
        Local y{in(1).rows, x.cols, {}, {}, 0};
        for (float row : in(1).data) {
          const float* from = x.row(static_cast<int64_t>(row));
          y.data.insert(y.data.end(), from, from + x.cols);
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kArgmax: {
        const Local& x = in(0);
        const int64_t first = Range(node.in[0], 1, rank).begin;
        Local y{x.rows, 2, {}, {}, 0};
        for (int64_t t = 0; t < x.rows; ++t) {
          const float* row = x.row(t);
          const int64_t best = std::max_element(row, row + x.cols) - row;
          y.data.push_back(x.cols == 0 ? -INFINITY : row[best]);
          y.data.push_back(static_cast<float>(first + best));
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kPairMax: {
        Local y = values_[node.in[0]][0];
        for (int r = 1; r < ranks_; ++r) {
          const Local& x = values_[node.in[0]][r];
          for (int64_t t = 0; t < y.rows; ++t) {
            if (x.data[2 * t] > y.data[2 * t]) std::copy_n(x.row(t), 2, y.row(t));
          }
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kAllGather:
      case Op::kAllToAll:
      case Op::kSliceRows: {
        // Element by element from whoever of the group has it.
        const std::vector<int64_t> rows = Rows(node.out[0], LiveRows(node.out[0]), rank);
        const ElementRange columns = Range(node.out[0], 1, rank);
        Local y{static_cast<int64_t>(rows.size()), columns.size(), {}, {}, 0};
        for (int64_t t : rows) {
          for (int64_t c = columns.begin; c < columns.end; ++c) {
            const float* found = nullptr;
            for (int peer : GroupOf(g_, node, rank)) {
              const Local& x = values_[node.in[0]][peer];
              if (!x.roots.empty()) return Malformed(node, "moves an unfinished tree");
              const std::vector<int64_t> theirs = Rows(node.in[0], LiveRows(node.in[0]), peer);
              const ElementRange have = Range(node.in[0], 1, peer);
              const auto row = std::find(theirs.begin(), theirs.end(), t);
              if (row == theirs.end() || c < have.begin || c >= have.end) continue;
              found = &x.data[(row - theirs.begin()) * x.cols + c - have.begin];
            }
            if (found == nullptr) return Malformed(node, "nobody of the group has an element");
            y.data.push_back(*found);
          }
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      case Op::kSample:
      case Op::kHashLogits: {
        const Local& x = in(0);
        if (x.cols != g_.value(node.in[0]).dims[1].n) return Malformed(node, "part of a row");
        Local y{x.rows, 1, {}, {}, 0};
        for (int64_t t = 0; t < x.rows; ++t) {
          const float* row = x.row(t);
          const float best = static_cast<float>(std::max_element(row, row + x.cols) - row);
          y.data.push_back(node.op == Op::kSample
                               ? best
                               : static_cast<float>(Hash64(row, x.cols * sizeof(float)) >> 40));
        }
        out(0) = std::move(y);
        return Status::Ok();
      }
      default: return Malformed(node, "this op cannot be computed here");
    }
  }

  template <typename F>
  Status Elementwise(const Node& node, int rank, F f) {
    const Local &a = values_[node.in[0]][rank], &b = values_[node.in[1]][rank];
    if (a.rows != b.rows || a.cols != b.cols || !a.roots.empty() || !b.roots.empty())
      return Malformed(node, "operands of different shape");
    Local y{a.rows, a.cols, {}, {}, 0};
    for (size_t i = 0; i < a.data.size(); ++i)
      y.data.push_back(Round(f(a.data[i], b.data[i]), g_.value(node.out[0])));
    values_[node.out[0]][rank] = std::move(y);
    return Status::Ok();
  }

  // graph_interpreter_sums.h
  Status Norm(const Node& node, int rank, const Local& x, ValueId gain_id, size_t output);
  Status Matmul(const Node& node, int rank);
  Status Finish(const Node& node, int rank, const std::vector<int>& group);

  // graph_interpreter_experts.h
  Status Route(const Node& node, int rank);
  Status GroupRoutes(const Node& node, int rank);
  Status DispatchRows(const Node& node, int rank);
  Status ExpertMatmul(const Node& node, int rank);
  Status Combine(const Node& node, int rank);
  Status CombineRows(const Node& node, int rank);

  // graph_interpreter_tokens.h
  std::vector<int64_t> History(int64_t t) const;
  Status CausalConv(const Node& node, int rank);
  Status GatedDelta(const Node& node, int rank);
  Status Rope(const Node& node, int rank);
  Status KvWrite(const Node& node, int rank);
  Status Attention(const Node& node, int rank);

  const Graph& g_;
  StepData step_;
  int ranks_;
  std::vector<std::vector<Local>> values_;  // [value][rank]
};

}  // namespace weft::test

#include "support/graph_interpreter_experts.h"
#include "support/graph_interpreter_sums.h"
#include "support/graph_interpreter_tokens.h"
