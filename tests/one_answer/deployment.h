// What a cell of the one-answer suite runs: a model on some ranks, and requests through an engine.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine_impl.h"
#include "plan/wire_bytes.h"
#include "support/checkpoints.h"

namespace weft::one_answer {

// What one request was told.
struct Answer {
  std::vector<int32_t> ids;
  std::vector<uint64_t> hashes;  // of the logits behind every id; empty if not asked for
  friend bool operator==(const Answer&, const Answer&) = default;
};
using Answers = std::map<std::string, Answer>;

// What must have happened for a cell to mean something.
struct Causes {
  int64_t steps = 0;
  int64_t segments_max = 0;    // requests in one step
  int64_t tokens_max = 0;      // rows in one step
  int64_t steps_to_first = 0;  // until the first request's first token
  int64_t cached_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t drafts_accepted = 0, drafts_rejected = 0;
  int64_t draft_steps = 0;
  std::map<std::string, int64_t> planned_calls, planned_bytes;  // of the plans that ran
  std::set<std::string> uneven;   // kinds whose bytes the plans know per full bucket only
  std::set<std::string> at_most;  // kinds of which the plans know the most that can be
};

// Hands steps on, counts what they were, and may offer fewer pages than there are.
class Watched final : public plan::Executor {
 public:
  explicit Watched(plan::Executor* inner) : inner_(inner), limits_(inner->limits()) {}
  void OfferPages(int32_t pages) { limits_.pages = pages; }
  Causes TakeCauses() { return std::exchange(causes_, {}); }
  const Causes& causes() const { return causes_; }

  const plan::ExecutorLimits& limits() const override { return limits_; }
  std::string Describe() const override { return inner_->Describe(); }
  Status Run(const plan::StepInputs& inputs, plan::StepOutputs* outputs) override {
    const auto tokens = static_cast<int32_t>(inputs.ids.size());
    const auto rows = static_cast<int32_t>(inputs.head_rows.size());
    ++causes_.steps;
    causes_.segments_max = std::max<int64_t>(causes_.segments_max, inputs.segments.size());
    causes_.tokens_max = std::max<int64_t>(causes_.tokens_max, tokens);
    const exec::ModelInstance& instance = exec::InstanceOf(*inner_);
    Expect(instance.body_plan(tokens), tokens);
    if (rows > 0) Expect(instance.head_plan(rows, inputs.mode, inputs.hash_logits), rows);
    return inner_->Run(inputs, outputs);
  }

  Status Draft(const plan::DraftInputs& inputs, plan::StepOutputs* outputs) override {
    const auto tokens = static_cast<int32_t>(inputs.step.ids.size());
    const auto rows = static_cast<int32_t>(inputs.step.head_rows.size());
    ++causes_.draft_steps;
    const exec::ModelInstance& instance = exec::InstanceOf(*inner_);
    Expect(instance.draft_plan(inputs.first, tokens), tokens);
    if (rows > 0) Expect(instance.draft_head_plan(rows, inputs.step.mode), rows);
    return inner_->Draft(inputs, outputs);
  }

 private:
  void Expect(const plan::Plan& plan, int64_t rows) {
    for (const plan::Step& step : plan.steps) {
      const graph::Node& node = plan.graph.nodes[step.node];
      const bool fused = graph::IsFused(node.op);
      const graph::Op op = fused ? ChainOf(node).exchange.op : node.op;
      if (!graph::IsExchange(op)) continue;
      const std::string name(graph::NameOf(op));
      ++causes_.planned_calls[name];
      // Shares of other methods are whole blocks of 64 columns, so theirs are not even per row.
      if (fused ? step.phases > 1 : step.impl != "direct") causes_.uneven.insert(name);
      if (plan::IsUpperBound(node)) causes_.at_most.insert(name);
      causes_.planned_bytes[name] += plan::WireBytes(plan, step, rows);
    }
  }

