#include "cli/schedule_bytes.h"

#include <algorithm>
#include <vector>

#include "comm/roots.h"
#include "plan/wire_bytes.h"

namespace weft::cli {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using plan::Schedule;

namespace {

bool InLayer(const Node& node, std::string_view layer) {
  const std::string_view name = node.layer;
  return name.starts_with(layer) && (name.size() == layer.size() || name[layer.size()] == '.');
}

double InputBytes(const Value& x) {
  return x.int8_rows ? 1.25 : static_cast<double>(FactsOf(x.dtype).block_bytes);
}

LeafTable KTableOf(const Graph& g, const Node& matmul) {
  const graph::ValueId weight = OperandsOf(matmul).weights.front();
  const plan::KLeaves leaves = plan::LeavesOf(g, weight, 0);
  return leaves.table != nullptr ? *leaves.table : LeafTable::Whole(g.value(weight).dims[1].n);
}

double RootsOf(const LeafTable& table, int members) {
  return comm::MakeRootLayout(table, members).count();
}

}  // namespace

std::optional<LayerShape> MiddleLayerOf(const plan::Plan& plain) {
  const Graph& g = plain.graph;
  std::vector<std::string> layers;  // that reduce something, in order
  for (const Node& node : g.nodes) {
    std::string name = node.layer.substr(0, node.layer.find('.'));
    if (node.op == Op::kAllReduce && (layers.empty() || layers.back() != name))
      layers.push_back(std::move(name));
  }
  if (layers.empty()) return std::nullopt;
  LayerShape shape;
  shape.name = layers[layers.size() / 2];
  std::vector<const Node*> matmuls, reduces;
  for (const Node& node : g.nodes) {
    if (!InLayer(node, shape.name)) continue;
    if (node.op == Op::kMatmul) matmuls.push_back(&node);
    if (node.op == Op::kAllReduce) reduces.push_back(&node);
  }
  if (matmuls.size() != 4 || reduces.size() != 2) return std::nullopt;
  const auto input = [&](int i) -> const Value& { return g.value(OperandsOf(*matmuls[i]).x); };
  const Value& y = g.value(reduces[0]->out[0]);
  shape.hidden = y.dims[1].n;
  shape.heads = input(1).dims[1].n;
  shape.ffn = input(3).dims[1].n;
  shape.heads_leaves = KTableOf(g, *matmuls[1]);
  shape.ffn_leaves = KTableOf(g, *matmuls[3]);
  shape.qkv_in = InputBytes(input(0));
  shape.o_in = InputBytes(input(1));
  shape.gate_in = InputBytes(input(2));
  shape.down_in = InputBytes(input(3));
  shape.rounded = FactsOf(y.dtype).block_bytes;
  return shape;
}

int64_t PlannedBytes(const plan::Plan& plan, std::string_view layer, int64_t rows) {
  int64_t bytes = 0;
  for (const plan::Step& step : plan.steps) {
    if (InLayer(plan.graph.nodes[step.node], layer)) bytes += WireBytes(plan, step, rows);
  }
  return bytes;
}

int64_t PlannedBytes(const plan::Plan& plan, int64_t rows) {
  int64_t bytes = 0;
  for (const plan::Step& step : plan.steps) bytes += WireBytes(plan, step, rows);
  return bytes;
}

double FormulaBytes(const LayerShape& layer, Schedule schedule, int ranks, int otp,
                    std::string_view method_o, std::string_view method_down, int64_t rows) {
  const double t = ranks, h = static_cast<double>(layer.hidden),
               rounded = static_cast<double>(layer.rounded);
  const auto scatter = [&](const LeafTable& table, double members) {
    return 4 * RootsOf(table, static_cast<int>(members)) * (members - 1) / members * h;
  };
  const auto reduce = [&](const LeafTable& table, std::string_view method) {
    return method == "direct" ? 4 * RootsOf(table, ranks) * (t - 1) * h
                              : scatter(table, t) + rounded * (t - 1) * h;
  };
  const auto gather = [&](double width, double bytes) { return bytes * (t - 1) * width; };
  const double whole_o = reduce(layer.heads_leaves, method_o),
               whole_down = reduce(layer.ffn_leaves, method_down);
  const double regrouped_o = layer.o_in * (1 - otp / t) * static_cast<double>(layer.heads) +
                             scatter(layer.heads_leaves, otp);
  const double scattered_down = scatter(layer.ffn_leaves, t);
  const double bf16_gathers = 2 * gather(h, rounded),
               sunk_gathers = gather(h, layer.qkv_in) + gather(h, layer.gate_in);
  double row = 0;
  switch (schedule) {
    case Schedule::kPlain: row = whole_o + whole_down; break;
    case Schedule::kSp: row = scatter(layer.heads_leaves, t) + scattered_down + bf16_gathers; break;
    case Schedule::kFc1:
      row = scatter(layer.heads_leaves, t) + scattered_down + sunk_gathers;
      break;
    case Schedule::kFc2: row = regrouped_o + gather(h, rounded) + whole_down; break;
    case Schedule::kFc1Fc2: row = regrouped_o + scattered_down + sunk_gathers; break;
    case Schedule::kGather:
      row = gather(static_cast<double>(layer.heads), layer.o_in) +
            gather(static_cast<double>(layer.ffn), layer.down_in) + bf16_gathers;
      break;
  }
  return row * static_cast<double>(rows);
}

}  // namespace weft::cli
