#include "engine/step_inputs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/engine_harness.h"

// Counts every allocation of this test program.
namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

// Not inlined, or the compiler sees malloc's pointer meet delete and warns.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  std::abort();
}
// std::stable_sort asks for its buffer so.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace weft::engine {
namespace {

using support::Greedy;
using support::Harness;
using support::HarnessConfig;
using support::RandomPrompt;

TEST(StepInputs, ASteadyStepRewritesNoLayoutAndAllocatesNothing) {
  HarnessConfig config;
  config.engine.max_num_seqs = 4;
  Harness h(config);
  Rng rng(1);
  int heard = 0;
  for (int i = 0; i < 4; ++i) {
    SamplingParams p = Greedy(40);
    auto request = h.Make(std::to_string(i), RandomPrompt(&rng, 10), p);
    request->sink = [&heard](TokenEvent event) { heard += event.id >= 0; };
    ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  }
  h.engine->Step();  // prefill
  h.engine->Step();  // the first decode writes the layout
  const uint64_t layouts = h.engine->inputs().layouts_written();
  const uint64_t entries = h.engine->slots().entries_written();
  const uint64_t before = allocations.load();
  for (int i = 0; i < 20; ++i) h.engine->Step();
  EXPECT_EQ(allocations.load() - before, 0u);
  EXPECT_EQ(h.engine->inputs().layouts_written(), layouts);
  EXPECT_EQ(h.engine->slots().entries_written() - entries, 4u * 20 / 4)
      << "a page of 4 tokens is entered once";
  EXPECT_EQ(heard, 4 * 22);
  h.Drain();
}

TEST(StepInputs, OneRowThatSamplesMakesAStepOfSamplesForAll) {
  Harness h({});
  std::vector<plan::HeadMode> modes;
  std::vector<size_t> rows;
  h.executor->before_step = [&](uint64_t, const plan::StepInputs& in) {
    modes.push_back(in.mode);
    rows.push_back(in.sample.size());
    for (const SampleRow& row : in.sample) {
      EXPECT_TRUE(row.temperature == 0 || row.temperature == 0.5f);
    }
    return Status::Ok();
  };
  ASSERT_TRUE(h.Submit("greedy", {1, 2}, Greedy(4)).ok());
  SamplingParams p = Greedy(2);
  p.temperature = 0.5f;
  ASSERT_TRUE(h.Submit("random", {3, 4}, p).ok());
  h.Drain();
  using enum plan::HeadMode;
  EXPECT_EQ(modes, (std::vector<plan::HeadMode>{kSample, kSample, kGreedy, kGreedy}));
  EXPECT_EQ(rows, (std::vector<size_t>{2, 2, 0, 0}));
}

TEST(StepInputs, TheStopMaskIsThereExactlyUntilMinTokens) {
  HarnessConfig config;
  config.engine.eos_token_ids = {9};
  Harness h(config);
  std::vector<int32_t> banned;
  h.executor->before_step = [&](uint64_t, const plan::StepInputs& in) {
    banned.push_back(in.mode == plan::HeadMode::kSample ? in.sample[0].banned_count : -1);
    return Status::Ok();
  };
  SamplingParams p = Greedy(5);
  p.min_tokens = 3;
  ASSERT_TRUE(h.Submit("a", {1, 2}, p).ok());
  h.Drain();
  EXPECT_EQ(banned, (std::vector<int32_t>{1, 1, 1, -1, -1}))
      << "afterwards the step is greedy again";
}

}  // namespace
}  // namespace weft::engine
