#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "graph/meaning.h"
#include "graph/passes/pass.h"
#include "graph/verify.h"

namespace weft::graph {

ValueId AddLike(Graph& g, ValueId id, std::string_view suffix) {
  Value value = g.value(id);
  value.name += suffix;
  value.kind = ValueKind::kTemp;
  g.values.push_back(std::move(value));
  return static_cast<ValueId>(g.values.size()) - 1;
}

int64_t AllAxes(const Graph& g) { return (int64_t{1} << g.mesh.axes.size()) - 1; }

Placements WholeOnAll(const Graph& g) { return Placements(g.mesh.axes.size(), Placement::R()); }

Node MoveOnAll(const Graph& g, Op op, ValueId from, ValueId to, const std::string& layer) {
  Node node{op, {from}, {to}, {}, layer};
  node.Set("axes", AllAxes(g));
  return node;
}

Placements CutByAll(const Graph& g, int dim) {
  Placements on;
  for (size_t a = 0; a < g.mesh.axes.size(); ++a)
    on.push_back(Placement::S(dim, static_cast<int>(a)));
  return on;
}

int64_t RowBytes(const Graph& g, ValueId id) {
  const Value& v = g.value(id);
  return BytesOfRow(v, v.dims.size() < 2 ? 1 : v.dims.back().n);
}

int ProductOf(const Graph& g, const Uses& uses, const Node& exchange) {
  if (exchange.IntOr("axes", AllAxes(g)) != AllAxes(g) || exchange.Has("order")) return -1;
  const ValueId roots = exchange.in[0];
  const int product = uses.ProducerOf(roots);
  if (product < 0 || g.nodes[product].op != Op::kMatmul || !MakesRoots(g.nodes[product], roots))
    return -1;
  return uses.ReadersOf(roots).size() == 1 && g.nodes[product].out.size() == 1 ? product : -1;
}

void EraseNodes(Graph& g, const std::vector<bool>& gone) {
  size_t kept = 0;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (gone[n]) continue;
    if (kept != n) g.nodes[kept] = std::move(g.nodes[n]);
    ++kept;
  }
  g.nodes.resize(kept);
}

void RemoveDead(Graph& g) {
  std::vector<bool> live(g.values.size(), false);
  for (ValueId id : g.outputs) live[id] = true;
  std::vector<Node> kept;
  for (auto node = g.nodes.rbegin(); node != g.nodes.rend(); ++node) {
    const bool needed =
        FactsOf(node->op).effect ||
        std::any_of(node->out.begin(), node->out.end(), [&](ValueId id) { return live[id]; });
    if (!needed) continue;
    for (ValueId id : node->in) live[id] = true;
    for (ValueId id : node->out) live[id] = true;
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  g.nodes = std::move(kept);

  std::vector<ValueId> moved(g.values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (!live[i]) continue;
    moved[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(g.values[i]));
  }
  g.values = std::move(values);
  for (Node& node : g.nodes) {
    for (ValueId& id : node.in) id = moved[id];
    for (ValueId& id : node.out) id = moved[id];
  }
  for (ValueId& id : g.outputs) id = moved[id];
}

Result<PassRun> RunPasses(Graph placed, const PassContext& context, bool eager) {
  PassRun run{std::move(placed), {}};
  const Meaning meaning = MeaningOf(run.graph);
  for (const Pass& pass : AllPasses()) {
    PassReport report;
    report.name = pass.name;
    const Switch wanted = context.of(pass.name);
    report.asked = wanted == Switch::kOn;
    if (wanted == Switch::kOff) {
      report.refusal = "off by --opt";
    } else if (eager && wanted != Switch::kOn) {
      report.refusal = "--enforce-eager";
    } else {
      report.refusal = pass.refuse(context);
    }
    if (report.refusal.empty()) {
      const auto start = std::chrono::steady_clock::now();
      report.rewrites = pass.run(run.graph, context);
      RemoveDead(run.graph);
      WEFT_RETURN_IF_ERROR(Verify(run.graph).In(pass.name));
      WEFT_RETURN_IF_ERROR(SameMeaning(meaning, run.graph).In(pass.name));
      report.ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now() - start)
                      .count();
      if (report.rewrites == 0) {
        if (pass.why_not != nullptr) report.refusal = pass.why_not(run.graph, context);
        if (report.refusal.empty()) report.refusal = "nothing to rewrite";
      }
    }
    run.reports.push_back(std::move(report));
  }
  return run;
}

}  // namespace weft::graph
