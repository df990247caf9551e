#include "cli/bench_schedules.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "cli/job.h"
#include "cli/load.h"
#include "cli/progress_line.h"
#include "cli/schedule_bytes.h"
#include "cli/schedule_report.h"
#include "cli/stepper.h"
#include "cli/trace_file.h"
#include "device/affinity.h"
#include "exec/rank_executor.h"
#include "graph/passes/pass.h"
#include "plan/wire_bytes.h"

namespace weft::cli {
namespace {

using plan::Schedule;

struct SchedulesFlags {
  ModelFlags model;
  std::vector<int> prefill = {128, 1024};
  int depth = 128;  // of the decode step; < 0: none
  int repeat = 15;
  std::vector<std::string> schedules;
  std::string traces;
  bool json = false;
};

// One way to run the layers.
struct Candidate {
  std::string name;  // "fc2 otp=1"
  plan::ScheduleConfig config;
};

Result<std::vector<Candidate>> CandidatesOf(const SchedulesFlags& f,
                                            const plan::ScheduleConfig& base, int ranks) {
  std::vector<Candidate> all;
  for (const Schedule schedule : plan::kSchedules) {
    plan::ScheduleConfig config = base;
    config.schedule = schedule;
    const bool fc2 = schedule == Schedule::kFc2 || schedule == Schedule::kFc1Fc2;
    for (int otp = 1; otp < (fc2 ? ranks : 2); ++otp) {
      if (fc2 && ranks % otp != 0) continue;
      config.otp = otp;
      all.push_back({plan::Describe(config), config});
    }
  }
  plan::ScheduleConfig automatic = base;
  automatic.automatic = true;
  all.push_back({plan::Describe(automatic), automatic});
  std::vector<Candidate> chosen;
  for (const std::string& name : f.schedules) {
    const size_t before = chosen.size();
    for (const Candidate& c : all) {
      if (c.name == name || c.name.starts_with(name + " ")) chosen.push_back(c);
    }
    if (chosen.size() > before) continue;
    std::string names;
    for (const Candidate& c : all) names += (names.empty() ? "" : ", ") + c.name;
    return Status::Invalid("--schedules {}: with {} ranks there are {}", name, ranks, names);
  }
  return f.schedules.empty() ? all : chosen;
}

// A schedule's executor and its place in the caches.
class StepRuns {
 public:
  StepRuns(plan::Executor* executor, int positions)
      : executor_(executor), stepper_(executor, 1, positions) {}

  const exec::ModelInstance& instance() const { return exec::InstanceOf(*executor_); }
  // Tokens before `position`, which a decode step reads.
  Status Fill(int position) {
    for (int at = 0; at < position;) {
      const int chunk = std::min(position - at, executor_->limits().tokens_max);
      WEFT_RETURN_IF_ERROR(stepper_.Step(at, chunk).status());
      at += chunk;
    }
    return Status::Ok();
  }
  // Mean time of the timed steps of one block.
  Result<double> Block(const ScheduleTask& task) {
    double ns = 0;
    for (int i = 0; i < task.untimed + task.block; ++i) {
      WEFT_ASSIGN_OR_RETURN(const StepTime time, stepper_.Step(task.position, task.rows));
      if (i >= task.untimed) ns += static_cast<double>(time.ns) / task.block;
    }
    return ns;
  }
  // Bytes that a body alone takes from peers.
  Result<int64_t> Counted(const ScheduleTask& task) {
    const auto bytes = [&] {
      int64_t all = 0;
      for (const auto& kind : executor_->fabric_counts().kinds) all += kind.bytes;
      return all;
    };
    const int64_t before = bytes();
    WEFT_RETURN_IF_ERROR(stepper_.Step(task.position, task.rows, Stepper::Heads::kNone).status());
    return bytes() - before;
  }
  // Where the time goes; also into `file`, if there is one.
  Status Trace(const ScheduleTask& task, ScheduleResult* row, TraceFile* file) {
    const int workers = instance().workers_per_rank(), all = instance().config().ranks * workers;
    size_t events = 0;
    const plan::Plan& body = instance().body_plan(task.rows);
    const plan::Plan& head = instance().head_plan(1, plan::HeadMode::kGreedy, false);
    for (const plan::Plan* p : {&body, &head}) {
      for (const plan::Step& step : p->steps)
        events += static_cast<size_t>(step.phases) + 1;  // a fused step has its product too
    }
    exec::StepTrace trace(all, events * static_cast<size_t>(task.traced));
    exec::SetTrace(*executor_, &trace);
    Status status;
    for (int i = 0; i < task.traced && status.ok(); ++i)
      status = stepper_.Step(task.position, task.rows).status();
    exec::SetTrace(*executor_, nullptr);
    WEFT_RETURN_IF_ERROR(status);
    if (trace.dropped() > 0)
      return Status::Internal("{} events of the trace found no room", trace.dropped());
    const double per = 1e-3 / (task.traced * all);
    for (int w = 0; w < all; ++w) {
      for (const exec::StepEvent& e : trace.EventsOf(w)) {
        const graph::Op op = e.plan->graph.nodes[e.plan->steps[e.step].node].op;
        const bool exchange = IsExchange(op) || (IsFused(op) && e.phase > 0);
        (exchange ? row->exchange_us : row->compute_us) +=
            static_cast<double>(e.end_ns - e.start_ns) * per;
        row->wait_us += static_cast<double>(e.start_ns - e.ready_ns) * per;
      }
    }
    if (file != nullptr) file->Add(trace, workers);
    return Status::Ok();
  }

