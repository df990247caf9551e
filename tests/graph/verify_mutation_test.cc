// The verifier against random wrong steps: see support/mutation_trial.h for how equivalents are
// told.
#include <gtest/gtest.h>

#include "support/decoder_graph.h"
#include "support/mutation_trial.h"

namespace weft::graph {
namespace {

TEST(Verify, RefusesRandomWrongStepsOfARewrite) {
  test::MutationCounts counts;
  uint64_t seed = 1;
  for (const test::DecoderShape& shape : test::DecoderShapes()) {
    for (const int ranks : {1, 2, 3}) {
      for (const Graph& source : {test::DecoderBody(shape), test::DecoderHead(shape, false, true),
                                  test::DecoderHead(shape, true, false)}) {
        auto run = RunPasses(test::Placed(source, ranks), {.ranks = ranks}, false);
        ASSERT_TRUE(run.ok()) << run.status().message();
        test::TryMutations(run->graph, 160, seed++, &counts);
        if (shape.experts == 0 || ranks == 1 || source.outputs.size() > 1) continue;
        for (const Switch combine : {Switch::kOn, Switch::kOff}) {
          run = RunPasses(test::Placed(source, ranks),
                          {.ranks = ranks,
                           .switches = {{"sequence_parallel", Switch::kOn},
                                        {"exchange_experts", Switch::kOn},
                                        {"combine_rows", combine}}},
                          false);
          ASSERT_TRUE(run.ok()) << run.status().message();
          test::TryMutations(run->graph, 160, seed++, &counts);
        }
      }
    }
  }
  std::string found;
  for (const auto& [rule, n] : counts.by_rule) found += fmt::format(" {} {}", rule, n);
  std::printf(
      "%d mutants: %d change the meaning and are refused (%d by V10 alone), %d change it and pass; "
      "%d equivalents pass, "
      "%d are refused; by rule:%s\n",
      counts.tried, counts.caught, counts.missed_by_placement, counts.missed, counts.equivalents,
      counts.refused_equivalents, found.c_str());
  for (const std::string& miss : counts.misses) std::printf("missed: %s\n", miss.c_str());
  EXPECT_GE(counts.caught, 20 * counts.missed) << "less than 95 % of what changes the meaning";
  for (const std::string_view kind : test::GraphMutator::Kinds())
    EXPECT_GT(counts.by_kind[std::string(kind)], 0) << kind;
  // A verifier that refuses everything would pass the above.
  EXPECT_GT(counts.equivalents, 8);
}

// Every value of every schedule's graph, at every other placement: what the verifier lets pass is
// listed with why it is lawful.
TEST(Verify, RefusesEveryPlacementThatIsNotTheOneThatTheLawsGive) {
  struct Row {
    std::string name;
    Mesh mesh;
    std::map<std::string, Switch, std::less<>> switches;
  };
  const Switch on = Switch::kOn;
  const std::vector<Row> rows{
      {"plain", Mesh::Tp(2), {}},
      {"sp", Mesh::Tp(4), {{"sequence_parallel", on}}},
      {"fc1", Mesh::Tp(3), {{"sequence_parallel", on}, {"defer_gather", on}}},
      {"fc2", {{{"otp", 2}, {"odp", 2}}}, {{"regroup_o_proj", on}}},
      {"fc1+fc2",
       {{{"otp", 2}, {"odp", 3}}},
       {{"sequence_parallel", on}, {"defer_gather", on}, {"regroup_o_proj", on}}},
      {"gather", Mesh::Tp(2), {{"gather_columns", on}}},
      {"exchange", Mesh::Tp(2), {{"sequence_parallel", on}, {"exchange_experts", on}}},
      {"combine",
       Mesh::Tp(2),
       {{"sequence_parallel", on}, {"exchange_experts", on}, {"combine_rows", on}}},
  };
  int tried = 0, refused = 0;
  std::map<std::string, int> survivors;
  for (const Row& row : rows) {
    for (const test::DecoderShape& shape : test::DecoderShapes()) {
      for (const Graph& source :
           {test::DecoderBody(shape), test::DecoderHead(shape, false, true)}) {
        auto placed = InsertCollectives(
            Expand(source, {.int8_activations = IsQuantised(shape.weights)}), row.mesh);
        ASSERT_TRUE(placed.ok()) << placed.status().message();
        auto run = RunPasses(std::move(placed).value(),
                             {.ranks = row.mesh.ranks(), .switches = row.switches}, false);
        ASSERT_TRUE(run.ok()) << run.status().message();
        Graph& g = run->graph;
        std::vector<Placement> all{Placement::R(), Placement::P()};
        for (int dim : {0, 1}) {
          for (size_t order = 0; order < row.mesh.axes.size(); ++order)
            all.push_back(Placement::S(dim, static_cast<int>(order)));
        }
        for (Value& v : g.values) {
          for (Placement& p : v.on) {
            for (const Placement other : all) {
              if (other == p) continue;
              const Placement was = std::exchange(p, other);
              ++tried;
              if (!Verify(g).ok()) {
                ++refused;
              } else {
                // The embedding reads the owner's leaf in place, whoever that is.
                EXPECT_EQ(v.name, "embed") << ToString(v.on) << " in place of " << ToString({was});
                ++survivors[fmt::format("{}: {} {} in place of {}", row.name,
                                        v.kind == ValueKind::kParam ? "param" : "value",
                                        ToString(v.on), ToString({was}))];
              }
              p = was;
            }
          }
        }
      }
    }
  }
  std::printf("%d placements changed, %d refused\n", tried, refused);
  for (const auto& [what, n] : survivors) std::printf("passes %d x: %s\n", n, what.c_str());
  EXPECT_GE(refused, 0.95 * tried);
}

}  // namespace
}  // namespace weft::graph
