// The verifier against random wrong steps: see support/mutation_trial.h for how equivalents are told.
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
      for (const Graph& source : {test::DecoderBody(shape), test::DecoderHead(shape, false, true), test::DecoderHead(shape, true, false)}) {
        auto run = RunPasses(test::Placed(source, ranks), {.ranks = ranks}, false);
        ASSERT_TRUE(run.ok()) << run.status().message();
        test::TryMutations(run->graph, 160, seed++, &counts);
      }
    }
  }
  std::string found;
  for (const auto& [rule, n] : counts.by_rule) found += fmt::format(" {} {}", rule, n);
  std::printf("%d mutants: %d change the meaning and are refused (%d by V10 alone), %d change it and pass; %d equivalents pass, "
              "%d are refused; by rule:%s\n",
              counts.tried, counts.caught, counts.missed_by_placement, counts.missed, counts.equivalents,
              counts.refused_equivalents, found.c_str());
  for (const std::string& miss : counts.misses) std::printf("missed: %s\n", miss.c_str());
  EXPECT_GE(counts.caught, 20 * counts.missed) << "less than 95 % of what changes the meaning";
  for (const std::string_view kind : test::GraphMutator::Kinds()) EXPECT_GT(counts.by_kind[std::string(kind)], 0) << kind;
  // A verifier that refuses everything would pass the above.
  EXPECT_GT(counts.equivalents, 8);
}

}  // namespace
}  // namespace weft::graph
