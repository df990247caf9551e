// One answer with and without drafts.
#include "one_answer/matrix.h"

namespace weft::one_answer {
namespace {

// Drafts change how many steps there are and no bit of what is told; greedy and random, on every
// deployment.
TEST_P(OneAnswer, OverSpeculation) {
  const TestModel& model = ModelAt(GetParam());
  std::vector<int> sizes{1, 2, 3, 4};
  if (Large() && !Full()) sizes = {1, 2};
  if (Full()) sizes.push_back(8);
  const bool head = models::HasDraftHead(*model.checkpoint);
  const auto vocab = static_cast<int32_t>(model.checkpoint->config().vocab_size);
  // Drafts of random weights are never right, so most are put right.
  const bool tampers = GetParam() != kTrained;
  for (int ranks : sizes) {
    ExecConfig config = model.Config(ranks);
    config.draft_tokens = 4;
    config.draft_head = head;
    if (ranks == 4) config.schedule = ScheduleCell{plan::Schedule::kFc1}.Config();
    if (ranks == 1) config.threads = 2;  // logs of states whose heads two workers share
    const auto executor = support::MakeExecutor(*model.checkpoint, config);
    ASSERT_NE(executor, nullptr);
    Line line(model, "tp=" + std::to_string(ranks) + (head ? " mtp" : " ngram"));
    Causes causes;
    const auto check = [&](const char* column, Traffic traffic, int32_t k, bool drawn = false) {
      traffic.speculation = {
          .method = head ? engine::SpeculationMethod::kMtp : engine::SpeculationMethod::kNgram,
          .tokens = k,
          .drawn = drawn,
          .lookup_min = 1};
      const Answers& want = traffic.sampled ? model.sampled : model.greedy;
      const plan::FabricCounts before = executor->fabric_counts();
      const Answers answers = Ask(*executor, model.prompts, traffic, &causes,
                                  tampers ? MostlyRight(want, vocab) : engine::EngineFaults());
      line.Cell(column, Difference(answers, want));
      if (!traffic.warm) ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
      EXPECT_GT(causes.drafts_accepted, 0u) << column;
      EXPECT_GT(causes.drafts_rejected, 0u) << column;
      EXPECT_EQ(causes.draft_steps > 0, head) << column;
    };
    check("k1", {}, 1);
    check("k2", {.together = true}, 2);
    check("k4", {.together = true}, 4);
    check("chunk16", {.together = true, .budget = 16}, 3);
    check("warm", {.warm = true, .prefix_caching = true}, 4);
    EXPECT_GE(causes.cached_tokens, 64);
    check("preempted", {.together = true, .pages = 9}, 4);
    EXPECT_GT(causes.preemptions, 0u);
    check("sampled", {.together = true, .sampled = true}, 4);
    if (head) check("drawn", {.together = true, .sampled = true}, 4, /*drawn=*/true);
  }
}

}  // namespace
}  // namespace weft::one_answer
