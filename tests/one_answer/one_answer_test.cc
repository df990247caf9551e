// Promise P1: the same bits whatever the deployment, the neighbours and the history.
//
// A cell is a model on some ranks under some traffic. It must give the ids and the logits hashes of
// the reference (one virtual rank, contracts only, every request alone, one-shot prefill), and it
// must show that what it varies has happened. WEFT_P1=full walks the whole matrix; else SmolLM2 is
// walked at TP 1, 2, 3 alone. The matrix is printed as lines that begin with "P1 ".
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "graph/passes/pass.h"
#include "one_answer/broken_attention.h"
#include "one_answer/deployment.h"

namespace weft::one_answer {
namespace {

using exec::ExecConfig;

// The bundled model, whose draft head was trained: what it guesses is often right.
const std::string kTrained = WEFT_TESTS_DIR "/../models/tiny-qwen3_5-moe";

bool Full() {
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
const TestModel& ModelAt(const std::string& path) {
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
void ExpectPlannedTraffic(const plan::FabricCounts& before, const plan::FabricCounts& after,
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
void ExpectWorkOfOwners(const exec::ModelInstance& instance, int ranks) {
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

class OneAnswer : public ::testing::TestWithParam<std::string> {
 protected:
  void Walk(int ranks) {
    const TestModel& model = ModelAt(GetParam());
    ASSERT_EQ(model.greedy.size(), model.prompts.size());
    const auto executor = support::MakeExecutor(*model.checkpoint, model.Config(ranks));
    ASSERT_NE(executor, nullptr);
    Line line(model, "tp=" + std::to_string(ranks));
    WalkTraffic(model, *executor, ranks, line);
  }
  // Not tiny: outside of the full matrix it is walked where it tells something new.
  bool Large() const { return GetParam().ends_with(".gguf") || GetParam() == kTrained; }
};

// Suites that take long: outside of the full matrix on one model of each kind.
class OneAnswerInDepth : public OneAnswer {};

TEST_P(OneAnswer, OverRanksNeighboursChunksAndHistory) {
  for (int ranks : {1, 2, 3, 4, 6, 8}) {
    if (ranks > 3 && Large() && !Full()) continue;
    Walk(ranks);
  }
}

// ---- Communication schedules
// ------------------------------------------------------------------------

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

// Every schedule on this many ranks, FlashComm2 over every divisor.
std::vector<ScheduleCell> SchedulesOn(int ranks) {
  std::vector<ScheduleCell> cells{
      {plan::Schedule::kSp}, {plan::Schedule::kFc1}, {plan::Schedule::kGather}};
  for (int otp = 1; otp < ranks; ++otp) {
    if (ranks % otp != 0) continue;
    cells.push_back({plan::Schedule::kFc2, otp});
    cells.push_back({plan::Schedule::kFc1Fc2, otp});
  }
  return cells;
}

// The collectives that a schedule is known for are in its plans, and those that it replaces are
// not.
void ExpectCollectivesOf(plan::Schedule schedule, const plan::Plan& plan) {
  std::map<graph::Op, int> count;
  const bool gather = schedule == plan::Schedule::kGather;
  for (const graph::Node& node : plan.graph.nodes) {
    // Experts are whole on a rank: what they make of a token is summed in every schedule.
    if (gather && node.op == graph::Op::kAllReduce &&
        plan::MakerOfRoots(plan.graph, node.in[0]).op == graph::Op::kCombine)
      continue;
    ++count[node.op];
  }
  const bool rows = schedule == plan::Schedule::kSp || schedule == plan::Schedule::kFc1 ||
                    schedule == plan::Schedule::kFc1Fc2;
  const bool fc2 = schedule == plan::Schedule::kFc2 || schedule == plan::Schedule::kFc1Fc2;
  EXPECT_EQ(count[graph::Op::kAllReduce] > 0, !rows && !gather);
  EXPECT_EQ(count[graph::Op::kReduceScatter] > 0, rows || fc2);
  EXPECT_EQ(count[graph::Op::kAllToAll] > 0, fc2);
  EXPECT_EQ(count[graph::Op::kAllGather] > 0, rows || gather || fc2);
}

TEST_P(OneAnswerInDepth, OverSchedules) {
  const TestModel& model = ModelAt(GetParam());
  std::vector<int> sizes{2, 3, 4, 6};
  if (Large() && !Full()) sizes = {2, 3};
  if (Full()) sizes.push_back(8);
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks));
    for (const ScheduleCell& cell : SchedulesOn(ranks)) {
      ExecConfig config = model.Config(ranks);
      config.schedule = cell.Config();
      const auto executor = support::MakeExecutor(*model.checkpoint, config);
      ASSERT_NE(executor, nullptr);
      ExpectCollectivesOf(cell.schedule, exec::InstanceOf(*executor).body_plan(1));
      ExpectCollectivesOf(cell.schedule, exec::InstanceOf(*executor).body_plan(128));
      Causes causes;
      const plan::FabricCounts before = executor->fabric_counts();
      const Answers answers =
          Ask(*executor, model.prompts, {.together = true, .budget = ranks == 3 ? 16 : 0}, &causes);
      line.Cell(cell.Name(), Difference(answers, model.greedy));
      ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
      EXPECT_GE(causes.segments_max, ranks == 3 ? 2 : 8);
      ExpectWorkOfOwners(exec::InstanceOf(*executor), ranks);
    }
    ExecConfig config = model.Config(ranks);
    config.schedule.automatic = true;
    for (plan::ExchangeCost& cost : config.costs.exchanges)
      cost.phase_ns = 0;  // bytes decide, at any size
    const auto executor = support::MakeExecutor(*model.checkpoint, config);
    ASSERT_NE(executor, nullptr);
    line.Cell("auto",
              Difference(Ask(*executor, model.prompts, {.together = true}, nullptr), model.greedy));
    std::set<std::string> taken;
    for (const exec::BoundPlan& body : exec::InstanceOf(*executor).bodies())
      taken.insert(body.plan.schedule);
    EXPECT_NE(taken, std::set<std::string>{"plain"});
  }
}

// ---- Experts
// ----------------------------------------------------------------------------------------

bool HasExperts(const TestModel& model) { return model.checkpoint->config().experts > 0; }

// Rows that go from their owners to the ranks of their experts, under both schedules that cut rows;
// with the shared expert of some models too, where it is asked for by name.
TEST_P(OneAnswer, OverExchangedExperts) {
  const TestModel& model = ModelAt(GetParam());
  if (!HasExperts(model)) GTEST_SKIP() << "no experts";
  std::vector<int> sizes{2, 3};
  if (Full()) sizes = {2, 3, 4, 6, 8};
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks) + " exchange_experts");
    for (const plan::Schedule schedule : {plan::Schedule::kSp, plan::Schedule::kFc1}) {
      ExecConfig config = model.Config(ranks);
      config.schedule = ScheduleCell{schedule}.Config();
      config.compile.switches["exchange_experts"] = graph::Switch::kOff;
      const auto gathers = exec::ExplainPlan(*model.checkpoint, config, exec::PlanKind::kBody, 8);
      config.compile.switches["exchange_experts"] = graph::Switch::kOn;
      if (ranks == 3) config.threads = 2 * ranks;
      const auto executor = support::MakeExecutor(*model.checkpoint, config);
      ASSERT_NE(executor, nullptr);
      EXPECT_NE(exec::InstanceOf(*executor).body_plan(8).fingerprint, gathers->fingerprint);
      const auto check = [&](const std::string& column, const Traffic& traffic) {
        Causes causes;
        const plan::FabricCounts before = executor->fabric_counts();
        line.Cell(std::string(plan::NameOf(schedule)) + column,
                  Difference(Ask(*executor, model.prompts, traffic, &causes), model.greedy));
        ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
        EXPECT_GT(causes.planned_calls["dispatch_rows"], 0);
      };
      check("", {.together = true});
      check("/alone", {});  // steps of one row: all other ranks own none
      check("/chunk16", {.together = true, .budget = 16});
      int64_t dispatched = 0;
      for (const auto& kind : executor->fabric_counts().kinds)
        dispatched += kind.name == "dispatch_rows" ? kind.bytes : 0;
      EXPECT_GT(dispatched, 0);
      ExpectWorkOfOwners(exec::InstanceOf(*executor), ranks);
    }
  }
}

