#include "engine/speculation/draft_inputs.h"

#include <gtest/gtest.h>

#include "support/engine_harness.h"

namespace weft::engine {
namespace {

// T26 of spec/engine 5.B: of steps of 4, 7 and 5 rows 1, 3 and 2 were rejected.
TEST(DraftInputs, T26TheFirstStepReadsTheRowsThatHold) {
  SlotMap slots(3, 8, 4, {});
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<DraftPart> parts;
  const int32_t rows[] = {4, 7, 5}, rejected[] = {1, 3, 2};
  int32_t row = 0;
  for (int i = 0; i < 3; ++i) {
    auto s = std::make_unique<Sequence>();
    s->request = std::make_unique<Request>();
    s->seat = slots.TakeSeat();
    s->number = static_cast<uint64_t>(i) + 1;
    s->kv.blocks = {3 * i + 1, 3 * i + 2, 3 * i + 3};
    s->kv.generation = 1;
    const int32_t held = rows[i] - rejected[i];
    for (int32_t t = 0; t <= held; ++t) s->tokens.push_back(100 * i + t);
    parts.push_back({.sequence = s.get(), .row = row, .rows = held, .position = 0, .wanted = 2});
    row += rows[i];
    sequences.push_back(std::move(s));
  }
  DraftInputsBuilder builder(16, 3, /*drawn=*/false, &slots);
  const plan::DraftInputs& first = builder.First(parts);
  EXPECT_TRUE(first.first);
  EXPECT_EQ(std::vector<int32_t>(first.rows.begin(), first.rows.end()),
            (std::vector<int32_t>{0, 1, 2, 4, 5, 6, 7, 11, 12, 13}));
  std::vector<int32_t> cumulative{0};
  for (const Segment& s : first.step.segments) cumulative.push_back(s.row_begin + s.rows);
  EXPECT_EQ(cumulative, (std::vector<int32_t>{0, 3, 7, 10}));
  EXPECT_EQ(std::vector<int32_t>(first.step.ids.begin(), first.step.ids.end()),
            (std::vector<int32_t>{1, 2, 3, 101, 102, 103, 104, 201, 202, 203}))
      << "the token behind each";
  EXPECT_EQ(std::vector<int32_t>(first.step.head_rows.begin(), first.step.head_rows.end()),
            (std::vector<int32_t>{2, 6, 9}));

  // The next step goes on from the last row of each that wants more.
  for (auto& s : sequences) s->drafts = {50};
  sequences[1]->drafts = {50, 51};
  const plan::DraftInputs& next = builder.Next(parts);
  EXPECT_FALSE(next.first);
  EXPECT_EQ(std::vector<int32_t>(next.rows.begin(), next.rows.end()), (std::vector<int32_t>{2, 9}));
  EXPECT_EQ(std::vector<int32_t>(next.step.positions.begin(), next.step.positions.end()),
            (std::vector<int32_t>{3, 3}));
}

using support::Greedy;
using support::Harness;
using support::HarnessConfig;

// T28 of spec/engine 5.B: near the longest length a sequence drafts no further than its end, and
// nothing is written behind it.
TEST(DraftInputs, T28NoDraftGoesBehindTheLongestLength) {
  constexpr int32_t kLongest = 20, kDrafts = 4;
  HarnessConfig c;
  c.engine.max_model_len = kLongest;
  c.engine.speculation = {.method = SpeculationMethod::kMtp, .tokens = kDrafts, .lookup_min = 1};
  c.executor.limits.draft_head = true;
  c.executor.limits.draft_tokens = kDrafts;
  c.engine.max_num_seqs = c.executor.limits.seqs_max = 4;
  c.executor.limits.rows_max = 4 * (1 + kDrafts);
  Harness h(c);
  int32_t last = 0;
  h.executor->before_step = [&](uint64_t, const plan::StepInputs& in) {
    for (const int32_t position : in.positions) last = std::max(last, position);
    return Status::Ok();
  };
  for (const int32_t length : {kLongest - 1, kLongest - 2, kLongest - 3, kLongest - 7}) {
    ASSERT_TRUE(h.Submit(std::to_string(length),
                         std::vector<int32_t>(static_cast<size_t>(length), length), Greedy(100))
                    .ok());
  }
  h.Drain();
  EXPECT_EQ(last, kLongest - 2) << "the last token is told and never computed";
  for (const auto& [id, story] : h.stories) {
    EXPECT_EQ(static_cast<int32_t>(story.ids.size()), kLongest - std::stoi(id));
    EXPECT_EQ(story.finish(), FinishReason::kLength);
  }
  h.ExpectClean();
}

}  // namespace
}  // namespace weft::engine