 private:
  plan::Executor* executor_;
  Stepper stepper_;
};

// The plan's bytes, the fabric's, and the formula's.
Status CompareBytes(const ScheduleTask& task, const plan::Plan& plan,
                    const std::optional<LayerShape>& layer, const Candidate& c, StepRuns& runs,
                    ScheduleResult* row) {
  WEFT_ASSIGN_OR_RETURN(row->counted, runs.Counted(task));
  row->planned = PlannedBytes(plan, task.rows);
  // Methods that move in several phases are planned by rows, at most a byte a row too much; of rows
  // that are dispatched the plan knows the most that can be.
  int64_t slack = 0;
  std::vector<std::string> methods;  // of the middle layer's all-reduces
  for (const plan::Step& step : plan.steps) {
    const graph::Node& node = plan.graph.nodes[step.node];
    if (IsFused(node.op) ? step.phases > 1 : IsExchange(node.op) && MethodOf(step) != "direct")
      slack += task.rows;
    if (plan::IsUpperBound(node)) slack += plan::WireBytes(plan, step, task.rows);
    if (node.op == graph::Op::kAllReduce && layer && node.layer.starts_with(layer->name + "."))
      methods.push_back(step.impl);
  }
  if (row->counted > row->planned || row->counted < row->planned - slack) {
    return Status::Internal("{} at {}: the fabric counted {} bytes, the plan says {}", c.name,
                            task.name, row->counted, row->planned);
  }
  if (!layer) return Status::Ok();
  row->layer_planned = PlannedBytes(plan, layer->name, task.rows);
  const auto schedule = plan::ScheduleNamed(plan.schedule);
  const int ranks = plan.graph.mesh.ranks();
  int otp = 1;  // of auto too, which chooses it
  for (const graph::MeshAxis& axis : plan.graph.mesh.axes) {
    if (axis.name == "otp") otp = axis.size;
  }
  if (!schedule || task.rows % ranks != 0) return Status::Ok();
  const std::string none;
  row->layer_formula =
      FormulaBytes(*layer, *schedule, ranks, otp, methods.empty() ? none : methods.front(),
                   methods.empty() ? none : methods.back(), task.rows);
  return Status::Ok();
}

class SchedulesBench {
 public:
  SchedulesBench(const SchedulesFlags& flags, const LoadedModel& model, exec::ExecConfig config,
                 LogSink* log)
      : f_(flags), model_(model), config_(std::move(config)), log_(log) {}

  Status Measure() {
    WEFT_RETURN_IF_ERROR(ListTasks());
    WEFT_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                          CandidatesOf(f_, config_.schedule, config_.ranks));
    plan::ScheduleConfig plain;
    WEFT_ASSIGN_OR_RETURN(plain_, Make(plain));
    executor_name_ = plain_->Describe();
    plain_runs_ = std::make_unique<StepRuns>(plain_.get(), positions_);
    layer_ = MiddleLayerOf(plain_runs_->instance().body_plan(tasks_.front().rows));
    for (const Candidate& c : candidates) WEFT_RETURN_IF_ERROR(MeasureOne(c));
    progress_.Clear();
    return Status::Ok();
  }

