#include "exec/step_message.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace weft::exec {
namespace {

struct Step {
  std::vector<int32_t> ids{3, 1, 4, 1, 5}, positions{0, 1, 2, 9, 10}, head_rows{2, 4},
      pages{7, 8, 6};
  std::vector<int64_t> slots{112, 113, 114, 1LL << 40, 99};
  std::vector<Segment> segments{{0, 3, 0, 1, pages.data()},
                                {3, 2, 9, 2, pages.data() + 1, 5, 1, 2}};
  std::vector<plan::StateCopy> copies{{3, 9}, {9, 4}};
  std::vector<SampleRow> sample{2};
  plan::StepInputs Inputs(plan::HeadMode mode) const {
    plan::StepInputs in;
    in.ids = ids;
    in.positions = positions;
    in.slots = slots;
    in.segments = segments;
    in.head_rows = head_rows;
    in.mode = mode;
    if (mode == plan::HeadMode::kSample) in.sample = sample;
    in.hash_logits = true;
    in.state_copies = copies;
    return in;
  }
};

template <typename T>
std::vector<T> Copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

TEST(StepMessage, ArrivesAsItWas) {
  const Step step;
  std::vector<std::byte> bytes;
  UnpackedStep got;
  for (const auto mode : {plan::HeadMode::kSample, plan::HeadMode::kGreedy}) {
    const StepPlans plans{41, 0xABCD, 0x1234};
    PackStep(plans, step.Inputs(mode), nullptr, &bytes);
    ASSERT_TRUE(got.Unpack(bytes).ok());
    EXPECT_EQ(got.plans(), plans);
    EXPECT_EQ(Copy(got.inputs().ids), step.ids);
    EXPECT_EQ(Copy(got.inputs().positions), step.positions);
    EXPECT_EQ(Copy(got.inputs().slots), step.slots);
    EXPECT_EQ(Copy(got.inputs().head_rows), step.head_rows);
    EXPECT_EQ(got.inputs().mode, mode);
    EXPECT_TRUE(got.inputs().hash_logits);
    ASSERT_EQ(got.inputs().state_copies.size(), 2u);
    EXPECT_EQ(got.inputs().state_copies[0].to, 9);
    EXPECT_EQ(got.inputs().state_copies[1].from, 9);
    EXPECT_EQ(got.inputs().sample.size(), mode == plan::HeadMode::kSample ? 2u : 0u);
    ASSERT_EQ(got.inputs().segments.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      const Segment &a = got.inputs().segments[i], &b = step.segments[i];
      EXPECT_EQ(a.row_begin, b.row_begin);
      EXPECT_EQ(a.rows, b.rows);
      EXPECT_EQ(a.position_begin, b.position_begin);
      EXPECT_EQ(a.state, b.state);
      EXPECT_EQ(a.replay, b.replay);
      EXPECT_EQ(a.logged, b.logged);
      EXPECT_EQ(std::vector(a.pages, a.pages + a.page_count),
                std::vector(b.pages, b.pages + b.page_count));
    }
  }
}

TEST(StepMessage, ADraftStepBringsItsRows) {
  const Step step;
  const std::vector<int32_t> rows{0, 2, 3, 7, 9};
  std::vector<std::byte> bytes;
  UnpackedStep got;
  for (const bool first : {true, false}) {
    plan::DraftInputs draft{
        .first = first, .rows = rows, .step = step.Inputs(plan::HeadMode::kGreedy)};
    PackStep({}, draft.step, &draft, &bytes);
    ASSERT_TRUE(got.Unpack(bytes).ok());
    ASSERT_NE(got.draft(), nullptr);
    EXPECT_EQ(got.draft()->first, first);
    EXPECT_EQ(Copy(got.draft()->rows), rows);
    EXPECT_EQ(Copy(got.draft()->step.ids), step.ids);
    EXPECT_EQ(got.draft()->step.segments.size(), 2u);
  }
  PackStep({}, step.Inputs(plan::HeadMode::kGreedy), nullptr, &bytes);
  ASSERT_TRUE(got.Unpack(bytes).ok());
  EXPECT_EQ(got.draft(), nullptr);
}

TEST(StepMessage, AStepWithoutHeadRowsIsOne) {
  Step step;
  step.head_rows.clear();
  std::vector<std::byte> bytes;
  PackStep({}, step.Inputs(plan::HeadMode::kGreedy), nullptr, &bytes);
  UnpackedStep got;
  ASSERT_TRUE(got.Unpack(bytes).ok());
  EXPECT_TRUE(got.inputs().head_rows.empty());
}

TEST(StepMessage, OtherBytesAreRefused) {
  const Step step;
  std::vector<std::byte> bytes;
  PackStep({}, step.Inputs(plan::HeadMode::kGreedy), nullptr, &bytes);
  UnpackedStep got;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(got.Unpack(std::span(bytes).first(size)).ok()) << size;
  }
  // Whatever the header says, nothing outside of the bytes is read.
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> other = bytes;
    other[rng.Below(64)] = std::byte(rng.Next());
    (void)got.Unpack(other);
  }
}

}  // namespace
}  // namespace weft::exec
