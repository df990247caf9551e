// What tests of passes ask of a graph and of what the passes report.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "graph/builder.h"
#include "graph/passes/pass.h"
#include "graph/text.h"
#include "support/decoder_graph.h"
#include "support/graph_interpreter.h"

namespace weft::test {

using Switches = std::map<std::string, graph::Switch, std::less<>>;

inline const Switches kSp{{"sequence_parallel", graph::Switch::kOn}};
inline const Switches kFc1{{"sequence_parallel", graph::Switch::kOn},
                           {"defer_gather", graph::Switch::kOn}};

// Nodes of `op` in the layers whose name begins with `layer`.
inline int Count(const graph::Graph& g, graph::Op op, std::string_view layer = "") {
  return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const graph::Node& n) {
    return n.op == op && n.layer.starts_with(layer);
  }));
}

// `source` expanded as its weights ask for, with its collectives.
inline graph::Graph PlacedOn(const graph::Graph& source, const graph::Mesh& mesh) {
  const bool int8 = std::any_of(source.values.begin(), source.values.end(),
                                [](const graph::Value& v) { return IsQuantised(v.dtype); });
  auto placed = graph::InsertCollectives(graph::Expand(source, {.int8_activations = int8}), mesh);
  WEFT_CHECK(placed.ok(), "{}", placed.status().message());
  return std::move(placed).value();
}

inline graph::Graph PlacedBody(const DecoderShape& shape, const graph::Mesh& mesh) {
  return PlacedOn(DecoderBody(shape), mesh);
}

// The passes over a step of `rows` rows.
inline graph::PassRun RunOn(const graph::Graph& placed, const Switches& switches = {},
                            int64_t rows = 4, bool eager = false) {
  auto run = graph::RunPasses(placed, {placed.mesh.ranks(), rows, switches}, eager);
  WEFT_CHECK(run.ok(), "{}", run.status().message());
  return std::move(run).value();
}

// What a step of the graph gives, as each rank holds it; nothing, and a failed test, where a rank
// lacks what it needs.
inline std::map<std::string, std::vector<Local>> OutputsOf(const graph::Graph& g,
                                                           const StepData& step = {}) {
  auto run = Interpreter(g, step).Run();
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? *run : std::map<std::string, std::vector<Local>>{};
}

// Every rank answers what one rank does, whose outputs `expected` are. (States are cut.)
inline void ExpectAnswers(const graph::Graph& g,
                          const std::map<std::string, std::vector<Local>>& expected,
                          const StepData& step = {}) {
  const auto got = OutputsOf(g, step);
  EXPECT_EQ(got.count("output 0"), 1u);
  for (const auto& [name, locals] : got) {
    if (name.starts_with("state")) continue;
    for (const Local& local : locals)
      EXPECT_TRUE(local == expected.at(name)[0]) << name << " on " << g.mesh.ranks() << "\n"
                                                 << Print(g);
  }
}

// Experts alone and beside a shared one, quantised or not, fewer of them than ranks, one chosen or
// all.
inline std::vector<DecoderShape> ExpertShapes() {
  return {
      {.heads = 4, .kv_heads = 2, .experts = 6},
      {.heads = 4, .kv_heads = 2, .weights = DType::kQ8_0, .experts = 3, .top_k = 1},
      {.heads = 4,
       .kv_heads = 2,
       .model_dtype = DType::kF32,
       .weights = DType::kF32,
       .experts = 4,
       .top_k = 4},
      {.heads = 4,
       .kv_heads = 1,
       .weights = DType::kQ8_0,
       .experts = 16,
       .top_k = 3,
       .expert_width = 64,
       .shared_expert = true,
       .key_heads = 2,
       .value_heads = 4},
  };
}

// REQUIRES: there is a pass of this name.
inline const graph::PassReport& ReportOf(const graph::PassRun& run, std::string_view name) {
  const auto report = std::find_if(run.reports.begin(), run.reports.end(),
                                   [&](const graph::PassReport& r) { return r.name == name; });
  WEFT_CHECK(report != run.reports.end(), "no pass {}", name);
  return *report;
}

}  // namespace weft::test