  void Tell() const {
    if (!f_.json) {
      fmt::print("{}  {}\n", model_.name, executor_name_);
      for (size_t t = 0; t < tasks_.size(); ++t) Print(tasks_[t], rows_[t]);
      return;
    }
    Json steps{Json::Array{}};
    for (size_t t = 0; t < tasks_.size(); ++t) steps.Push(ToJson(tasks_[t], rows_[t]));
    Json out;
    out.Set("schema", "weft-schedules-1");
    out.Set("model", model_.name);
    out.Set("executor", executor_name_);
    out.Set("ranks", config_.ranks);
    out.Set("layer", layer_ ? Json(layer_->name) : Json());
    out.Set("steps", std::move(steps));
    fmt::print("{}\n", DumpJson(out, {.indent = 1}));
  }

 private:
  static constexpr int kDecodeBlock = 8, kDecodeUntimed = 3, kDecodeTraced = 16;

  Status ListTasks() {
    for (const int tokens : f_.prefill) {
      if (tokens == 0) continue;
      if (tokens < 1 || tokens > config_.tokens_max)
        return Status::Invalid("--prefill {}: 1 to {} tokens a step (--max-num-batched-tokens)",
                               tokens, config_.tokens_max);
      tasks_.push_back({.name = fmt::format("prefill:{}", tokens), .rows = tokens});
      positions_ = std::max(positions_, tokens);
    }
    if (f_.depth >= 0) {
      tasks_.push_back({fmt::format("decode:1@{}", f_.depth), f_.depth, 1, kDecodeBlock,
                        kDecodeUntimed, kDecodeTraced});
      positions_ = std::max(positions_, f_.depth + 1);
    }
    if (tasks_.empty())
      return Status::Invalid("--prefill 0 and --depth -1 leave nothing to measure");
    const int64_t most = config_.positions_max > 0 ? config_.positions_max
                                                   : model_.checkpoint->config().max_position;
    if (positions_ > most)
      return Status::Invalid(
          "--prefill and --depth reach {} positions, there are {} (--max-model-len)", positions_,
          most);
    rows_.resize(tasks_.size());
    return Status::Ok();
  }

  Result<std::unique_ptr<plan::Executor>> Make(const plan::ScheduleConfig& schedule) {
    exec::ExecConfig config = config_;
    config.schedule = schedule;
    // An executor takes the cores that the caller may use, so it is made before the caller is
    // pinned to one.
    affinity_.reset();
    affinity_.emplace();
    WEFT_ASSIGN_OR_RETURN(auto executor, MakeExecutor(model_, std::move(config), log_));
    WEFT_RETURN_IF_ERROR(executor->PinCaller());
    return executor;
  }

  Status MeasureOne(const Candidate& c) {
    // Plain against itself tells how much of a difference is the machine's.
    std::unique_ptr<plan::Executor> executor;
    if (c.config.schedule != Schedule::kPlain || c.config.automatic) {
      WEFT_ASSIGN_OR_RETURN(executor, Make(c.config));
    }
    StepRuns other(executor == nullptr ? plain_.get() : executor.get(), positions_);
    std::unique_ptr<TraceFile> file;
    if (!f_.traces.empty()) {
      std::string name = c.name;
      for (const char* ill : {" otp=", "+"}) {
        if (const size_t at = name.find(ill); at != name.npos)
          name.replace(at, std::string_view(ill).size(), "_");
      }
      WEFT_ASSIGN_OR_RETURN(file, TraceFile::Create(f_.traces + "/" + name + ".json"));
    }
    for (size_t t = 0; t < tasks_.size(); ++t) {
      const ScheduleTask& task = tasks_[t];
      // It takes minutes and the tables come at the end.
      progress_.Show(fmt::format("{}  {}", task.name, c.name));
      ScheduleResult row;
      row.schedule = c.name;
      const plan::Plan& plan = other.instance().body_plan(task.rows);
      row.taken = plan.schedule;
      row.note = plan.schedule_note;
      for (StepRuns* runs : {plain_runs_.get(), &other}) {
        WEFT_RETURN_IF_ERROR(runs->Fill(task.position));
        WEFT_RETURN_IF_ERROR(runs->Block(task).status());
      }
      WEFT_RETURN_IF_ERROR(CompareBytes(task, plan, layer_, c, other, &row));
      for (int i = 0; i < f_.repeat; ++i) {
        const bool plain_first = i % 2 == 0;
        for (const bool plain : {plain_first, !plain_first}) {
          WEFT_ASSIGN_OR_RETURN(const double ns, (plain ? *plain_runs_ : other).Block(task));
          (plain ? row.plain_ns : row.ns).push_back(ns);
        }
      }
      WEFT_RETURN_IF_ERROR(other.Trace(task, &row, file.get()));
      rows_[t].push_back(std::move(row));
    }
    if (file == nullptr) return Status::Ok();
    Json about;
    about.Set("model", model_.name);
    about.Set("schedule", c.name);
    return file->Close(about);
  }