// A shared expert that is whole on every rank, under every schedule; where rows are cut it crosses
// nowhere.
TEST_P(OneAnswer, OverAWholeSharedExpert) {
  const TestModel& model = ModelAt(GetParam());
  if (model.checkpoint->config().shared_expert_intermediate_size == 0)
    GTEST_SKIP() << "no shared expert";
  std::vector<int> sizes{2, 3};
  if (Full()) sizes = {2, 3, 4, 6, 8};
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks) + " whole shared expert");
    for (const plan::Schedule schedule :
         {plan::Schedule::kPlain, plan::Schedule::kSp, plan::Schedule::kFc1,
          plan::Schedule::kFc1Fc2, plan::Schedule::kGather}) {
      ExecConfig config = model.Config(ranks);
      config.schedule = ScheduleCell{schedule}.Config();
      config.whole_shared_expert = true;
      if (ranks == 2) config.compile.switches["exchange_experts"] = graph::Switch::kOn;
      if (ranks == 3) config.threads = 2 * ranks;
      const auto executor = support::MakeExecutor(*model.checkpoint, config);
      ASSERT_NE(executor, nullptr);
      int steps = 0, cross = 0;
      for (const graph::Node& node : exec::InstanceOf(*executor).body_plan(8).graph.nodes) {
        if (!node.layer.ends_with(".shared")) continue;
        ++steps;
        cross += graph::IsExchange(node.op);
      }
      EXPECT_GT(steps, 0);
      EXPECT_EQ(cross, 0);
      Causes causes;
      const plan::FabricCounts before = executor->fabric_counts();
      line.Cell(
          std::string(plan::NameOf(schedule)),
          Difference(Ask(*executor, model.prompts, {.together = true}, &causes), model.greedy));
      ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
      line.Cell("alone", Difference(Ask(*executor, model.prompts, {}, &causes), model.greedy));
    }
  }
}

