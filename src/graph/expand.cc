// expand(): each word of intention becomes primitive ops, always the same ones, before any pass.
//   column_linear  -> [quantise], matmul
//   row_linear     -> [quantise], matmul (f32 roots), finish (bias, one rounding)
//   lm_head        -> [quantise], matmul to f32
//   self_attention -> kv_write, attention
//   experts        -> route, group_routes, [quantise], dispatch, expert_matmul, silu_mul, [quantise],
//                     expert_matmul, combine (f32 roots), finish
#include <fmt/format.h>

#include <map>

#include "base/check.h"
#include "graph/builder.h"

namespace weft::graph {
namespace {

class Expander {
 public:
  Expander(const Graph& source, const ExpandOptions& options) : source_(source), options_(options) {
    out_ = source;
    out_.nodes.clear();
  }

  Graph Run() {
    for (const Node& node : source_.nodes) Lower(node);
    return std::move(out_);
  }

 private:
  void Lower(const Node& node) {
    switch (node.op) {
      case Op::kEmbedding: return Rename(node, Op::kEmbed);
      case Op::kSwiGlu: return Rename(node, Op::kSiluMul);
      case Op::kColumnLinear:
      case Op::kLmHead: return Column(node);
      case Op::kRowLinear: return Row(node);
      case Op::kSelfAttention: return Attention(node);
      case Op::kExperts: return Experts(node);
      default: out_.nodes.push_back(node); return;
    }
  }

  void Rename(const Node& node, Op op) {
    Node copy = node;
    copy.op = op;
    out_.nodes.push_back(std::move(copy));
  }

  ValueId Temp(std::string name, DType dtype, std::vector<Dim> dims) {
    Value value;
    value.name = std::move(name);
    value.dtype = dtype;
    value.dims = std::move(dims);
    out_.values.push_back(std::move(value));
    return static_cast<ValueId>(out_.values.size()) - 1;
  }

  // int8 rows of x for a quantised weight, made once for all weights that read x.
  ValueId Input(ValueId x, ValueId weight, const std::string& layer) {
    if (!options_.int8_activations || !IsQuantised(out_.value(weight).dtype)) return x;
    if (auto known = quantised_.find(x); known != quantised_.end()) return known->second;
    const ValueId q = Temp(out_.value(x).name + ".int8", DType::kI8, out_.value(x).dims);
    out_.value(q).int8_rows = true;
    out_.nodes.push_back({Op::kQuantise, {x}, {q}, {}, layer});
    return quantised_[x] = q;
  }

  // Weights of one node may have different formats (a Q4_K_M file): each input form gets a matmul.
  void Column(const Node& node) {
    const MatmulOperands operands = OperandsOf(node);
    std::map<DType, std::vector<size_t>> by_format;
    for (size_t i = 0; i < operands.weights.size(); ++i) {
      by_format[out_.value(operands.weights[i]).dtype].push_back(i);
    }
    for (const auto& [dtype, members] : by_format) {
      Node matmul{Op::kMatmul, {}, {}, {}, node.layer};
      matmul.in.push_back(Input(operands.x, operands.weights[members[0]], node.layer));
      int64_t mask = 0;
      for (size_t i : members) matmul.in.push_back(operands.weights[i]);
      for (size_t j = 0; j < members.size(); ++j) {
        if (operands.biases[members[j]] == kNoValue) continue;
        mask |= int64_t{1} << j;
        matmul.in.push_back(operands.biases[members[j]]);
      }
      for (size_t i : members) matmul.out.push_back(node.out[i]);
      matmul.Set("weights", static_cast<int64_t>(members.size()));
      matmul.Set("biases", mask);
      out_.nodes.push_back(std::move(matmul));
    }
  }

  void Row(const Node& node) {
    const MatmulOperands operands = OperandsOf(node);
    const Value y = out_.value(node.out[0]);
    const ValueId roots = Temp(y.name + ".roots", DType::kF32, y.dims);
    Node matmul{Op::kMatmul,
                {Input(operands.x, operands.weights[0], node.layer), operands.weights[0]},
                {roots},
                {},
                node.layer};
    matmul.Set("weights", int64_t{1});
    matmul.Set("roots", int64_t{1});  // the output is the leaf tree's roots, not yet a value
    out_.nodes.push_back(std::move(matmul));
    Node finish{Op::kFinish, {roots}, {node.out[0]}, {}, node.layer};
    if (operands.biases[0] != kNoValue) finish.in.push_back(operands.biases[0]);
    out_.nodes.push_back(std::move(finish));
  }