  const SchedulesFlags& f_;
  const LoadedModel& model_;
  exec::ExecConfig config_;
  LogSink* log_;
  ProgressLine progress_;
  std::vector<ScheduleTask> tasks_;
  int positions_ = 1;
  std::optional<device::ScopedAffinity> affinity_;  // the caller's, while it is pinned
  std::unique_ptr<plan::Executor> plain_;
  std::unique_ptr<StepRuns> plain_runs_;
  std::string executor_name_;
  std::optional<LayerShape> layer_;
  std::vector<std::vector<ScheduleResult>> rows_;  // [tasks][candidates]
};

Status Run(SchedulesFlags& f) {
  if (f.model.reference)
    return Status::Invalid("--reference walks all ranks on one thread: its times tell nothing");
  if (f.model.tensor_parallel_size < 2)
    return Status::Invalid("--tensor-parallel-size {}: schedules need at least 2 ranks",
                           f.model.tensor_parallel_size);
  WEFT_RETURN_IF_ERROR(RefuseJob("weft bench schedules"));
  if (f.model.schedule.schedule)
    return Status::Invalid("--schedule {}: all are measured; --schedules names some of them",
                           *f.model.schedule.schedule);
  if (!f.traces.empty() && !std::filesystem::is_directory(f.traces))
    return Status::Invalid("--traces {}: no such directory", f.traces);
  const std::unique_ptr<LogSink> log = MakeLog(true);
  f.model.max_num_seqs = 1;
  WEFT_ASSIGN_OR_RETURN(exec::ExecConfig config, ExecConfigOf(f.model, log.get()));
  // What nobody names is tried at every size: that is the question here.
  WEFT_ASSIGN_OR_RETURN(const ScheduleChoice choice,
                        ChooseSchedule(f.model.schedule, config.ranks, graph::AllPasses()));
  config.schedule.sp_min_tokens = choice.thresholds.sp.value_or(1);
  config.schedule.fc1_min_tokens = choice.thresholds.fc1.value_or(1);
  config.schedule.fc2_min_tokens = choice.thresholds.fc2.value_or(1);
  config.schedule.gather_min_tokens = choice.thresholds.gather.value_or(1);
  WEFT_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(f.model, log.get()));
  SchedulesBench bench(f, model, std::move(config), log.get());
  WEFT_RETURN_IF_ERROR(bench.Measure());
  bench.Tell();
  return Status::Ok();
}

}  // namespace

Command AddBenchSchedules(CLI::App& app) {
  auto flags = std::make_shared<SchedulesFlags>();
  AddModelFlags(app, &flags->model);
  app.add_option("--prefill,--input-len", flags->prefill, "prompt lengths; 0: none")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--depth", flags->depth, "tokens before the decode step; -1: no decode")
      ->check(CLI::Range(-1, 1 << 24))
      ->capture_default_str();
  app.add_option("--repeat,--num-iters", flags->repeat, "pairs with plain")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--schedules", flags->schedules,
                 "some of plain, sp, fc1, fc2, fc1+fc2, gather, auto; default: all")
      ->delimiter(',');
  app.add_option("--traces", flags->traces,
                 "a directory for a trace of each schedule, as tools/timeline.py reads them");
  app.add_flag("--json", flags->json, "one JSON object instead of the tables");
  return [flags] { return ExitCode("bench schedules", Run(*flags)); };
}

}  // namespace weft::cli