// ---- Speculation
// --------------------------------------------------------------------------------------

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
    const auto check = [&](const char* column, Traffic traffic, int32_t k) {
      traffic.speculation = {
          .method = head ? engine::SpeculationMethod::kMtp : engine::SpeculationMethod::kNgram,
          .tokens = k,
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
  }
}

// Steps that exchange while they compute, against answers of steps of their own; two workers a rank
// too.
TEST_P(OneAnswer, OverFusedExchanges) {
  const TestModel& model = ModelAt(GetParam());
  std::vector<int> sizes{2, 3};
  if (Full()) sizes = {2, 3, 4, 6, 8};
  for (int ranks : sizes) {
    Line line(model, "tp=" + std::to_string(ranks) + " fused");
    for (const int workers : {1, 2}) {
      for (const plan::Schedule schedule : {plan::Schedule::kPlain, plan::Schedule::kSp}) {
        ExecConfig config = model.Config(ranks);
        config.threads = ranks * workers;
        config.schedule.schedule = schedule;
        config.schedule.sp_min_tokens = 64;
        for (const char* pass : {"fuse_matmul_all_reduce_norm", "fuse_matmul_reduce_scatter"}) {
          config.compile.switches[pass] = graph::Switch::kOn;
        }
        const auto executor = support::MakeExecutor(*model.checkpoint, config);
        ASSERT_NE(executor, nullptr);
        const auto count = [&](int32_t rows, graph::Op op) {
          const graph::Graph& g = exec::InstanceOf(*executor).body_plan(rows).graph;
          return std::count_if(g.nodes.begin(), g.nodes.end(),
                               [&](const graph::Node& n) { return n.op == op; });
        };
        EXPECT_GT(count(1, graph::Op::kMatmulAllReduceNorm), 0);
        EXPECT_EQ(count(128, graph::Op::kMatmulReduceScatter) > 0, schedule == plan::Schedule::kSp);
        Causes causes;
        const plan::FabricCounts before = executor->fabric_counts();
        const Answers alone = Ask(*executor, model.prompts, {}, &causes);
        ExpectPlannedTraffic(before, executor->fabric_counts(), causes, ranks);
        const std::string name =
            std::string(plan::NameOf(schedule)) + "/" + std::to_string(workers);
        line.Cell(name, Difference(alone, model.greedy));
        line.Cell(
            name + "/together",
            Difference(Ask(*executor, model.prompts, {.together = true}, &causes), model.greedy));
        ExpectWorkOfOwners(exec::InstanceOf(*executor), ranks);
      }
    }
  }
}

