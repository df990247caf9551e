// Breaks a lawful graph in many ways and counts what the verifier lets through.
//
// How a change of meaning is told from none: a mutant that V1-V4, V8 or V9 refuse is no graph at
// all (reads before makes, wrong shapes, types or counts), so it counts as changed. Any other
// mutant, refused or not, is computed by the interpreter on its virtual ranks: if a rank holds what
// does not fit, or any output or cache on any rank differs by a bit from the original's, it has
// changed; otherwise it is an equivalent, whatever the verifier said of it.
#pragma once

#include <map>

#include "graph/meaning.h"
#include "graph/verify.h"
#include "support/graph_interpreter.h"
#include "support/graph_mutations.h"

namespace weft::test {

struct MutationCounts {
  int tried = 0;
  int caught = 0;               // changed and refused
  int missed = 0;               // changed and let through
  int missed_by_placement = 0;  // changed and let through by V1-V9: V10 alone saw it
  int equivalents = 0;          // let through, and rightly so
  int refused_equivalents = 0;
  std::map<std::string, int, std::less<>> by_kind;  // caught
  std::map<std::string, int, std::less<>> by_rule;
  std::vector<std::string> misses;
};

inline void TryMutations(const graph::Graph& lawful, int tries, uint64_t seed,
                         MutationCounts* counts) {
  Rng rng(seed);
  auto expected = Interpreter(lawful).Run();
  WEFT_CHECK(expected.ok() && graph::Verify(lawful).ok(), "{} is not lawful to begin with",
             lawful.model);
  const graph::Meaning meaning = graph::MeaningOf(lawful);
  const auto kinds = GraphMutator::Kinds();
  for (int i = 0; i < tries; ++i) {
    graph::Graph g = lawful;
    const std::string_view kind = kinds[static_cast<size_t>(i) % kinds.size()];
    if (!GraphMutator(&g, &rng).Apply(kind)) continue;
    ++counts->tried;
    Status status = graph::Verify(g);
    const bool by_placement = !status.ok();
    if (status.ok()) status = graph::SameMeaning(meaning, g);
    const std::string rule =
        status.ok() ? "" : status.message().substr(0, status.message().find(':'));
    bool changed = rule == "V1" || rule == "V2" || rule == "V3" || rule == "V4" || rule == "V8" ||
                   rule == "V9";
    if (!changed) {
      auto got = Interpreter(g).Run();
      changed = !got.ok() || *got != *expected;
    }
    if (!rule.empty()) ++counts->by_rule[rule];
    if (!changed) {
      ++(status.ok() ? counts->equivalents : counts->refused_equivalents);
    } else if (!status.ok()) {
      ++counts->caught;
      ++counts->by_kind[std::string(kind)];
      if (!by_placement) ++counts->missed_by_placement;
    } else {
      ++counts->missed;
      counts->misses.push_back(
          fmt::format("{}: {} (try {} of seed {})", lawful.model, kind, i, seed));
    }
  }
}

}  // namespace weft::test
