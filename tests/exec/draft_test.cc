// The draft head: against the golden rows of tools/oracle/make_tiny_hybrids.py, and one answer over
// ranks, chunks and schedules.
// Covers src/exec/rank_executor.cc src/exec/model_instance_plans.cc
#include <gtest/gtest.h>

#include <cmath>

#include "support/checkpoints.h"

namespace weft::exec {
namespace {

using support::Golden;

constexpr const char* kFolders[] = {WEFT_TESTS_DIR "/models/data/qwen35_moe_r2_4h2_bf16",
                                    WEFT_TESTS_DIR "/models/data/qwen35_tied_r3_4h1_bf16"};

ExecConfig DraftConfig(int ranks) {
  ExecConfig config = support::SmallConfig(ranks);
  config.draft_head = true;
  config.draft_tokens = 4;
  return config;
}

struct Drafted {
  std::vector<std::vector<float>> logits;  // of every row of the first pass
  std::vector<int32_t> tokens;             // greedy, behind the last row
  friend bool operator==(const Drafted&, const Drafted&) = default;
};

// The prompt in steps of `chunk` rows, each followed by its draft pass; then `tokens` drafts in
// all. `following`: the token behind the prompt.
Drafted Draft(plan::Executor& executor, const std::vector<int32_t>& ids, int32_t following,
              int32_t chunk, int tokens) {
  Drafted out;
  const int32_t page = executor.limits().page_tokens, total = static_cast<int32_t>(ids.size());
  std::vector<int32_t> pages;
  for (int32_t at = 0; at < total + tokens; at += page)
    pages.push_back(static_cast<int32_t>(pages.size()) + 1);
  plan::StepOutputs outputs;
  plan::DraftInputs draft;
  std::vector<int32_t> positions, rows, behind;
  std::vector<int64_t> slots;
  Segment segment;
  const auto set = [&](int32_t begin, int32_t count) {
    positions.clear(), rows.clear(), slots.clear();
    for (int32_t r = 0; r < count; ++r) {
      rows.push_back(r);
      positions.push_back(begin + r);
      slots.push_back(begin + r + page);
    }
    segment = {0, count, begin, static_cast<int32_t>(pages.size()), pages.data(), /*state=*/1};
    draft.step = {};
    draft.step.positions = positions;
    draft.step.slots = slots;
    draft.step.segments = {&segment, 1};
    draft.rows = rows;
  };
  const std::vector<SampleRow> sample(static_cast<size_t>(chunk), SampleRow{.temperature = 0});
  for (int32_t begin = 0; begin < total; begin += chunk) {
    const int32_t count = std::min(chunk, total - begin);
    set(begin, count);
    plan::StepInputs step = draft.step;
    step.ids = std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    Status status = executor.Run(step, &outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    behind.assign(ids.begin() + begin + 1, ids.begin() + std::min(begin + count + 1, total));
    if (behind.size() < static_cast<size_t>(count)) behind.push_back(following);
    draft.first = true;
    draft.step.ids = behind;
    draft.step.head_rows = rows;
    draft.step.mode = plan::HeadMode::kSample;
    draft.step.sample = std::span(sample).first(static_cast<size_t>(count));
    status = executor.Draft(draft, &outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    for (int32_t r = 0; r < count; ++r) {
      const auto row = LogitsOf(executor, r);
      out.logits.emplace_back(row.begin(), row.end());
    }
    if (begin + count == total)
      out.tokens.push_back(outputs.rows[static_cast<size_t>(count) - 1].id);
  }
  // The last row of the pass before, and then the only one.
  for (int32_t last = (total - 1) % chunk; static_cast<int>(out.tokens.size()) < tokens; last = 0) {
    set(total - 1 + static_cast<int32_t>(out.tokens.size()), 1);
    rows[0] = last;
    const int32_t head = 0;
    draft.first = false;
    draft.step.ids = {&out.tokens.back(), 1};
    draft.step.head_rows = {&head, 1};
    const Status status = executor.Draft(draft, &outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    out.tokens.push_back(outputs.rows[0].id);
  }
  return out;
}

TEST(DraftHead, LogitsAndDraftsAreThoseOfTheOracle) {
  int compared = 0;
  for (const char* folder : kFolders) {
    const auto checkpoint = support::OpenCheckpoint(folder);
    const Golden golden(std::string(folder) + "/golden.safetensors");
    for (int ranks : {1, 3}) {
      ExecConfig config = DraftConfig(ranks);
      config.model_dtype = DType::kF32;
      const auto executor = support::MakeExecutor(*checkpoint, config);
      ASSERT_NE(executor, nullptr);
      for (int i : {1, 5}) {
        const std::string name = "prompt" + std::to_string(i);
        const auto ids = golden.Get<int32_t>(name + ".ids");
        const auto want = golden.Get<float>(name + ".mtp.logits");
        const auto drafts = golden.Get<int32_t>(name + ".mtp.draft");
        const auto greedy = golden.Get<float>(name + ".logits");
        ASSERT_FALSE(ids.empty() || want.empty() || drafts.empty());
        const size_t vocab = static_cast<size_t>(checkpoint->config().vocab_size);
        const auto last = std::span(greedy).last(vocab);
        const auto following =
            static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
        const Drafted got = Draft(*executor, ids, following, 64, static_cast<int>(drafts.size()));
        ASSERT_EQ(got.logits.size() * vocab, want.size());
        double largest = 0;
        for (size_t r = 0; r < got.logits.size(); ++r) {
          for (size_t v = 0; v < vocab; ++v)
            largest = std::max(
                largest, std::abs(static_cast<double>(got.logits[r][v]) - want[r * vocab + v]));
        }
        EXPECT_LE(largest, 1e-4) << folder << " " << name << " on " << ranks;
        EXPECT_EQ(got.tokens, drafts) << folder << " " << name << " on " << ranks;
        compared += static_cast<int>(got.logits.size());
      }
    }
  }
  EXPECT_GE(compared, 100);
}

TEST(DraftHead, SameBitsOverRanksChunksAndSchedules) {
  for (const char* folder : kFolders) {
    const auto checkpoint = support::OpenCheckpoint(folder);
    const Golden golden(std::string(folder) + "/golden.safetensors");
    const auto ids = golden.Get<int32_t>("prompt5.ids");
    const auto reference = support::MakeExecutor(*checkpoint, [] {
      ExecConfig config = DraftConfig(1);
      config.reference = true;
      return config;
    }());
    ASSERT_NE(reference, nullptr);
    const Drafted want = Draft(*reference, ids, 7, 64, 4);
    EXPECT_NE(want.logits.front(), want.logits.back());
    struct Cell {
      int ranks;
      int32_t chunk;
      plan::Schedule schedule = plan::Schedule::kPlain;
    };
    using plan::Schedule;
    for (const Cell& cell :
         {Cell{1, 64}, Cell{1, 5}, Cell{2, 64}, Cell{3, 16}, Cell{2, 64, Schedule::kSp},
          Cell{2, 64, Schedule::kFc1}, Cell{4, 7, Schedule::kFc1}, Cell{2, 64, Schedule::kFc2},
          Cell{2, 64, Schedule::kGather}}) {
      ExecConfig config = DraftConfig(cell.ranks);
      config.schedule.schedule = cell.schedule;
      config.schedule.sp_min_tokens = config.schedule.fc1_min_tokens = 1;
      const auto executor = support::MakeExecutor(*checkpoint, config);
      ASSERT_NE(executor, nullptr);
      EXPECT_TRUE(Draft(*executor, ids, 7, cell.chunk, 4) == want)
          << folder << " on " << cell.ranks << " in " << cell.chunk << " by "
          << plan::NameOf(cell.schedule);
    }
  }
}

TEST(DraftHead, RefusesWhatItCannotRead) {
  const auto checkpoint = support::OpenCheckpoint(kFolders[0]);
  const auto without = support::MakeExecutor(*checkpoint, support::SmallConfig(1));
  plan::StepOutputs outputs;
  EXPECT_EQ(without->Draft({}, &outputs).code(), StatusCode::kUnsupported);
  EXPECT_FALSE(without->limits().draft_head);

  const auto executor = support::MakeExecutor(*checkpoint, DraftConfig(1));
  EXPECT_TRUE(executor->limits().draft_head);
  EXPECT_EQ(executor->limits().rows_max, 64) << "as many as a step has tokens";
  const int32_t id = 3, position = 0, row = 0, page = 1;
  const int64_t slot = executor->limits().page_tokens;
  const Segment segment{0, 1, 0, 1, &page, 1};
  plan::DraftInputs draft;
  draft.first = true;
  draft.rows = {&row, 1};
  draft.step.ids = {&id, 1};
  draft.step.positions = {&position, 1};
  draft.step.slots = {&slot, 1};
  draft.step.segments = {&segment, 1};
  EXPECT_EQ(executor->Draft(draft, &outputs).message(), "hidden row 0 is not in [0, 0)");
  EXPECT_TRUE(executor->Run(draft.step, &outputs).ok());
  EXPECT_TRUE(executor->Draft(draft, &outputs).ok());
  draft.rows = {};
  EXPECT_EQ(executor->Draft(draft, &outputs).message(), "a draft step of 1 ids over 0 rows");

  const auto dense = support::OpenCheckpoint(WEFT_TESTS_DIR "/models/data/qwen3_tied_4h2_d32_bf16");
  ExecConfig config = DraftConfig(1);
  const auto refused = CreateRankExecutor(*dense, config, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("no draft head (mtp)"), std::string::npos)
      << refused.status().message();
}

}  // namespace
}  // namespace weft::exec
