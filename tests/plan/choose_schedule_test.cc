// Covers src/plan/choose_schedule.cc src/plan/estimate.cc
#include "plan/choose_schedule.h"

#include <gtest/gtest.h>

#include "graph/passes/pass.h"
#include "support/decoder_graph.h"

namespace weft::plan {
namespace {

// Whoever is asked is direct: only the schedules differ.
class DirectTarget final : public Target {
 public:
  std::string name() const override { return "direct"; }
  int workers_per_rank() const override { return 1; }
  int32_t each_rows_max() const override { return 8; }
  Choice Choose(const graph::Graph&, const graph::Node&, const Bucket&) const override {
    return {"direct", {}};
  }
};

CostTable Costs(double phase_ns, double kib_ns) {
  CostTable costs;
  for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}) {
    costs.exchanges.push_back({kind, "direct", 2, phase_ns, kib_ns});
  }
  costs.weight_kib_ns = 30;
  costs.walk_kib_ns = 40;
  costs.bf16_mac_ns = 0.01;
  return costs;
}

Plan Chosen(int ranks, int32_t rows, const CostTable& costs) {
  const graph::Graph source = test::DecoderBody({.heads = 8, .kv_heads = 8, .width = 256});
  const Bucket bucket{Bucket::Kind::kBody, rows, rows, HeadMode::kGreedy, false};
  auto chosen = CompileCheapest(
      CandidatesFor(ranks), bucket, costs, [&](const BucketSchedule& row) -> Result<Plan> {
        WEFT_ASSIGN_OR_RETURN(const graph::Graph placed,
                              graph::InsertCollectives(graph::Expand(source, {}), row.mesh));
        CompileOptions options;
        options.switches = row.switches;
        options.schedule = NameOf(row.schedule);
        return Compile(placed, bucket, DirectTarget(), options);
      });
  EXPECT_TRUE(chosen.ok()) << chosen.status().message();
  return std::move(chosen).value();
}

TEST(CompileCheapest, TakesFewMeetingsForOneRowAndFewBytesForMany) {
  EXPECT_EQ(Chosen(4, 1, Costs(1000, 100)).schedule, "plain")
      << "two meetings a layer, the least there are";
  const Plan many = Chosen(4, 1024, Costs(1000, 100));
  EXPECT_NE(many.schedule, "plain");
  EXPECT_LT(EstimateNs(many, Costs(1000, 100), 1024),
            EstimateNs(Chosen(4, 1024, Costs(1000, 0)), Costs(1000, 100), 1024) + 1);
}

TEST(CompileCheapest, SaysWhatEachWouldTake) {
  const Plan plan = Chosen(4, 64, Costs(500, 100));
  for (const char* words : {"auto, us by the cost table for 64 rows: plain ", " sp ", " fc1 ",
                            " gather ", " fc2/1 ", " fc1+fc2/2 "}) {
    EXPECT_NE(plan.schedule_note.find(words), std::string::npos) << plan.schedule_note;
  }
  EXPECT_EQ(Chosen(1, 64, Costs(500, 100)).schedule, "plain") << "one rank has nothing to choose";
}

TEST(CompileCheapest, IsThePlanOfItsTableAlone) {
  EXPECT_EQ(Chosen(4, 64, Costs(500, 100)).fingerprint, Chosen(4, 64, Costs(500, 100)).fingerprint);
}

// An estimate falls when what it counts gets cheaper, and a rank's share is what it has to do.
TEST(EstimateNs, CountsWeightsProductsWalksAndExchanges) {
  const Plan one = Chosen(1, 1, Costs(0, 0));
  CostTable weights;
  weights.weight_kib_ns = 1024;  // a nanosecond a byte
  const int64_t elements =
      2 * (4 * 64 * 128 + 3 * 64 * 256);  // two layers of bfloat16, heads 8 x 16
  EXPECT_DOUBLE_EQ(EstimateNs(one, weights, 1), 2.0 * static_cast<double>(elements));
  CostTable products;
  products.bf16_mac_ns = 1;
  EXPECT_DOUBLE_EQ(EstimateNs(one, products, 3), 3.0 * static_cast<double>(elements));
  CostTable meetings;
  meetings.exchanges = {{"all_reduce", "direct", 2, 7, 0}};
  EXPECT_DOUBLE_EQ(EstimateNs(one, meetings, 1), 0);
  const Plan two = Chosen(2, 1, Costs(1000, 0));
  ASSERT_EQ(two.schedule, "plain");
  EXPECT_DOUBLE_EQ(EstimateNs(two, meetings, 1), 4 * 7) << "two a layer";
}

}  // namespace
}  // namespace weft::plan
