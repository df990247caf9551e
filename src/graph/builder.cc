#include "graph/builder.h"

#include <fmt/format.h>

#include "base/check.h"

namespace weft::graph {

Builder::Builder(std::string model, DType model_dtype) : model_dtype_(model_dtype) {
  graph_.model = std::move(model);
}

int Builder::Table(std::string name, LeafTable leaves) {
  graph_.tables.push_back({std::move(name), std::move(leaves), -1, 0});
  return static_cast<int>(graph_.tables.size()) - 1;
}

int Builder::WholeTable(std::string name, LeafTable leaves) {
  const int table = Table(std::move(name), std::move(leaves));
  graph_.tables[static_cast<size_t>(table)].whole = true;
  return table;
}

int Builder::FollowingTable(std::string name, int64_t n, int64_t width, int follows,
                            int64_t follow_width) {
  LeafTable leaves = LeafTable::Make(n, width, static_cast<int>(n / width));
  graph_.tables.push_back({std::move(name), std::move(leaves), follows, follow_width});
  return static_cast<int>(graph_.tables.size()) - 1;
}

ValueId Builder::Temp(std::string name, DType dtype, std::vector<Dim> dims) {
  Value value;
  value.name = layer_.empty() ? std::move(name) : layer_ + "." + name;
  value.dtype = dtype;
  value.dims = std::move(dims);
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

ValueId Builder::Input(std::string name, DType dtype, std::vector<Dim> dims) {
  Value value{std::move(name), ValueKind::kInput, dtype, false, false, std::move(dims), {}};
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

ValueId Builder::State(std::string name, std::vector<Dim> dims, std::optional<DType> dtype) {
  const ValueId id = Input(std::move(name), dtype.value_or(model_dtype_), std::move(dims));
  graph_.values[id].kind = ValueKind::kState;
  return id;
}

ValueId Builder::Param(std::string name, DType dtype, std::vector<Dim> dims) {
  // A tied weight is one param: it exists once.
  const auto [known, added] = params_.try_emplace(name, static_cast<ValueId>(graph_.values.size()));
  if (!added) return known->second;
  const ValueId id = Input(std::move(name), dtype, std::move(dims));
  graph_.values[id].kind = ValueKind::kParam;
  return id;
}

Node& Builder::Emit(Op op, std::vector<ValueId> in, std::vector<ValueId> out) {
  graph_.nodes.push_back({op, std::move(in), std::move(out), {}, layer_});
  return graph_.nodes.back();
}

ValueId Builder::Embedding(ValueId ids, ValueId table) {
  const ValueId y = Temp("embedding", model_dtype_, {Dim::T(), Dim::C(at(table).dims[1].n)});
  Emit(Op::kEmbedding, {ids, table}, {y});
  return y;
}

std::vector<ValueId> Builder::ColumnLinear(ValueId x, std::vector<ValueId> weights,
                                           std::vector<ValueId> biases,
                                           std::vector<std::string> names,
                                           std::optional<DType> dtype) {
  std::vector<ValueId> in{x}, out;
  in.insert(in.end(), weights.begin(), weights.end());
  int64_t mask = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (biases[i] != kNoValue) {
      mask |= int64_t{1} << i;
      in.push_back(biases[i]);
    }
    out.push_back(
        Temp(names[i], dtype.value_or(model_dtype_), {at(x).dims[0], at(weights[i]).dims[0]}));
  }
  Node& node = Emit(Op::kColumnLinear, std::move(in), out);
  node.Set("weights", static_cast<int64_t>(weights.size()));
  node.Set("biases", mask);
  return out;
}

ValueId Builder::RowLinear(ValueId x, ValueId weight, ValueId bias, std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, {at(x).dims[0], at(weight).dims[0]});
  std::vector<ValueId> in{x, weight};
  if (bias != kNoValue) in.push_back(bias);
  Node& node = Emit(Op::kRowLinear, std::move(in), {y});
  node.Set("weights", int64_t{1});
  node.Set("biases", int64_t{bias != kNoValue});
  return y;
}

ValueId Builder::LmHead(ValueId x, ValueId weight) {
  const ValueId y = Temp("logits", DType::kF32, {at(x).dims[0], at(weight).dims[0]});
  Node& node = Emit(Op::kLmHead, {x, weight}, {y});
  node.Set("weights", int64_t{1});
  return y;
}

ValueId Builder::RmsNorm(ValueId x, ValueId gain, double eps, int64_t groups, int64_t leaf_atom,
                         std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, at(x).dims);
  Node& node = Emit(Op::kRmsNorm, {x, gain}, {y});
  node.Set("eps", eps);
  node.Set("groups", groups);
  node.Set("width", at(gain).dims[0].n);
  node.Set("leaf_atom", leaf_atom);
  return y;
}

ValueId Builder::Add(ValueId a, ValueId b, std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, at(a).dims);
  Emit(Op::kAdd, {a, b}, {y});
  return y;
}

ValueId Builder::Rope(ValueId x, ValueId positions, int64_t head_dim, int64_t rot,
                      std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, at(x).dims);
  Node& node = Emit(Op::kRope, {x, positions}, {y});
  node.Set("head_dim", head_dim);
  node.Set("rot", rot);
  return y;
}

