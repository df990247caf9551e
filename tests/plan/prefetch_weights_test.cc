#include "plan/prefetch_weights.h"

#include <gtest/gtest.h>

#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

CompileOptions Fetching(bool on) {
  CompileOptions options;
  options.prefetch_weights = on;
  return options;
}

TEST(PrefetchWeights, EveryWaitFetchesForTheNextProduct) {
  for (const int ranks : {1, 2}) {
    const Plan plan =
        Compiled(test::DecoderBody({}), ranks, Body(1), PlainTarget(2), Fetching(true));
    int waits = 0;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const Step& step = plan.steps[s];
      if (s > 0 && step.wait == Wait::kNone) {
        EXPECT_EQ(step.fetches, -1) << s;
        continue;
      }
      size_t product = s;
      while (product < plan.steps.size() && plan.graph.nodes[product].op != Op::kMatmul) ++product;
      EXPECT_EQ(step.fetches, product < plan.steps.size() ? static_cast<int>(product) : -1)
          << s << "\n"
          << Print(plan);
      waits += step.fetches >= 0;
    }
    EXPECT_GT(waits, 2);
    EXPECT_NE(Print(plan).find("fetches "), std::string::npos);
  }
}

// Which experts a row goes to is known when the wait for it is nearly over.
TEST(PrefetchWeights, NothingBeyondExperts) {
  const Plan plan = Compiled(test::DecoderBody({.layers = 2, .experts = 6}), 1, Body(1),
                             PlainTarget(2), Fetching(true));
  int last = 0, none = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.graph.nodes[s].op == Op::kMatmul) last = static_cast<int>(s);
  }
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (int between = static_cast<int>(s); between < plan.steps[s].fetches; ++between) {
      EXPECT_NE(plan.graph.nodes[static_cast<size_t>(between)].op, Op::kExpertMatmul) << s;
    }
    none += static_cast<int>(s) < last && plan.steps[s].wait != Wait::kNone &&
            plan.steps[s].fetches < 0;
  }
  EXPECT_GT(none, 0) << Print(plan);
}

TEST(PrefetchWeights, ManyRowsAndOffFetchNothing) {
  const auto fetches = [](int32_t rows, const CompileOptions& options) {
    int n = 0;
    for (const Step& step :
         Compiled(test::DecoderBody({}), 2, Body(rows), PlainTarget(2), options).steps)
      n += step.fetches >= 0;
    return n;
  };
  EXPECT_GT(fetches(kPrefetchRowsMax, Fetching(true)), 0);
  EXPECT_EQ(fetches(kPrefetchRowsMax + 1, Fetching(true)), 0);
  EXPECT_EQ(fetches(1, Fetching(false)), 0);
  CompileOptions eager = Fetching(true);
  eager.eager = true;
  EXPECT_EQ(fetches(1, eager), 0);
  EXPECT_EQ(fetches(1, {}), 0) << "off unless asked for";
}

}  // namespace
}  // namespace weft::plan