  plan::Executor* inner_;
  plan::ExecutorLimits limits_;
  Causes causes_;
};

struct Traffic {
  bool together = false;  // all requests at once, else one after the other
  bool warm = false;      // a second round counts, the first one filled the prefix cache
  bool prefix_caching = false;
  int32_t budget = 0;    // --max-num-batched-tokens; 0: the executor's
  int32_t pages = 0;     // KV blocks offered; 0: all
  bool sampled = false;  // seeded random sampling in place of greedy
  bool hash = true;
  engine::SpeculationConfig speculation;
};

struct Prompt {
  std::string name;
  std::vector<int32_t> ids;
  int32_t max_tokens = 12;
};

// Eight strangers; the first is longer than a KV tile of 64 keys, and its first 32 tokens fill two
// blocks.
inline std::vector<Prompt> Prompts(int32_t vocab, int32_t max_tokens) {
  const int lengths[] = {79, 31, 5, 33, 64, 17, 48, 1};
  std::vector<Prompt> prompts;
  Rng rng(2026);
  for (int length : lengths) {
    Prompt p{.name = "len" + std::to_string(length), .max_tokens = max_tokens};
    for (int i = 0; i < length; ++i) p.ids.push_back(static_cast<int32_t>(rng.Below(vocab)));
    prompts.push_back(std::move(p));
  }
  return prompts;
}

// Runs the prompts through an engine of its own over `executor`.
inline Answers Ask(plan::Executor& executor, const std::vector<Prompt>& prompts, const Traffic& t,
                   Causes* causes, const engine::EngineFaults& faults = {}) {
  static const SteadyClock clock;
  static NullLog log;
  Watched watched(&executor);
  if (t.pages > 0) watched.OfferPages(t.pages);
  engine::EngineConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = t.budget > 0 ? t.budget : executor.limits().tokens_max;
  config.enable_prefix_caching = t.prefix_caching;
  config.speculation = t.speculation;
  auto made = engine::EngineImpl::Create(config, &watched, &clock, &log, faults);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return {};
  auto engine = std::move(made).value();

  Answers answers;
  for (int round = t.warm ? 0 : 1; round < 2; ++round) {
    answers.clear();
    watched.TakeCauses();
    int64_t cached = 0, steps_to_first = 0;
    const auto drain = [&] {
      int guard = 0;
      while (engine->Step()) {
        if (++guard > 100'000) {
          ADD_FAILURE() << "no end in sight";
          return;
        }
      }
    };
    for (const Prompt& prompt : prompts) {
      auto request = std::make_unique<engine::Request>();
      request->id = prompt.name + "-" + std::to_string(round);
      request->prompt = prompt.ids;
      request->hash_logits = t.hash;
      request->sampling.max_tokens = prompt.max_tokens;
      request->sampling.ignore_eos = true;
      request->sampling.temperature = t.sampled ? 0.9f : 0.0f;
      if (t.sampled) {
        request->sampling.seed = 7;
        request->sampling.top_p = 0.95f;
        request->sampling.repetition_penalty = 1.1f;
      }
      Answer* answer = &answers[prompt.name];
      const bool first = &prompt == &prompts[0];
      request->sink = [&, answer, first](engine::TokenEvent event) {
        EXPECT_TRUE(event.error.ok()) << event.error.message();
        cached += event.cached_tokens;
        if (event.id < 0) return;
        if (first && answer->ids.empty()) steps_to_first = watched.causes().steps;
        answer->ids.push_back(event.id);
        if (t.hash) answer->hashes.push_back(event.logits_hash);
      };
      const Status status = engine->Submit(std::move(request));
      EXPECT_TRUE(status.ok()) << status.message();
      if (!t.together) drain();
    }
    drain();
    if (causes != nullptr) {
      *causes = watched.causes();
      causes->cached_tokens = cached;
      causes->steps_to_first = steps_to_first;
      const engine::MetricsSnapshot metrics = engine->Metrics();
      causes->preemptions = metrics.preemptions;
      causes->drafts_accepted = metrics.spec_decode_accepted_tokens;
      causes->drafts_rejected =
          metrics.spec_decode_draft_tokens - metrics.spec_decode_accepted_tokens;
    }
  }
  return answers;
}

// Drafts that are right, but for one in three: what a request of Ask() is to be told is known.
inline engine::EngineFaults MostlyRight(const Answers& answers, int32_t vocab) {
  engine::EngineFaults faults;
  faults.tamper = [&answers, vocab](const std::string& id, int32_t outputs,
                                    std::vector<int32_t>* drafts) {
    const std::vector<int32_t>& right = answers.at(id.substr(0, id.rfind('-'))).ids;
    for (size_t j = 0; j < drafts->size(); ++j) {
      const size_t at = static_cast<size_t>(outputs) + j;
      const int32_t next = right[std::min(at, right.size() - 1)];
      (*drafts)[j] = (at + id.size()) % 3 == 0 ? (next + 1) % vocab : next;
    }
  };
  return faults;
}

// Where the first difference lies, for a message; "" if equal.
inline std::string Difference(const Answers& got, const Answers& want, bool hashes = true) {
  for (const auto& [name, answer] : want) {
    const auto it = got.find(name);
    if (it == got.end()) return name + ": no answer";
    if (it->second.ids.size() != answer.ids.size()) {
      return name + ": " + std::to_string(it->second.ids.size()) + " tokens, not " +
             std::to_string(answer.ids.size());
    }
    for (size_t i = 0; i < answer.ids.size(); ++i) {
      if (hashes && it->second.hashes[i] != answer.hashes[i]) {
        return name + ": other logits behind token " + std::to_string(i);
      }
      if (it->second.ids[i] != answer.ids[i]) return name + ": another token " + std::to_string(i);
    }
  }
  return "";
}

}  // namespace weft::one_answer