// Prefills of the lengths at which upstream's thresholds turn, with those thresholds: a schedule is
// taken from its row count on and not below it.
TEST_P(OneAnswerInDepth, OverSchedulesAtTheirThresholds) {
  if (Large() && !Full()) GTEST_SKIP() << "a thousand tokens on the real model; WEFT_P1=full";
  const TestModel& model = ModelAt(GetParam());
  std::vector<Prompt> prompts;
  Rng rng(7);
  for (const int length : {1, 2, 7, 64, 999, 1000, 1001, 1024}) {
    Prompt p{.name = "len" + std::to_string(length), .max_tokens = 2};
    for (int i = 0; i < length; ++i)
      p.ids.push_back(static_cast<int32_t>(rng.Below(model.checkpoint->config().vocab_size)));
    prompts.push_back(std::move(p));
  }
  const auto with = [&](int ranks, const plan::ScheduleConfig& schedule) {
    ExecConfig config = model.Config(ranks);
    config.tokens_max = config.positions_max = 1040;
    if (model.checkpoint->config().max_position < config.positions_max) config.positions_max = 0;
    config.schedule = schedule;
    return support::MakeExecutor(*model.checkpoint, config);
  };
  if (model.checkpoint->config().max_position < 1030) GTEST_SKIP() << "its positions end before";
  const auto one = with(1, {});
  ASSERT_NE(one, nullptr);
  const Answers expected = Ask(*one, prompts, {}, nullptr);
  Line line(model, "tp=2 prefill 1..1024");
  for (const plan::Schedule schedule :
       {plan::Schedule::kSp, plan::Schedule::kFc1, plan::Schedule::kFc1Fc2}) {
    plan::ScheduleConfig config;
    config.schedule = schedule;
    const auto executor = with(2, config);
    ASSERT_NE(executor, nullptr);
    const exec::ModelInstance& instance = exec::InstanceOf(*executor);
    const auto scatters = [&](int32_t rows) {
      int count = 0;
      for (const graph::Node& n : instance.body_plan(rows).graph.nodes) {
        if (n.op == graph::Op::kReduceScatter &&
            (n.layer.ends_with("mlp") || n.layer.ends_with("moe")))
          ++count;
      }
      return count;
    };
    EXPECT_EQ(scatters(999), 0);
    EXPECT_EQ(scatters(1000) > 0, schedule == plan::Schedule::kSp);
    EXPECT_GT(scatters(1001), 0);
    EXPECT_GT(scatters(1024), 0);
    line.Cell(std::string(plan::NameOf(schedule)),
              Difference(Ask(*executor, prompts, {}, nullptr), expected));
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

// ---- Negative controls: a broken rule is noticed by the cell that it breaks
// ------------------------

class Control : public ::testing::Test {
 protected:
  static const TestModel& Subject() {
    return ModelAt(WEFT_TESTS_DIR "/models/data/llama_untied_9h3_f32");
  }
  static Answers With(const exec::ExecFaults& faults, int ranks, const Traffic& traffic) {
    ExecConfig config = Subject().Config(ranks);
    config.faults = faults;
    if (faults.attention != nullptr) config.model_dtype = DType::kBF16;
    const auto executor = support::MakeExecutor(*Subject().checkpoint, config);
    return executor == nullptr ? Answers{} : Ask(*executor, Subject().prompts, traffic, nullptr);
  }
  // Both cells under the fault: it is the comparison that must notice, not the change.
  static void ExpectNoticed(const exec::ExecFaults& faults, int ranks, const Traffic& traffic) {
    const Answers one = With(faults, 1, {});
    const Answers other = With(faults, ranks, traffic);
    ASSERT_EQ(one.size(), other.size());
    EXPECT_NE(Difference(other, one), "") << "the broken rule was not noticed";
  }
};

TEST_F(Control, NoFaultIsNoDifference) {
  EXPECT_EQ(Difference(With({}, 2, {.together = true}), With({}, 1, {})), "");
}
TEST_F(Control, LeavesInRankOrder) {
  for (int ranks : {2, 3, 4}) ExpectNoticed({.leaves_in_rank_order = true}, ranks, {});
}
TEST_F(Control, PartialsRoundedToBf16) {
  for (int ranks : {2, 3, 4}) ExpectNoticed({.bf16_partials = true}, ranks, {});
}
TEST_F(Control, OrderOfKByRows) { ExpectNoticed({.order_by_rows = true}, 1, {.budget = 16}); }
TEST_F(Control, TilesThatBeginAtTheChunk) {
  const exec::ExecFaults faults{.attention = &kBrokenAttention};
  EXPECT_EQ(Difference(With(faults, 2, {}), With(faults, 1, {})), "")
      << "it is broken by chunks alone";
  ExpectNoticed(faults, 1, {.budget = 16});
}
TEST_F(Control, StaleRecurrentState) {
  const TestModel& model = ModelAt(WEFT_TESTS_DIR "/models/data/qwen35_tied_r3_4h1_bf16");
  const auto executor = support::MakeExecutor(*model.checkpoint, model.Config(1));
  ASSERT_NE(executor, nullptr);
  const Traffic warm{.warm = true, .prefix_caching = true};
  EXPECT_EQ(Difference(Ask(*executor, model.prompts, warm, nullptr), model.greedy), "");
  const Answers answers = Ask(*executor, model.prompts, warm, nullptr, {.stale_state = true});
  EXPECT_NE(Difference(answers, model.greedy), "") << "the stale state was not noticed";
}
TEST_F(Control, AnAcceptedCountOffByOne) {
  const TestModel& model = ModelAt(WEFT_TESTS_DIR "/models/data/qwen35_tied_r3_4h1_bf16");
  ExecConfig config = model.Config(1);
  config.draft_tokens = 4;
  config.draft_head = true;
  const auto executor = support::MakeExecutor(*model.checkpoint, config);
  ASSERT_NE(executor, nullptr);
  const Traffic traffic{.speculation = {.method = engine::SpeculationMethod::kMtp, .tokens = 4}};
  engine::EngineFaults faults =
      MostlyRight(model.greedy, static_cast<int32_t>(model.checkpoint->config().vocab_size));
  EXPECT_EQ(Difference(Ask(*executor, model.prompts, traffic, nullptr, faults), model.greedy), "");
  faults.accepted_off_by_one = true;
  EXPECT_NE(Difference(Ask(*executor, model.prompts, traffic, nullptr, faults), model.greedy), "")
      << "a draft too many was not noticed";
}
TEST_F(Control, ARowOfTheWrongOwner) {
  const TestModel& model = ModelAt(WEFT_TESTS_DIR "/models/data/qwen3_moe_6h2_bf16");
  for (const bool fault : {false, true}) {
    ExecConfig config = model.Config(2);
    config.schedule = ScheduleCell{plan::Schedule::kSp}.Config();
    config.compile.switches["exchange_experts"] = graph::Switch::kOn;
    config.faults.rows_of_another_owner = fault;
    const auto executor = support::MakeExecutor(*model.checkpoint, config);
    ASSERT_NE(executor, nullptr);
    EXPECT_EQ(Difference(Ask(*executor, model.prompts, {}, nullptr), model.greedy) != "", fault);
  }
}
TEST_F(Control, StalePage) {
  const TestModel& model = Subject();
  const auto executor = support::MakeExecutor(*model.checkpoint, model.Config(1));
  ASSERT_NE(executor, nullptr);
  const Answers answers =
      Ask(*executor, model.prompts, {.budget = 16}, nullptr, {.stale_page = true});
  EXPECT_NE(Difference(answers, model.greedy), "") << "the stale page was not noticed";
}

}  // namespace
}  // namespace weft::one_answer
