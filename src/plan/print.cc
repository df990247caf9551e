#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/text.h"
#include "plan/plan.h"
#include "plan/wire_bytes.h"

namespace weft::plan {
namespace {

std::string Amount(double n, std::string_view unit) {
  constexpr std::string_view kPrefix[] = {"", "k", "M", "G", "T"};
  int p = 0;
  while (n >= 1000 && p < 4) n /= 1000, ++p;
  if (n == 0) return "-";
  const std::string number = n < 10 && p > 0 ? fmt::format("{:.1f}", n) : fmt::format("{:.0f}", n);
  return p == 0 && unit.empty() ? number : fmt::format("{} {}{}", number, kPrefix[p], unit);
}

std::string Amount(int64_t n, std::string_view unit) {
  return Amount(static_cast<double>(n), unit);
}

// Columns as wide as their widest cell, two spaces between them.
struct Column {
  std::string_view title;
  bool number = false;  // to the right
};
constexpr std::array kColumns{
    Column{"#", true},       Column{"layer"},
    Column{"lane", true},    Column{"op"},
    Column{"out"},           Column{"on"},
    Column{"impl"},          Column{"weights", true},
    Column{"per row", true}, Column{"flops/row", true},
    Column{"waits"},
};
using Row = std::array<std::string, kColumns.size()>;

std::string Table(const std::vector<Row>& rows) {
  std::array<size_t, kColumns.size()> widths{};
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      const size_t pad = widths[c] - row[c].size();
      line += kColumns[c].number ? std::string(pad, ' ') + row[c] : row[c] + std::string(pad, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string WaitsText(const Step& step, const graph::Node& node) {
  std::string out = step.wait == Wait::kGroup ? "group" : step.wait == Wait::kRank ? "rank" : "";
  if (step.posted_behind >= 0) out += fmt::format(" posted behind {}", step.posted_behind);
  if (step.fetches >= 0) out += fmt::format("{}fetches {}", out.empty() ? "" : " ", step.fetches);
  if (step.split != Split::kUnits) {
    out +=
        fmt::format("{}{}", out.empty() ? "" : " ", step.split == Split::kEach ? "each" : "heads");
  }
  if (out.empty()) out = "-";
  if (step.partials > 0) out += fmt::format(" partials={}", step.partials);
  if (step.cost.row_wire_bytes > 0)
    out += (IsUpperBound(node) ? " wire up to " : " wire ") +
           Amount(step.cost.row_wire_bytes, "B") + "/row";
  return out;
}

Row RowOf(const Plan& plan, size_t s) {
  const graph::Graph& g = plan.graph;
  const Step& step = plan.steps[s];
  const graph::Node& node = g.nodes[step.node];
  const graph::Value& y = g.value(node.out[0]);
  std::string type = graph::DimsText(g, y) + " " + graph::TypeText(y);
  if (node.out.size() > 1) type += fmt::format(" x{}", node.out.size());
  return {std::to_string(s),
          node.layer,
          std::to_string(step.lane),
          std::string(NameOf(node.op)),
          std::move(type),
          ToString(y.on),
          fmt::format("{}:{}", NameOf(node.op), step.impl),
          Amount(step.cost.weight_bytes, "B"),
          Amount(step.cost.row_bytes, "B"),
          Amount(step.cost.row_flops, ""),
          WaitsText(step, node)};
}

// The same refusal at every layer is told once, with where it was first seen.
std::string RefusalsText(const Plan& plan) {
  struct Told {
    std::string text;
    size_t step;
    int times;
  };
  std::vector<Told> all;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const std::string_view op = NameOf(plan.graph.nodes[plan.steps[s].node].op);
    for (const Refused& r : plan.steps[s].refused) {
      std::string text = fmt::format("{}:{} ({})", op, r.impl, r.reason);
      const auto it =
          std::find_if(all.begin(), all.end(), [&](const Told& t) { return t.text == text; });
      if (it == all.end()) {
        all.push_back({std::move(text), s, 1});
      } else {
        ++it->times;
      }
    }
  }
  std::string out;
  for (const Told& t : all) out += fmt::format("refused #{} x{}: {}\n", t.step, t.times, t.text);
  return out;
}

}  // namespace

std::string Print(const Plan& plan) {
  std::string mesh, passes;
  for (const graph::MeshAxis& a : plan.graph.mesh.axes) {
    mesh += fmt::format("{}{}={}", mesh.empty() ? "" : " ", a.name, a.size);
  }
  for (const graph::PassReport& r : plan.passes) {
    if (r.rewrites > 0) {
      passes += fmt::format("{}{}:{}", passes.empty() ? "" : ",", r.name, r.rewrites);
    }
  }
  std::string out =
      fmt::format("plan {}  {}  mesh {}  schedule {}  target {}  workers {}  passes {}\n",
                  plan.graph.model, ToString(plan.bucket), mesh, plan.schedule, plan.target,
                  plan.workers_per_rank, passes.empty() ? "-" : passes);
  std::vector<Row> rows(1);
  for (size_t c = 0; c < kColumns.size(); ++c) rows[0][c] = kColumns[c].title;
  for (size_t s = 0; s < plan.steps.size(); ++s) rows.push_back(RowOf(plan, s));
  out += Table(rows) + RefusalsText(plan);
  if (!plan.schedule_note.empty())
    out += fmt::format("schedule {}: {}\n", plan.schedule, plan.schedule_note);
  for (const graph::PassReport& r : plan.passes) {
    if (r.rewrites == 0) out += fmt::format("pass {}: applied 0 times: {}\n", r.name, r.refusal);
  }
  out += fmt::format(
      "waits: {} of a rank's workers, {} of the group; arena {} bytes a rank, {} a worker\n",
      plan.waits(Wait::kRank), plan.waits(Wait::kGroup), plan.rank_arena_bytes,
      plan.worker_arena_bytes);
  return out;
}

}  // namespace weft::plan
