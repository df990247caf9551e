#include <algorithm>

#include <fmt/format.h>

#include "graph/text.h"
#include "plan/plan.h"

namespace weft::plan {
namespace {

std::string Amount(double n, std::string_view unit) {
  constexpr std::string_view kPrefix[] = {"", "k", "M", "G", "T"};
  int p = 0;
  while (n >= 1000 && p < 4) n /= 1000, ++p;
  if (n == 0) return "-";
  return n < 10 && p > 0 ? fmt::format("{:.1f} {}{}", n, kPrefix[p], unit) : fmt::format("{:.0f} {}{}", n, kPrefix[p], unit);
}

}  // namespace

std::string Print(const Plan& plan) {
  const graph::Graph& g = plan.graph;
  std::string mesh;
  for (const graph::MeshAxis& a : g.mesh.axes) mesh += fmt::format("{}{}={}", mesh.empty() ? "" : " ", a.name, a.size);
  std::string passes;
  for (const graph::PassReport& r : plan.passes) {
    if (r.rewrites > 0) passes += fmt::format("{}{}:{}", passes.empty() ? "" : ",", r.name, r.rewrites);
  }
  std::string out = fmt::format("plan {}  {}  mesh {}  target {}  workers {}  passes {}\n", g.model, ToString(plan.bucket), mesh,
                                plan.target, plan.workers_per_rank, passes.empty() ? "-" : passes);
  out += fmt::format("{:>4}  {:<10} {:<4} {:<14} {:<26} {:<6} {:<30} {:>9} {:>9} {:>9}  {}\n", "#", "layer", "lane", "op", "out", "on",
                     "impl", "weights", "per row", "flops/row", "waits");
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    const graph::Node& node = g.nodes[step.node];
    const graph::Value& y = g.value(node.out[0]);
    std::string type = graph::DimsText(g, y) + " " + graph::TypeText(y);
    if (node.out.size() > 1) type += fmt::format(" x{}", node.out.size());
    std::string waits = step.wait == Wait::kGroup ? "group" : step.wait == Wait::kRank ? "rank" : "-";
    if (step.split != Split::kUnits) {
      const std::string_view split = step.split == Split::kEach ? "each" : "heads";
      waits = waits == "-" ? std::string(split) : fmt::format("{} {}", waits, split);
    }
    if (step.partials > 0) waits += fmt::format(" partials={}", step.partials);
    if (step.cost.row_wire_bytes > 0) waits += fmt::format(" wire {}/row", Amount(static_cast<double>(step.cost.row_wire_bytes), "B"));
    out += fmt::format("{:>4}  {:<10} {:<4} {:<14} {:<26} {:<6} {:<30} {:>9} {:>9} {:>9}  {}\n", s, node.layer, step.lane, NameOf(node.op), type,
                       ToString(y.on), fmt::format("{}:{}", NameOf(node.op), step.impl), Amount(static_cast<double>(step.cost.weight_bytes), "B"),
                       Amount(static_cast<double>(step.cost.row_bytes), "B"), Amount(static_cast<double>(step.cost.row_flops), ""), waits);
  }
  // The same refusal at every layer is told once, with where it was first seen.
  std::vector<std::pair<std::string, std::pair<size_t, int>>> refusals;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const Refused& r : plan.steps[s].refused) {
      const std::string text = fmt::format("{}:{} ({})", NameOf(g.nodes[plan.steps[s].node].op), r.impl, r.reason);
      auto it = std::find_if(refusals.begin(), refusals.end(), [&](const auto& known) { return known.first == text; });
      if (it == refusals.end()) refusals.push_back({text, {s, 1}}); else ++it->second.second;
    }
  }
  for (const auto& [text, where] : refusals) out += fmt::format("refused #{} x{}: {}\n", where.first, where.second, text);
  for (const graph::PassReport& r : plan.passes) {
    if (r.rewrites == 0) out += fmt::format("pass {}: applied 0 times: {}\n", r.name, r.refusal);
  }
  out += fmt::format("waits: {} of a rank's workers, {} of the group; arena {} bytes a rank, {} a worker\n", plan.waits(Wait::kRank),
                     plan.waits(Wait::kGroup), plan.rank_arena_bytes, plan.worker_arena_bytes);
  return out;
}

}  // namespace weft::plan
