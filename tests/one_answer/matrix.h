// The matrix of the one-answer suite: its models, what a line of it says, and what every cell must
// show.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "one_answer/deployment.h"

namespace weft::one_answer {

using exec::ExecConfig;

// The bundled model, whose draft head was trained: what it guesses is often right.
inline const std::string kTrained = WEFT_TESTS_DIR "/../models/tiny-qwen3_5-moe";

inline bool Full() {
  const char* what = std::getenv("WEFT_P1");
  return what != nullptr && std::string_view(what) == "full";
}

struct TestModel {
  std::string name;
  std::unique_ptr<io::Checkpoint> checkpoint;
  std::vector<Prompt> prompts;
  Answers greedy, sampled;  // of the reference
  bool real = false;

  ExecConfig Config(int ranks) const {
    ExecConfig config = support::SmallConfig(ranks);
    config.tokens_max = 128;
    config.seqs_max = 8;
    config.positions_max = 256;
    config.state_checkpoints = 16;
    // Float32 shows every changed order of a sum; rounding to bf16 hides most of them.
    if (name.ends_with("_f32")) config.model_dtype = DType::kF32;
    return config;
  }
};

// The reference of a model, made once.
inline const TestModel& ModelAt(const std::string& path) {
  static std::map<std::string, TestModel> models;
  auto [it, fresh] = models.try_emplace(path);
  TestModel& model = it->second;
  if (!fresh) return model;
  model.real = path.ends_with(".gguf");
  model.name =
      model.real ? "SmolLM2-135M-Instruct" : std::filesystem::path(path).filename().string();
  model.checkpoint = support::OpenCheckpoint(path);
  const auto vocab = static_cast<int32_t>(model.checkpoint->config().vocab_size);
  model.prompts = Prompts(vocab, model.real ? 6 : 12);
  ExecConfig config = model.Config(1);
  // The contracts in plain loops take minutes for the real model outside of the full matrix.
  config.reference = !model.real || Full();
  const auto executor = support::MakeExecutor(*model.checkpoint, config);
  if (executor == nullptr) return model;
  model.greedy = Ask(*executor, model.prompts, {}, nullptr);
  model.sampled = Ask(*executor, model.prompts, {.sampled = true}, nullptr);
  return model;
}

// One line of the matrix: model and ranks; a column per kind of traffic.
class Line {
 public:
  Line(const TestModel& model, std::string deployment)
      : text_("P1 " + model.name + " " + std::move(deployment)) {}
  ~Line() { std::printf("%s\n", text_.c_str()); }
  void Cell(const std::string& column, const std::string& difference) {
    text_ += " " + column + (difference.empty() ? "=ok" : "=DIFFERS");
    EXPECT_EQ(difference, "") << text_;
  }

 private:
  std::string text_;
};

// Calls and bytes of every collective are those of the plans that ran.
inline void ExpectPlannedTraffic(const plan::FabricCounts& before, const plan::FabricCounts& after,
                                 const Causes& causes, int ranks) {
  std::map<std::string, int64_t> calls, bytes;
  for (const auto& kind : after.kinds) {
    calls[kind.name] += kind.calls;
    bytes[kind.name] += kind.bytes;
  }
  for (const auto& kind : before.kinds) {
    calls[kind.name] -= kind.calls;
    bytes[kind.name] -= kind.bytes;
  }
  int64_t total = 0;
  for (const auto& [name, planned] : causes.planned_calls) {
    EXPECT_EQ(calls[name], planned) << name;
    if (causes.at_most.contains(name)) {
      EXPECT_LE(bytes[name], causes.planned_bytes.at(name)) << name;
    } else if (!causes.uneven.contains(name)) {
      EXPECT_EQ(bytes[name], causes.planned_bytes.at(name)) << name;
    }
    total += bytes[name];
  }
  EXPECT_EQ(total > 0, ranks > 1);
}

// Exactly the ranks that own heads ran attention, and the recurrence of layers that have one.
inline void ExpectWorkOfOwners(const exec::ModelInstance& instance, int ranks) {
  const graph::Graph& g = instance.bodies()[0].plan.graph;
  std::set<graph::Op> seen;
  for (const graph::Node& node : g.nodes) {
    if ((node.op != graph::Op::kAttention && node.op != graph::Op::kGatedDelta) ||
        !seen.insert(node.op).second)
      continue;
    const graph::Value& y = g.value(node.out[0]);
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(instance.units(r, node.op) > 0, plan::LocalWidth(g, y, r) > 0)
          << NameOf(node.op) << " on rank " << r << " of " << ranks;
    }
  }
  EXPECT_TRUE(seen.contains(graph::Op::kAttention)) << "no attention in the plan";
}

struct ScheduleCell {
  plan::Schedule schedule;
  int otp = 1;
  std::string Name() const {
    const bool fc2 = schedule == plan::Schedule::kFc2 || schedule == plan::Schedule::kFc1Fc2;
    return std::string(plan::NameOf(schedule)) + (fc2 ? "/" + std::to_string(otp) : "");
  }
  plan::ScheduleConfig Config() const {
    plan::ScheduleConfig c;
    c.schedule = schedule;
    c.otp = otp;
    c.sp_min_tokens = c.fc1_min_tokens = 1;  // at every row count, also where it does not pay
    return c;
  }
};

// Every schedule on this many ranks, FlashComm2 over every divisor.
inline std::vector<ScheduleCell> SchedulesOn(int ranks) {
  std::vector<ScheduleCell> cells{
      {plan::Schedule::kSp}, {plan::Schedule::kFc1}, {plan::Schedule::kGather}};
  for (int otp = 1; otp < ranks; ++otp) {
    if (ranks % otp != 0) continue;
    cells.push_back({plan::Schedule::kFc2, otp});
    cells.push_back({plan::Schedule::kFc1Fc2, otp});
  }
  return cells;
}

// The suites walk the tiny models and the real one.
class OneAnswer : public ::testing::TestWithParam<std::string> {
 protected:
  // Not tiny: outside of the full matrix it is walked where it tells something new.
  bool Large() const { return GetParam().ends_with(".gguf") || GetParam() == kTrained; }
};

// Suites that take long: outside of the full matrix on one model of each kind.
class OneAnswerInDepth : public OneAnswer {};

}  // namespace weft::one_answer