  void Attention(const Node& node) {
    Node write{Op::kKvWrite,
               {node.in[3], node.in[1], node.in[2], node.in[4]},
               {node.out[1]},
               node.attrs,
               node.layer};
    Node attention{Op::kAttention,
                   {node.in[0], node.out[1], node.in[5]},
                   {node.out[0]},
                   node.attrs,
                   node.layer};
    out_.nodes.push_back(std::move(write));
    out_.nodes.push_back(std::move(attention));
  }

  // Rows of the tokens that go to experts, sent once for all weights that read them so.
  ValueId Dispatched(ValueId x, ValueId groups, const std::string& layer) {
    const auto [known, first] = dispatched_.try_emplace({x, groups}, kNoValue);
    if (!first) return known->second;
    const Value like = out_.value(x);
    const ValueId y =
        Temp(like.name + ".routed", like.dtype, {out_.value(groups).dims[0], like.dims[1]});
    out_.value(y).int8_rows = like.int8_rows;
    out_.nodes.push_back({Op::kDispatch, {x, groups}, {y}, {}, layer});
    return known->second = y;
  }

  std::vector<ValueId> ExpertMatmul(ValueId x, ValueId groups, const std::vector<ValueId>& weights,
                                    const std::vector<std::string>& names, DType dtype,
                                    const std::string& layer) {
    Node node{Op::kExpertMatmul, {x, groups}, {}, {}, layer};
    node.in.insert(node.in.end(), weights.begin(), weights.end());
    for (size_t i = 0; i < weights.size(); ++i) {
      node.out.push_back(
          Temp(names[i], dtype, {out_.value(groups).dims[0], out_.value(weights[i]).dims[1]}));
    }
    node.Set("weights", static_cast<int64_t>(weights.size()));
    out_.nodes.push_back(node);
    return node.out;
  }

  void Experts(const Node& node) {
    const ValueId x = node.in[0], gate = node.in[2], up = node.in[3], down = node.in[4];
    const Value y = out_.value(node.out[0]);
    const std::string& layer = node.layer;
    const Dim tokens = y.dims[0], k = Dim::C(node.Int("top_k"));
    const ValueId ids = Temp(y.name + ".ids", DType::kI32, {tokens, k}),
                  weights = Temp(y.name + ".weights", DType::kF32, {tokens, k});
    Node route{Op::kRoute, {node.in[1]}, {ids, weights}, node.attrs, layer};
    if (node.in.size() == 6) route.in.push_back(node.in[5]);
    out_.nodes.push_back(std::move(route));
    const ValueId groups =
        Temp(y.name + ".routes", DType::kI32, {Dim::Routes(k.n, out_.value(gate).dims[0].table)});
    out_.nodes.push_back({Op::kGroupRoutes, {ids}, {groups}, {}, layer});

    const auto routed = [&](ValueId weight) {
      return Dispatched(Input(x, weight, layer), groups, layer);
    };
    const std::string gate_name = y.name + ".gate", up_name = y.name + ".up";
    std::vector<ValueId> parts;
    if (out_.value(gate).dtype == out_.value(up).dtype) {
      parts = ExpertMatmul(routed(gate), groups, {gate, up}, {gate_name, up_name}, y.dtype, layer);
    } else {
      parts = ExpertMatmul(routed(gate), groups, {gate}, {gate_name}, y.dtype, layer);
      parts.push_back(ExpertMatmul(routed(up), groups, {up}, {up_name}, y.dtype, layer)[0]);
    }
    const ValueId act = Temp(y.name + ".silu_mul", y.dtype, out_.value(parts[0]).dims);
    out_.nodes.push_back({Op::kSiluMul, {parts[0], parts[1]}, {act}, {}, layer});
    const auto rows =
        ExpertMatmul(Input(act, down, layer), groups, {down}, {y.name + ".down"}, y.dtype, layer);
    const ValueId roots = Temp(y.name + ".roots", DType::kF32, y.dims);
    out_.nodes.push_back({Op::kCombine, {rows[0], groups, ids, weights}, {roots}, {}, layer});
    out_.nodes.push_back({Op::kFinish, {roots}, {node.out[0]}, {}, layer});
  }

  const Graph& source_;
  const ExpandOptions& options_;
  Graph out_;
  std::map<ValueId, ValueId> quantised_;
  std::map<std::pair<ValueId, ValueId>, ValueId> dispatched_;  // by (rows, grouping)
};

}  // namespace

Graph Expand(const Graph& graph, const ExpandOptions& options) {
  WEFT_CHECK(!graph.placed(), "{} is placed already", graph.model);
  return Expander(graph, options).Run();
}

}  // namespace weft::graph
