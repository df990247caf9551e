// Promise P1: the same bits whatever the deployment, the neighbours and the history.
//
// A cell is a model on some ranks under some traffic. It must give the ids and the logits hashes of
// the reference (one virtual rank, contracts only, every request alone, one-shot prefill), and it
// must show that what it varies has happened. WEFT_P1=full walks the whole matrix; else SmolLM2 is
// walked at TP 1, 2, 3 alone. The matrix is printed as lines that begin with "P1 ".
#include "graph/passes/pass.h"
#include "one_answer/matrix.h"

namespace weft::one_answer {
namespace {

void WalkTraffic(const TestModel& model, plan::Executor& executor, int ranks, Line& line) {
  Causes causes;
  const auto check = [&](const char* column, const Traffic& traffic) {
    const plan::FabricCounts before = executor.fabric_counts();
    const Answers answers = Ask(executor, model.prompts, traffic, &causes);
    const Answers& want = traffic.sampled ? model.sampled : model.greedy;
    line.Cell(column, Difference(answers, want, traffic.hash));
    if (!traffic.warm) ExpectPlannedTraffic(before, executor.fabric_counts(), causes, ranks);
  };
  check("alone", {});
  EXPECT_EQ(causes.segments_max, 1);
  EXPECT_EQ(causes.steps_to_first, 1);
  check("strangers", {.together = true});
  EXPECT_GE(causes.segments_max, 8);
  check("chunk16", {.budget = 16});
  EXPECT_GE(causes.steps_to_first, 5);
  EXPECT_EQ(causes.tokens_max, 16);
  check("warm", {.warm = true, .prefix_caching = true});
  EXPECT_GE(causes.cached_tokens, 64);
  // Eight blocks of 16 tokens hold the first three prompts, and none of them may grow.
  check("preempted", {.together = true, .pages = 9});
  EXPECT_GT(causes.preemptions, 0u);
  check("sampled", {.together = true, .sampled = true});
  check("unhashed", {.together = true, .hash = false});
  ExpectWorkOfOwners(exec::InstanceOf(executor), ranks);
}

TEST_P(OneAnswer, OverRanksNeighboursChunksAndHistory) {
  for (int ranks : {1, 2, 3, 4, 6, 8}) {
    if (ranks > 3 && Large() && !Full()) continue;
    const TestModel& model = ModelAt(GetParam());
    ASSERT_EQ(model.greedy.size(), model.prompts.size());
    const auto executor = support::MakeExecutor(*model.checkpoint, model.Config(ranks));
    ASSERT_NE(executor, nullptr);
    Line line(model, "tp=" + std::to_string(ranks));
    WalkTraffic(model, *executor, ranks, line);
  }
}

// What may change how a plan looks must not change what it computes.
TEST_P(OneAnswerInDepth, OverPlansWorkersAndInstructionSets) {
  const TestModel& model = ModelAt(GetParam());
  const auto check = [&](const std::string& column, const ExecConfig& config, int ranks) {
    const auto executor = support::MakeExecutor(*model.checkpoint, config);
    ASSERT_NE(executor, nullptr);
    Line line(model, "tp=" + std::to_string(ranks));
    line.Cell(column,
              Difference(Ask(*executor, model.prompts, {.together = true}, nullptr), model.greedy));
  };
  const auto fingerprint = [&](const ExecConfig& config) {
    auto plan = exec::ExplainPlan(*model.checkpoint, config, exec::PlanKind::kBody, 8);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? plan->fingerprint : 0;
  };
  const auto rewrites = [&](const ExecConfig& config, std::string_view pass) {
    int n = 0;
    for (const exec::PlanKind kind : {exec::PlanKind::kBody, exec::PlanKind::kHead}) {
      const auto plan = exec::ExplainPlan(*model.checkpoint, config, kind, 8);
      EXPECT_TRUE(plan.ok()) << plan.status().message();
      if (!plan.ok()) continue;
      for (const graph::PassReport& report : plan->passes)
        n += report.name == pass ? report.rewrites : 0;
    }
    return n;
  };
  std::vector<int> sizes{1, 2, 3};
  if (Large()) sizes = {2, 3};
  if (Full()) sizes = {1, 2, 3, 4, 6, 8};
  int passes = 0;
  for (int ranks : sizes) {
    const ExecConfig planned = model.Config(ranks);
    ExecConfig config = planned;
    config.compile.eager = true;
    check("eager", config, ranks);
    EXPECT_NE(fingerprint(config), fingerprint(planned));
    config = planned;
    config.compile.interleave = false;
    check("interleave_lanes:off", config, ranks);
    config = planned;
    config.compile.prefetch_weights = true;
    EXPECT_NE(fingerprint(config), fingerprint(planned));
    check("prefetch_weights:on", config, ranks);
    // Under a schedule that leaves something between a post and its wait.
    config = planned;
    config.schedule = ScheduleCell{plan::Schedule::kFc1}.Config();
    const auto posts = exec::ExplainPlan(*model.checkpoint, config, exec::PlanKind::kBody, 8);
    ASSERT_TRUE(posts.ok()) << posts.status().message();
    const bool apart = std::any_of(posts->steps.begin(), posts->steps.end(),
                                   [](const plan::Step& s) { return s.posted_behind >= 0; });
    if (ranks > 1 && model.checkpoint->config().shared_expert_intermediate_size > 0) {
      EXPECT_TRUE(apart);
    }
    if (apart) {
      config.compile.post_exchanges = false;
      EXPECT_NE(fingerprint(config), posts->fingerprint);
      check("post_exchanges:off", config, ranks);
    }
    config = planned;
    config.each_rows_max = 0;
    check("unchained", config, ranks);
    for (const graph::Pass& pass : graph::AllPasses()) {
      if (Large() && !Full()) break;
      // One that changes no plan here cannot change an answer by being off.
      if (!Full() && rewrites(planned, pass.name) == 0) continue;
      config = planned;
      config.compile.switches[std::string(pass.name)] = graph::Switch::kOff;
      check(std::string(pass.name) + ":off", config, ranks);
      ++passes;
    }
    for (const char* method : {"direct", "two_shot", "halving"}) {
      if (ranks == 1) break;  // nothing is reduced over ranks
      config = planned;
      config.impl["all_reduce"] = method;
      auto plan = exec::ExplainPlan(*model.checkpoint, config, exec::PlanKind::kBody, 8);
      if (!plan.ok()) {  // its tree does not fit these leaves, and it says so
        EXPECT_EQ(method, std::string("halving"));
        EXPECT_NE(plan.status().message().find("halving: "), std::string::npos);
        continue;
      }
      check(std::string("all_reduce:") + method, config, ranks);
    }
    config = planned;
    config.schedule = ScheduleCell{plan::Schedule::kSp}.Config();
    config.impl["reduce_scatter"] = "halving";
    if (ranks > 1 && exec::ExplainPlan(*model.checkpoint, config, exec::PlanKind::kBody, 8).ok())
      check("reduce_scatter:halving", config, ranks);
    config = planned;
    config.schedule = ScheduleCell{plan::Schedule::kFc1Fc2, 1}.Config();
    config.threads = 2 * ranks;
    if (ranks > 1) check("fc1+fc2/1, two workers", config, ranks);
    config = planned;
    config.threads = 2 * ranks;
    check("two workers", config, ranks);
    EXPECT_NE(fingerprint(config), fingerprint(planned));
    if (Large() && !Full()) continue;
    config = planned;
    config.page_tokens = 32;
    check("block 32", config, ranks);
    config = planned;
    config.isa_max = kernels::Isa::kPortable;
    check("portable", config, ranks);
    EXPECT_NE(fingerprint(config), fingerprint(planned));
    config = planned;
    config.reference = true;
    check("reference", config, ranks);
  }
  if (!Large()) {
    EXPECT_GE(passes, 3) << "fold_finish, fuse_add_rms_norm, shard_argmax";
  }
}

// Sixteen virtual ranks: more than most axes have leaves.
TEST_P(OneAnswerInDepth, OnSixteenVirtualRanks) {
  if (Large() && !Full()) GTEST_SKIP() << "minutes in plain loops; WEFT_P1=full";
  const TestModel& model = ModelAt(GetParam());
  ExecConfig config = model.Config(16);
  config.reference = true;
  const auto executor = support::MakeExecutor(*model.checkpoint, config);
  ASSERT_NE(executor, nullptr);
  Line line(model, "tp=16");
  line.Cell("reference",
            Difference(Ask(*executor, model.prompts, {.together = true}, nullptr), model.greedy));
  ExpectWorkOfOwners(exec::InstanceOf(*executor), 16);
  for (const ScheduleCell& cell : SchedulesOn(16)) {
    config.schedule = cell.Config();
    const auto other = support::MakeExecutor(*model.checkpoint, config);
    ASSERT_NE(other, nullptr);
    line.Cell(cell.Name(),
              Difference(Ask(*other, model.prompts, {.together = true}, nullptr), model.greedy));
  }
}

std::vector<std::string> TinyModels() {
  std::vector<std::string> all = support::TinyCheckpoints();
  all.push_back(kTrained);
  return all;
}
// Uneven heads, norms of heads with biases, experts, recurrences with one and with two value heads
// a key head, and all of these in a model that was trained.
std::vector<std::string> OneOfEachKind() {
  if (Full()) return TinyModels();
  std::vector<std::string> some{kTrained};
  for (const char* name : {"llama_untied_9h3_f32", "qwen3_bias_8h8_mixed", "qwen3_moe_6h2_bf16",
                           "qwen35_moe_r2_4h2_bf16", "qwen3_next_r1_4h2_bf16"}) {
    some.push_back(std::string(WEFT_TESTS_DIR "/models/data/") + name);
  }
  return some;
}
std::string NameOfModel(const ::testing::TestParamInfo<std::string>& info) {
  return info.param == kTrained ? "trained" : std::filesystem::path(info.param).filename().string();
}
INSTANTIATE_TEST_SUITE_P(Tiny, OneAnswer, ::testing::ValuesIn(TinyModels()), NameOfModel);
INSTANTIATE_TEST_SUITE_P(Tiny, OneAnswerInDepth, ::testing::ValuesIn(OneOfEachKind()), NameOfModel);

std::vector<std::string> RealModels() {
  if (support::RealModel().empty()) return {};
  return {support::RealModel()};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OneAnswer);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OneAnswerInDepth);
std::string SmolLm2(const ::testing::TestParamInfo<std::string>&) { return "SmolLM2"; }
INSTANTIATE_TEST_SUITE_P(Real, OneAnswer, ::testing::ValuesIn(RealModels()), SmolLm2);
INSTANTIATE_TEST_SUITE_P(Real, OneAnswerInDepth, ::testing::ValuesIn(RealModels()), SmolLm2);

}  // namespace
}  // namespace weft::one_answer
