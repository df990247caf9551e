// Negative controls: a broken rule is noticed by the cell that it breaks.
#include "one_answer/broken_attention.h"
#include "one_answer/matrix.h"

namespace weft::one_answer {
namespace {

class Control : public ::testing::Test {
 protected:
  static const TestModel& Subject() {
    return ModelAt(WEFT_TESTS_DIR "/models/data/llama_untied_9h3_f32");
  }
  static Answers With(const exec::ExecFaults& faults, int ranks, const Traffic& traffic) {
    ExecConfig config = Subject().Config(ranks);
    config.faults = faults;
    if (faults.attention != nullptr) config.model_dtype = DType::kBF16;
    const auto executor = support::MakeExecutor(*Subject().checkpoint, config);
    return executor == nullptr ? Answers{} : Ask(*executor, Subject().prompts, traffic, nullptr);
  }
  // Both cells under the fault: it is the comparison that must notice, not the change.
  static void ExpectNoticed(const exec::ExecFaults& faults, int ranks, const Traffic& traffic) {
    const Answers one = With(faults, 1, {});
    const Answers other = With(faults, ranks, traffic);
    ASSERT_EQ(one.size(), other.size());
    EXPECT_NE(Difference(other, one), "") << "the broken rule was not noticed";
  }
};

TEST_F(Control, NoFaultIsNoDifference) {
  EXPECT_EQ(Difference(With({}, 2, {.together = true}), With({}, 1, {})), "");
}
TEST_F(Control, LeavesInRankOrder) {
  for (int ranks : {2, 3, 4}) ExpectNoticed({.leaves_in_rank_order = true}, ranks, {});
}
TEST_F(Control, PartialsRoundedToBf16) {
  for (int ranks : {2, 3, 4}) ExpectNoticed({.bf16_partials = true}, ranks, {});
}
TEST_F(Control, OrderOfKByRows) { ExpectNoticed({.order_by_rows = true}, 1, {.budget = 16}); }
TEST_F(Control, TilesThatBeginAtTheChunk) {
  const exec::ExecFaults faults{.attention = &kBrokenAttention};
  EXPECT_EQ(Difference(With(faults, 2, {}), With(faults, 1, {})), "")
      << "it is broken by chunks alone";
  ExpectNoticed(faults, 1, {.budget = 16});
}
TEST_F(Control, StaleRecurrentState) {
  const TestModel& model = ModelAt(WEFT_TESTS_DIR "/models/data/qwen35_tied_r3_4h1_bf16");
  const auto executor = support::MakeExecutor(*model.checkpoint, model.Config(1));
  ASSERT_NE(executor, nullptr);
  const Traffic warm{.warm = true, .prefix_caching = true};
  EXPECT_EQ(Difference(Ask(*executor, model.prompts, warm, nullptr), model.greedy), "");
  const Answers answers = Ask(*executor, model.prompts, warm, nullptr, {.stale_state = true});
  EXPECT_NE(Difference(answers, model.greedy), "") << "the stale state was not noticed";
}
TEST_F(Control, AnAcceptedCountOffByOne) {
  const TestModel& model = ModelAt(WEFT_TESTS_DIR "/models/data/qwen35_tied_r3_4h1_bf16");
  ExecConfig config = model.Config(1);
  config.draft_tokens = 4;
  config.draft_head = true;
  const auto executor = support::MakeExecutor(*model.checkpoint, config);
  ASSERT_NE(executor, nullptr);
  const Traffic traffic{.speculation = {.method = engine::SpeculationMethod::kMtp, .tokens = 4}};
  engine::EngineFaults faults =
      MostlyRight(model.greedy, static_cast<int32_t>(model.checkpoint->config().vocab_size));
  EXPECT_EQ(Difference(Ask(*executor, model.prompts, traffic, nullptr, faults), model.greedy), "");
  faults.accepted_off_by_one = true;
  EXPECT_NE(Difference(Ask(*executor, model.prompts, traffic, nullptr, faults), model.greedy), "")
      << "a draft too many was not noticed";
}
TEST_F(Control, ARowOfTheWrongOwner) {
  const TestModel& model = ModelAt(WEFT_TESTS_DIR "/models/data/qwen3_moe_6h2_bf16");
  for (const char* exchange : {"exchange_experts", "combine_rows"}) {
    for (const bool fault : {false, true}) {
      ExecConfig config = model.Config(2);
      config.schedule = ScheduleCell{plan::Schedule::kSp}.Config();
      config.compile.switches["exchange_experts"] = graph::Switch::kOff;
      config.compile.switches["combine_rows"] = graph::Switch::kOff;
      config.compile.switches[exchange] = graph::Switch::kOn;
      config.faults.rows_of_another_owner = fault;
      const auto executor = support::MakeExecutor(*model.checkpoint, config);
      ASSERT_NE(executor, nullptr);
      EXPECT_EQ(Difference(Ask(*executor, model.prompts, {}, nullptr), model.greedy) != "", fault)
          << exchange;
    }
  }
}
TEST_F(Control, StalePage) {
  const TestModel& model = Subject();
  const auto executor = support::MakeExecutor(*model.checkpoint, model.Config(1));
  ASSERT_NE(executor, nullptr);
  const Answers answers =
      Ask(*executor, model.prompts, {.budget = 16}, nullptr, {.stale_page = true});
  EXPECT_NE(Difference(answers, model.greedy), "") << "the stale page was not noticed";
}

}  // namespace
}  // namespace weft::one_answer
