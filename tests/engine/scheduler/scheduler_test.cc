#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

namespace weft::engine {
namespace {

// A scheduler without an engine: every scheduled chunk is computed and gives token 1.
class Bench {
 public:
  Bench(SchedulerConfig config, KvCacheConfig cache)
      : cache_(cache),
        slots_(config.max_num_seqs, 64, cache.page_tokens, {}),
        scheduler_(
            (config.policy = config.policy ? config.policy : &kFcfs,
             config.rows_max = config.rows_max ? config.rows_max : config.max_num_seqs, config),
            &cache_, &slots_) {}

  Sequence* Add(std::vector<int32_t> prompt, int32_t priority = 0) {
    Sequence& s = all_.emplace_back();
    s.request = std::make_unique<Request>();
    s.request->priority = priority;
    s.request->arrival_ns = static_cast<int64_t>(all_.size());
    s.number = all_.size();
    s.prompt_tokens = static_cast<int32_t>(prompt.size());
    s.tokens = std::move(prompt);
    scheduler_.Add(&s);
    return &s;
  }
  // Plans a step and says what each sequence got, by number.
  std::vector<std::pair<uint64_t, int32_t>> Plan() {
    std::vector<std::pair<uint64_t, int32_t>> chunks;
    for (Sequence* s : scheduler_.Plan(0)) chunks.emplace_back(s->number, s->chunk);
    return chunks;
  }
  void Commit() {
    for (Sequence& s : all_) {
      if (s.seat < 0 || s.chunk == 0) continue;
      s.computed += s.chunk;
      cache_.Publish(s.tokens, s.computed, "", &s.kv);
      if (s.computed == s.length()) s.tokens.push_back(1);
      s.chunk = 0;
    }
  }

  KvCache cache_;
  SlotMap slots_;
  Scheduler scheduler_;
  std::deque<Sequence> all_;
};

using Chunks = std::vector<std::pair<uint64_t, int32_t>>;

std::vector<int32_t> Prompt(int32_t n, int32_t first) {
  std::vector<int32_t> prompt(n);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

TEST(Scheduler, TenRequestsOfAnAmpleBudgetStartInOneStep) {
  Bench b({.max_num_seqs = 16, .max_num_batched_tokens = 8192}, {.pages = 1000, .page_tokens = 16});
  Chunks expected;
  for (int i = 0; i < 10; ++i) {
    b.Add(Prompt(10, 1000 * i));
    expected.emplace_back(i + 1, 10);
  }
  EXPECT_EQ(b.Plan(), expected);
}

TEST(Scheduler, DecodesComeBeforePrefillsAndTheBudgetHolds) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 20}, {.pages = 100, .page_tokens = 16});
  b.Add(Prompt(50, 0));
  b.Add(Prompt(5, 1000));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 20}}));
  b.Commit();
  EXPECT_EQ(b.Plan(), (Chunks{{1, 20}}));
  b.Commit();
  EXPECT_EQ(b.Plan(), (Chunks{{1, 10}, {2, 5}}));
  b.Commit();
  b.Add(Prompt(50, 2000));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}, {2, 1}, {3, 18}}));
  b.Commit();
  b.Add(Prompt(50, 3000));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}, {2, 1}, {3, 18}})) << "the running prefill comes first";
}

TEST(Scheduler, ACapOnOnePromptLetsSeveralGetOn) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 40, .long_prefill_token_threshold = 15},
          {.pages = 100, .page_tokens = 16});
  for (int i = 0; i < 4; ++i) b.Add(Prompt(50, 1000 * i));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 15}, {2, 15}, {3, 10}}));
}

TEST(Scheduler, WithoutChunksAPromptThatDoesNotFitBlocksTheQueue) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 60, .chunked_prefill = false},
          {.pages = 100, .page_tokens = 16});
  b.Add(Prompt(40, 0));
  b.Add(Prompt(30, 1000));
  b.Add(Prompt(10, 2000));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 40}})) << "the third would fit but the order is kept";
  b.Commit();
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}, {2, 30}, {3, 10}}));
}

TEST(Scheduler, SeatsAreRefilledInTheVeryNextStep) {
  Bench b({.max_num_seqs = 2, .max_num_batched_tokens = 60}, {.pages = 100, .page_tokens = 16});
  Sequence* first = b.Add(Prompt(10, 0));
  b.Add(Prompt(10, 1000));
  b.Add(Prompt(10, 2000));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 10}, {2, 10}}));
  b.Commit();
  b.scheduler_.Remove(first);
  EXPECT_EQ(b.Plan(), (Chunks{{2, 1}, {3, 10}}));
}

// vLLM's test_schedule_concurrent_batches / preemption: 10 usable blocks, two prompts of 80 tokens.
TEST(Scheduler, TheLastArrivedGivesItsBlocksToTheFirst) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 200},
          {.pages = 11, .page_tokens = 16, .prefix_caching = false});
  Sequence* first = b.Add(Prompt(80, 0));
  Sequence* second = b.Add(Prompt(80, 1000));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 80}, {2, 80}}));
  EXPECT_EQ(first->kv.blocks.size(), 5u);
  EXPECT_EQ(second->kv.blocks.size(), 5u);
  b.Commit();
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}})) << "the first needs a sixth block";
  EXPECT_EQ(second->seat, -1);
  EXPECT_EQ(second->computed, 0);
  EXPECT_EQ(second->outputs(), 1) << "what it has said stays said";
  EXPECT_EQ(b.scheduler_.preemptions(), 1u);
  EXPECT_EQ(b.scheduler_.waiting(), 1);
  b.Commit();
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}})) << "four blocks are free, it needs six";
  b.Commit();
  b.scheduler_.Remove(first);
  EXPECT_EQ(b.Plan(), (Chunks{{2, 81}})) << "prompt and output are recomputed";
}