std::pair<ValueId, ValueId> Builder::SelfAttention(const AttentionArgs& args) {
  const ValueId y = Temp("attention", model_dtype_, at(args.q).dims);
  const ValueId kv = NextVersion(args.kv);
  Node& node = Emit(Op::kSelfAttention,
                    {args.q, args.k, args.v, args.kv, args.slots, args.segments}, {y, kv});
  node.Set("head_dim", args.head_dim);
  node.Set("group", args.group);
  node.Set("scale", args.scale);
  return {y, kv};
}

ValueId Builder::SwiGlu(ValueId gate, ValueId up) {
  const ValueId y = Temp("silu_mul", model_dtype_, at(gate).dims);
  Emit(Op::kSwiGlu, {gate, up}, {y});
  return y;
}

ValueId Builder::SigmoidMul(ValueId x, ValueId gate, std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, at(x).dims);
  Emit(Op::kSigmoidMul, {x, gate}, {y});
  return y;
}

ValueId Builder::GateRows(ValueId x, ValueId gate, std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, at(x).dims);
  Emit(Op::kGateRows, {x, gate}, {y});
  return y;
}

ValueId Builder::Experts(const ExpertArgs& args) {
  const ValueId y = Temp("experts", model_dtype_, at(args.x).dims);
  std::vector<ValueId> in{args.x, args.logits, args.gate, args.up, args.down};
  if (args.correction != kNoValue) in.push_back(args.correction);
  Node& node = Emit(Op::kExperts, std::move(in), {y});
  node.Set("top_k", args.top_k);
  node.Set("scale", args.scale);
  node.Set("sigmoid", int64_t{args.sigmoid});
  node.Set("renormalise", int64_t{args.renormalise});
  node.Set("groups", args.groups);
  node.Set("groups_kept", args.groups_kept);
  return y;
}

ValueId Builder::NextVersion(ValueId state) {
  const Value& v = at(state);
  return State(v.name + "'", v.dims, v.dtype);
}

ValueId Builder::CausalConv(ValueId conv, ValueId x, ValueId w, ValueId segments,
                            std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, at(x).dims);
  const ValueId next = NextVersion(conv);
  Emit(Op::kCausalConv, {conv, x, w, segments}, {y, next});
  return y;
}

ValueId Builder::GatedDelta(const DeltaArgs& args) {
  const ValueId y = Temp("delta", model_dtype_, at(args.v).dims);
  const ValueId next = NextVersion(args.state);
  Node& node = Emit(Op::kGatedDelta,
                    {args.state, args.q, args.k, args.v, args.a, args.b, args.neg_exp_a,
                     args.dt_bias, args.segments},
                    {y, next});
  node.Set("key_dim", args.key_dim);
  node.Set("value_dim", args.value_dim);
  if (args.tiled) node.Set("tiled", int64_t{1});
  return y;
}

ValueId Builder::GatedRmsNorm(ValueId x, ValueId z, ValueId gain, double eps, int64_t groups,
                              int64_t leaf_atom, bool sigmoid, std::string name) {
  const ValueId y = Temp(std::move(name), model_dtype_, at(x).dims);
  Node& node = Emit(Op::kGatedRmsNorm, {x, z, gain}, {y});
  node.Set("eps", eps);
  node.Set("groups", groups);
  node.Set("width", at(gain).dims[0].n);
  node.Set("leaf_atom", leaf_atom);
  node.Set("sigmoid", int64_t{sigmoid});
  return y;
}

ValueId Builder::Concat(ValueId a, ValueId b, std::string name) {
  const ValueId y = Temp(std::move(name), at(a).dtype,
                         {at(a).dims[0], Dim::C(at(a).dims[1].n + at(b).dims[1].n)});
  Emit(Op::kConcat, {a, b}, {y});
  return y;
}
ValueId Builder::GatherRows(ValueId x, ValueId rows) {
  const ValueId y = Temp("rows_hidden", at(x).dtype, {Dim::HeadRows(), at(x).dims[1]});
  Emit(Op::kGatherRows, {x, rows}, {y});
  return y;
}

ValueId Builder::Argmax(ValueId logits) {
  const ValueId y = Temp("argmax", DType::kF32, {Dim::HeadRows()});
  graph_.values[y].pairs = true;
  Emit(Op::kArgmax, {logits}, {y});
  return y;
}

ValueId Builder::Sample(ValueId logits) {
  const ValueId y = Temp("sampled", DType::kI32, {Dim::HeadRows()});
  Emit(Op::kSample, {logits}, {y});
  return y;
}

ValueId Builder::HashLogits(ValueId logits) {
  const ValueId y = Temp("logits_hash", DType::kI64, {Dim::HeadRows()});
  Emit(Op::kHashLogits, {logits}, {y});
  return y;
}

Graph Builder::Finish(std::vector<ValueId> outputs) {
  graph_.outputs = std::move(outputs);
  return std::move(graph_);
}

}  // namespace weft::graph
