// An engine on a hash model and a virtual clock, its requests' stories, and what they must be.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/engine_impl.h"
#include "support/hash_executor.h"

namespace weft::support {

using engine::EngineConfig;
using engine::EngineFaults;
using engine::EngineImpl;
using engine::FinishReason;
using engine::Request;
using engine::SamplingParams;
using engine::TokenEvent;

// All that one request's owner has heard.
struct Story {
  std::vector<int32_t> ids;
  std::vector<TokenEvent> events;
  int ends = 0;

  FinishReason finish() const {
    return events.empty() ? FinishReason::kNone : events.back().finish;
  }
  void Hear(TokenEvent event) {
    if (event.id >= 0) ids.push_back(event.id);
    if (event.finish != FinishReason::kNone) ++ends;
    events.push_back(std::move(event));
  }
};

struct HarnessConfig {
  EngineConfig engine{.max_num_seqs = 8, .max_num_batched_tokens = 64};
  HashExecutorConfig executor;
  EngineFaults faults;
};

class Harness {
 public:
  explicit Harness(HarnessConfig config) {
    config.executor.clock = &clock;
    executor = std::make_unique<HashExecutor>(config.executor);
    auto made = EngineImpl::Create(config.engine, executor.get(), &clock, &log, config.faults);
    EXPECT_TRUE(made.ok()) << made.status().message();
    engine = std::move(made).value();
  }
  ~Harness() { engine.reset(); }  // before the stories it tells

  std::unique_ptr<Request> Make(std::string id, std::vector<int32_t> prompt,
                                SamplingParams sampling) {
    auto request = std::make_unique<Request>();
    Story* story = &stories[id];
    request->id = std::move(id);
    request->prompt = std::move(prompt);
    request->sampling = std::move(sampling);
    request->sink = [story](TokenEvent event) { story->Hear(std::move(event)); };
    return request;
  }
  Status Submit(std::string id, std::vector<int32_t> prompt, SamplingParams sampling) {
    return engine->Submit(Make(std::move(id), std::move(prompt), std::move(sampling)));
  }
  // Steps until there is nothing to do; a livelock fails instead of hanging.
  void Drain(int steps_max = 200'000) {
    int steps = 0;
    while (engine->Step()) ASSERT_LT(++steps, steps_max) << "no end in sight";
  }

  // Everything ended once, no page is held, nothing stale was read.
  void ExpectClean() const {
    for (const auto& [id, story] : stories) EXPECT_EQ(story.ends, 1) << id;
    EXPECT_EQ(engine->cache().pool().held(), 0);
    EXPECT_EQ(engine->cache().pool().FreeQueue().size(),
              static_cast<size_t>(engine->cache().pool().total()));
    EXPECT_EQ(executor->violations(), 0u) << executor->first_violation();
  }

  ManualClock clock{1'000'000'000};
  NullLog log;
  std::map<std::string, Story> stories;
  std::unique_ptr<HashExecutor> executor;
  std::unique_ptr<EngineImpl> engine;
};

inline std::vector<int32_t> RandomPrompt(Rng* rng, int32_t length, int32_t vocab_size = 64) {
  std::vector<int32_t> prompt(length);
  for (int32_t& id : prompt) id = static_cast<int32_t>(rng->Below(vocab_size));
  return prompt;
}

inline SamplingParams Greedy(int32_t max_tokens) {
  return {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
}

// The answer by the definitions alone: no engine, no cache, no batch; penalties counted anew for
// every token.
inline std::vector<int32_t> Expect(const HashModel& model, std::vector<int32_t> prompt,
                                   const SamplingParams& p, uint64_t seed = 0,
                                   std::vector<int32_t> eos = {}, int32_t max_model_len = 1 << 30) {
  std::vector<int32_t> tokens = std::move(prompt);
  const size_t prompt_tokens = tokens.size();
  std::vector<int32_t> output;
  std::set<int32_t> stops(p.stop_token_ids.begin(), p.stop_token_ids.end());
  std::set<int32_t> banned = stops;
  banned.insert(eos.begin(), eos.end());
  if (!p.ignore_eos) stops.insert(eos.begin(), eos.end());
  const std::vector<int32_t> banned_ids(banned.begin(), banned.end());
  while (static_cast<int32_t>(output.size()) < p.max_tokens &&
         static_cast<int32_t>(tokens.size()) < max_model_len) {
    std::map<int32_t, int32_t> seen;
    for (size_t i = 0; i < tokens.size(); ++i) seen[tokens[i]] += i >= prompt_tokens;
    std::vector<int32_t> seen_ids, seen_counts, bias_ids;
    std::vector<float> bias;
    for (const auto& [id, count] : seen) {
      seen_ids.push_back(id);
      seen_counts.push_back(count);
    }
    for (const auto& [id, value] : p.logit_bias) {
      bias_ids.push_back(id);
      bias.push_back(value);
    }
    SampleRow row{.temperature = p.temperature,
                  .top_p = p.top_p,
                  .min_p = p.min_p,
                  .top_k = p.top_k,
                  .repetition_penalty = p.repetition_penalty,
                  .presence_penalty = p.presence_penalty,
                  .frequency_penalty = p.frequency_penalty,
                  .seed = seed,
                  .position = static_cast<uint32_t>(tokens.size()),
                  .seen_ids = seen_ids.data(),
                  .seen_counts = seen_counts.data(),
                  .seen = static_cast<int32_t>(seen_ids.size()),
                  .bias_ids = bias_ids.data(),
                  .bias = bias.data(),
                  .biases = static_cast<int32_t>(bias_ids.size())};
    if (static_cast<int32_t>(output.size()) < p.min_tokens) {
      row.banned = banned_ids.data();
      row.banned_count = static_cast<int32_t>(banned_ids.size());
    }
    const int32_t id = model.Sample(SequenceHash(model, tokens), row).id;
    tokens.push_back(id);
    output.push_back(id);
    if (static_cast<int32_t>(output.size()) >= p.min_tokens && stops.contains(id)) break;
  }
  return output;
}

}  // namespace weft::support