TEST(Scheduler, APreemptedOneWaitsInFrontOfThoseThatNeverRan) {
  Bench b({.max_num_seqs = 2, .max_num_batched_tokens = 200},
          {.pages = 11, .page_tokens = 16, .prefix_caching = false});
  Sequence* first = b.Add(Prompt(80, 0));
  b.Add(Prompt(80, 1000));
  b.Add(Prompt(20, 2000));
  b.Plan();
  b.Commit();
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}})) << "nobody new starts in a step that preempts";
  b.Commit();
  b.scheduler_.Remove(first);
  EXPECT_EQ(b.Plan()[0], (std::pair<uint64_t, int32_t>{2, 81}));
}

// vLLM's test_priority_scheduling_preemption: 5 usable blocks, low priority runs, high arrives.
TEST(Scheduler, AHigherPriorityTakesTheBlocksOfTheLowest) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 200, .policy = &kPriority},
          {.pages = 6, .page_tokens = 16, .prefix_caching = false});
  Sequence* low = b.Add(Prompt(30, 0), 1);
  Sequence* lowest = b.Add(Prompt(30, 1000), 5);
  b.Plan();
  b.Commit();
  Sequence* high = b.Add(Prompt(30, 2000), 0);
  b.Plan();
  EXPECT_GE(high->seat, 0);
  EXPECT_GE(low->seat, 0) << "one victim is enough";
  EXPECT_EQ(lowest->seat, -1);
  EXPECT_EQ(b.scheduler_.preemptions(), 1u);
}

TEST(Scheduler, NobodyIsDisplacedIfThereIsSpaceOrAmongEquals) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 200, .policy = &kPriority},
          {.pages = 6, .page_tokens = 16, .prefix_caching = false});
  b.Add(Prompt(30, 0), 3);
  b.Plan();
  b.Commit();
  Sequence* high = b.Add(Prompt(30, 1000), 0);
  b.Plan();
  EXPECT_GE(high->seat, 0);
  b.Commit();
  Sequence* equal = b.Add(Prompt(30, 2000), 3);
  b.Plan();
  EXPECT_EQ(equal->seat, -1);
  EXPECT_EQ(b.scheduler_.preemptions(), 0u);
}

TEST(Scheduler, NobodyIsDisplacedInVain) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 200, .policy = &kPriority},
          {.pages = 6, .page_tokens = 16, .prefix_caching = false});
  b.Add(Prompt(40, 0), 0);
  Sequence* low = b.Add(Prompt(20, 1000), 5);
  b.Plan();
  b.Commit();
  b.Add(Prompt(60, 2000), 1);  // four blocks, but only two can be taken
  b.Plan();
  EXPECT_GE(low->seat, 0);
}

TEST(Scheduler, TheSecondOfTwoEqualPromptsWaitsAStepAndComputesTheRestOnly) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 500}, {.pages = 100, .page_tokens = 16});
  Sequence* first = b.Add(Prompt(100, 0));
  Sequence* second = b.Add(Prompt(100, 0));
  b.Add(Prompt(10, 5000));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 100}, {3, 10}})) << "strangers pass by";
  b.Commit();
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}, {3, 1}, {2, 4}})) << "100 mod 16";
  EXPECT_EQ(second->cached_tokens, 96);
  EXPECT_EQ(first->kv.blocks[5], second->kv.blocks[5]);
}

TEST(Scheduler, WhoWaitedForAPrefixStartsWhenItsMakerIsGone) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 32}, {.pages = 100, .page_tokens = 16});
  Sequence* first = b.Add(Prompt(100, 0));
  b.Add(Prompt(100, 0));
  EXPECT_EQ(b.Plan(), (Chunks{{1, 32}}));
  b.Commit();
  b.scheduler_.Remove(first);
  EXPECT_EQ(b.Plan(), (Chunks{{2, 32}}));
  EXPECT_EQ(b.scheduler_.prefix_hits(), 32u) << "what had been computed is used";
}

TEST(Scheduler, LaterTurnsReuseAllFullBlocks) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 500}, {.pages = 100, .page_tokens = 16});
  Sequence* turn = b.Add(Prompt(100, 0));
  for (int i = 0; i < 30; ++i) {
    b.Plan();
    b.Commit();
  }
  std::vector<int32_t> history = turn->tokens;
  b.scheduler_.Remove(turn);
  const auto computed = static_cast<int32_t>(history.size()) - 1;  // the last one never was
  for (int i = 0; i < 20; ++i) history.push_back(3000 + i);
  Sequence* next = b.Add(history);
  b.Plan();
  EXPECT_EQ(next->cached_tokens, computed / 16 * 16);
}

TEST(Scheduler, PromptLogprobsAreCutByHeadRowsAndReadNoCache) {
  Bench b({.max_num_seqs = 4, .max_num_batched_tokens = 500, .rows_max = 8},
          {.pages = 100, .page_tokens = 16});
  Sequence* warm = b.Add(Prompt(20, 0));
  b.Plan();
  b.Commit();
  Sequence* s = b.Add(Prompt(20, 0));
  s->request->sampling.prompt_logprobs = 0;
  EXPECT_EQ(b.Plan(), (Chunks{{1, 1}, {2, 7}})) << "one row is the decode's";
  EXPECT_EQ(s->chunk_heads, 7);
  EXPECT_EQ(s->cached_tokens, 0);
  (void)warm;
}

}  // namespace
}  // namespace weft::engine
