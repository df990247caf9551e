// One number tells plans apart.
#include "plan/fingerprint.h"

#include <gtest/gtest.h>

#include "support/plans.h"

namespace weft::plan {
namespace {

using graph::Op;
using test::Body;
using test::Compiled;
using test::DecoderShape;
using test::PlainTarget;

TEST(Fingerprint, IsTheSameForTheSameInputsAndOnlyForThem) {
  const auto of = [](int ranks, int32_t rows, int workers, const CompileOptions& options,
                     const DecoderShape& shape = {}) {
    return Compiled(test::DecoderBody(shape), ranks, Body(rows), PlainTarget(workers), options)
        .fingerprint;
  };
  const uint64_t base = of(2, 4, 2, {});
  EXPECT_EQ(of(2, 4, 2, {}), base);
  std::map<uint64_t, std::string> seen{{base, "base"}};
  const auto differs = [&](uint64_t fingerprint, const char* what) {
    const auto [it, fresh] = seen.try_emplace(fingerprint, what);
    EXPECT_TRUE(fresh) << what << " is like " << it->second;
  };
  differs(of(2, 5, 2, {}), "another bucket");
  differs(of(3, 4, 2, {}), "another mesh");
  differs(of(2, 4, 1, {}), "other workers");
  differs(of(2, 4, 2, {.eager = true}), "eager");
  differs(of(2, 4, 2, {.eager = false, .switches = {{"fuse_add_rms_norm", graph::Switch::kOff}}}),
          "a pass off");
  differs(of(2, 4, 2, {.eager = false, .switches = {{"fold_finish", graph::Switch::kOff}}}),
          "a pass that refuses, off");
  differs(of(2, 4, 2, {}, {.layers = 3}), "another model");
  differs(of(2, 4, 2, {}, {.weights = DType::kF32}), "another format");
  Plan plan = Compiled(test::DecoderBody({}), 2, Body(4), PlainTarget(2));
  EXPECT_EQ(FingerprintOf(plan), base);
  plan.costs_hash += 1;
  differs(FingerprintOf(plan), "another cost table");
  plan.costs_hash -= 1;
  plan.passes[0].ns += 12345;
  EXPECT_EQ(FingerprintOf(plan), base) << "how long a pass took is no part of a plan";
  plan.layouts[plan.graph.nodes[0].out[0]].offset += 64;
  differs(FingerprintOf(plan), "an offset");
}

}  // namespace
}  // namespace weft::plan
