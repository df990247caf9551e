#include "cli/bench_latency.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "cli/job.h"
#include "cli/load.h"
#include "cli/machine_limits.h"
#include "cli/step_report.h"
#include "cli/stepper.h"
#include "cli/trace_file.h"
#include "device/affinity.h"
#include "exec/rank_executor.h"
#include "models/model.h"

namespace weft::cli {
namespace {

struct LatencyFlags {
  ModelFlags model;
  std::vector<int> prefill = {512}, prompts = {1};
  std::vector<int> batch = {1};
  std::vector<int> depth = {0};
  std::vector<int> drafts;
  int tokens = 64;
  int repeat = 5;
  std::string trace;
  bool by_op = false;
  bool json = false;
};

int Fail(const Status& status) { return ExitCode("bench latency", status); }

// One line of the table: a bucket at a depth.
struct Row {
  std::string name;
  StepShape shape;
  Work work;
  int plan_waits = 0;
  std::vector<StepTime> times;  // as they came
  TraceReport trace;

  // In ns; q = 0.5 is the median.
  double quantile(double q) const {
    std::vector<int64_t> ns;
    for (const StepTime& t : times) ns.push_back(t.ns);
    std::sort(ns.begin(), ns.end());
    return static_cast<double>(
        ns[static_cast<size_t>(q * static_cast<double>(ns.size() - 1) + 0.5)]);
  }
  double median_ns() const { return quantile(0.5); }
  double host_ns() const {
    std::vector<int64_t> host;
    for (const StepTime& t : times) host.push_back(t.host_ns);
    std::nth_element(host.begin(), host.begin() + static_cast<int64_t>(host.size() / 2),
                     host.end());
    return static_cast<double>(host[host.size() / 2]);
  }
  double tokens_per_s() const { return shape.sequences * shape.rows * 1e9 / median_ns(); }
};

constexpr int kTracedSteps = 8;

// Untimed steps first, then the timed ones, then a few with the trace on, which costs clock
// readings.
class Latency {
 public:
  // `file`: where the traced steps go, or nullptr.
  Latency(const LatencyFlags& flags, plan::Executor* executor, TraceFile* file)
      : f_(flags),
        executor_(executor),
        file_(file),
        instance_(exec::InstanceOf(*executor)),
        workers_(instance_.config().ranks * instance_.workers_per_rank()),
        trace_(workers_, size_t{1} << 16) {}

  int workers() const { return workers_; }

  // One step over `prompts` prompts of `tokens` each.
  Result<Row> Prefill(int prompts, int tokens) {
    const plan::ExecutorLimits& limits = executor_->limits();
    if (tokens < 1) return Status::Invalid("--prefill {}: at least 1", tokens);
    if (prompts < 1) return Status::Invalid("--prompts {}: at least 1", prompts);
    if (int64_t{prompts} * tokens > limits.tokens_max) {
      return Status::Invalid("--prefill {}{}: at most {} tokens a step (--max-num-batched-tokens)",
                             tokens, prompts == 1 ? "" : fmt::format(" --prompts {}", prompts),
                             limits.tokens_max);
    }
    if (tokens > limits.positions_max)
      return Status::Invalid("--prefill {}: at most {} positions (--max-model-len)", tokens,
                             limits.positions_max);
    Stepper stepper(executor_, prompts, tokens);
    const auto step = [&](int) { return stepper.Step(0, tokens); };
    const StepShape shape{prompts, tokens, 0};
    const std::string name = prompts == 1 ? fmt::format("prefill:{}", tokens)
                                          : fmt::format("prefill:{}x{}", prompts, tokens);
    return Measure(name, shape, WorkOfStep(shape), 1, f_.repeat, 1, step);
  }

  Result<Row> Decode(int batch, int depth) {
    const int positions_max = executor_->limits().positions_max;
    const int steps = kWarmSteps + f_.tokens + kTracedSteps;
    if (batch < 1) return Status::Invalid("--batch {}: at least 1", batch);
    WEFT_RETURN_IF_ERROR(CheckRows(batch, 1));
    if (depth < 0) return Status::Invalid("--depth {}: at least 0", depth);
    if (depth + steps > positions_max) {
      return Status::Invalid("--depth {} + {} steps: at most {} positions (--max-model-len)", depth,
                             steps, positions_max);
    }
    Stepper stepper(executor_, batch, depth + steps);
    WEFT_RETURN_IF_ERROR(Fill(stepper, batch, depth));
    const auto step = [&](int i) { return stepper.Step(depth + i, 1); };
    const StepShape shape{batch, 1, depth + kWarmSteps + f_.tokens / 2};
    return Measure(fmt::format("decode:{}", batch), shape, WorkOfStep(shape), kWarmSteps, f_.tokens,
                   kTracedSteps, step);
  }

  // Steps that verify `drafts` guesses of each sequence, all of them accepted, and the drafting
  // behind them.
  Result<std::vector<Row>> Speculate(int batch, int depth, int drafts) {
    const plan::ExecutorLimits& limits = executor_->limits();
    const int rows = 1 + drafts, steps = kWarmSteps + f_.tokens + kTracedSteps;
    WEFT_RETURN_IF_ERROR(CheckRows(batch, rows));
    if (depth + (steps + 1) * rows + drafts > limits.positions_max) {
      return Status::Invalid(
          "--depth {} + {} steps of {} rows: at most {} positions (--max-model-len)", depth, steps,
          rows, limits.positions_max);
    }
    Stepper stepper(executor_, batch, depth + (steps + 1) * rows + drafts);
    WEFT_RETURN_IF_ERROR(Fill(stepper, batch, depth));
    const StepShape shape{batch, rows, depth + (kWarmSteps + f_.tokens / 2) * rows, rows};
    std::vector<Row> out;
    const auto verify = [&](int i) {
      return stepper.Step(depth + i * rows, rows, Stepper::Heads::kAll, drafts);
    };
    WEFT_ASSIGN_OR_RETURN(out.emplace_back(),
                          Measure(fmt::format("verify:{}x{}", batch, rows), shape,
                                  WorkOfStep(shape), kWarmSteps, f_.tokens, kTracedSteps, verify));
    if (!limits.draft_head) return out;
    // Each behind a step of its own, whose rows it reads; only the drafting is timed.
    const auto draft = [&](int i) -> Result<StepTime> {
      exec::SetTrace(*executor_, nullptr);
      WEFT_RETURN_IF_ERROR(
          stepper.Step(depth + i * rows, rows, Stepper::Heads::kAll, drafts).status());
      if (tracing_) exec::SetTrace(*executor_, &trace_);
      return stepper.Draft(depth + i * rows, rows, drafts);
    };
    StepShape drafted = shape;
    drafted.heads = 1;
    WEFT_ASSIGN_OR_RETURN(out.emplace_back(), Measure(fmt::format("draft:{}x{}", batch, drafts),
                                                      drafted, WorkOfDrafts(drafted, drafts),
                                                      kWarmSteps, f_.tokens, kTracedSteps, draft));
    return out;
  }

 private:
  static constexpr int kWarmSteps = 4;

  Status CheckRows(int batch, int rows) const {
    const int64_t all = int64_t{batch} * rows;
    if (all <= executor_->limits().tokens_max) return Status::Ok();
    return Status::Invalid(
        "--batch {} of {} row{} each: at most {} tokens a step (--max-num-batched-tokens)", batch,
        rows, rows == 1 ? "" : "s", executor_->limits().tokens_max);
  }

  // Tokens before `depth`.
  Status Fill(Stepper& stepper, int batch, int depth) const {
    for (int at = 0; at < depth;) {
      const int chunk = std::min(depth - at, std::max(1, executor_->limits().tokens_max / batch));
      WEFT_RETURN_IF_ERROR(stepper.Step(at, chunk).status());
      at += chunk;
    }
    return Status::Ok();
  }

  Work WorkOfStep(const StepShape& shape) const {
    const auto rows = int64_t{shape.sequences} * shape.rows;
    Work work = WorkOf(instance_.body_plan(static_cast<int32_t>(rows)), shape, rows);
    const auto heads = static_cast<int32_t>(shape.head_rows());
    work += WorkOf(instance_.head_plan(heads, plan::HeadMode::kGreedy, false), shape, heads);
    return work;
  }
  Work WorkOfDrafts(const StepShape& shape, int drafts) const {
    Work work;
    for (int d = 0; d < drafts; ++d) {
      StepShape one = shape;
      if (d > 0) one.rows = 1;
      const auto rows = int64_t{one.sequences} * one.rows;
      work += WorkOf(instance_.draft_plan(d == 0, static_cast<int32_t>(rows)), one, rows);
      work += WorkOf(instance_.draft_head_plan(one.sequences, plan::HeadMode::kGreedy), one,
                     one.sequences);
    }
    return work;
  }

  template <typename Step>
  Result<Row> Measure(std::string name, StepShape shape, const Work& work, int warm, int timed,
                      int traced, const Step& step) {
    Row row{std::move(name), shape, work, 0, {}, {}};
    int i = 0;
    for (; i < warm; ++i) WEFT_RETURN_IF_ERROR(step(i).status());
    for (; i < warm + timed; ++i) {
      WEFT_ASSIGN_OR_RETURN(const StepTime time, step(i));
      row.times.push_back(time);
    }
    exec::SetTrace(*executor_, &trace_);
    tracing_ = true;
    trace_.Clear();
    for (; i < warm + timed + traced; ++i) {
      const auto time = step(i);
      if (!time.ok()) {
        exec::SetTrace(*executor_, nullptr);
        return time.status();
      }
    }
    tracing_ = false;
    exec::SetTrace(*executor_, nullptr);
    if (trace_.dropped() > 0)
      return Status::Internal("{} events of the trace found no room", trace_.dropped());
    row.trace = ReportOf(trace_, traced, shape);
    if (file_ != nullptr) file_->Add(trace_, instance_.workers_per_rank());
    return row;
  }

  const LatencyFlags& f_;
  plan::Executor* executor_;
  TraceFile* file_;
  const exec::ModelInstance& instance_;
  int workers_;
  exec::StepTrace trace_;
  bool tracing_ = false;
};

// "91 % memory": the least time for the work over the median.
std::string Fraction(const Work& work, double ns, const MachineLimits& limits, int threads) {
  const Bound bound = BoundOf(work, limits, threads);
  return bound.ns == 0 ? "-" : fmt::format("{:.0f} % {}", bound.ns / ns * 100, bound.by);
}

void PrintHead() {
  fmt::print("{:<14} {:>6} {:>9} {:>9} {:>9} {:>10} {:>7} {:>8} {:>12} {:>6} {:>8} {:>8}\n",
             "bucket", "depth", "min ms", "median ms", "p99 ms", "tokens/s", "GB/s", "GFLOP/s",
             "of limit", "waits", "wait us", "host us");
}

void PrintRow(const Row& row, const MachineLimits& limits, int threads) {
  const double ns = row.median_ns();
  const auto at = [&](double q) { return row.quantile(q) / 1e6; };
  fmt::print(
      "{:<14} {:>6} {:>9.3f} {:>9.3f} {:>9.3f} {:>10.1f} {:>7.1f} {:>8.1f} {:>12} {:>6} {:>8.1f} "
      "{:>8.1f}\n",
      row.name, row.shape.position, at(0), ns / 1e6, at(0.99), row.tokens_per_s(),
      row.work.bytes / ns, row.work.operations() / ns, Fraction(row.work, ns, limits, threads),
      row.trace.waits, row.trace.wait_ns / 1e3, row.host_ns() / 1e3);
  std::fflush(stdout);
}

void PrintOps(const Row& row, const MachineLimits& limits, int threads) {
  const double all = row.trace.busy_ns + row.trace.wait_ns;
  fmt::print("  {:<24} {:<16} {:>6} {:>10} {:>6} {:>7} {:>8} {:>12} {:>6} {:>9}\n", "op",
             "implementation", "count", "us", "%", "GB/s", "GFLOP/s", "of limit", "waits",
             "wait us");
  for (const OpTime& op : row.trace.ops) {
    const bool counted = op.work.bytes + op.work.operations() > 0;
    fmt::print("  {:<24} {:<16} {:>6} {:>10.1f} {:>6.1f} {:>7} {:>8} {:>12} {:>6} {:>9.1f}\n",
               op.op, op.impl, op.count, op.ns / 1e3, (op.ns + op.wait_ns) / all * 100,
               counted ? fmt::format("{:.1f}", op.work.bytes / op.ns) : "-",
               counted ? fmt::format("{:.1f}", op.work.operations() / op.ns) : "-",
               counted ? Fraction(op.work, op.ns, limits, threads) : "-", op.waits,
               op.wait_ns / 1e3);
  }
}

Json ToJson(const Row& row, const MachineLimits& limits, int threads) {
  const double ns = row.median_ns();
  const Bound bound = BoundOf(row.work, limits, threads);
  Json out;
  out.Set("bucket", row.name);
  out.Set("sequences", row.shape.sequences);
  out.Set("rows", row.shape.rows);
  out.Set("position", row.shape.position);
  Json times{Json::Array{}};
  for (const StepTime& t : row.times) times.Push(static_cast<double>(t.ns) / 1e6);
  out.Set("ms", std::move(times));
  out.Set("median_ms", ns / 1e6);
  out.Set("tokens_per_s", row.tokens_per_s());
  out.Set("gb_per_s", row.work.bytes / ns);
  out.Set("gflop_per_s", row.work.operations() / ns);
  out.Set("work", ToJson(row.work));
  out.Set("limit_by", bound.by);
  out.Set("of_limit", bound.ns / ns);
  out.Set("host_us", row.host_ns() / 1e3);
  out.Set("trace", ToJson(row.trace));
  return out;
}

Result<MachineLimits> LimitsFor(const LatencyFlags& f, int threads) {
  if (!f.model.profile.empty()) return ReadProfile(f.model.profile);
  MachineOptions options;
  options.threads = {threads};
  options.seconds = 0.15;
  options.caches = false;
  options.exchange = false;
  return MeasureMachine(options);
}

int SequencesMaxOf(const LatencyFlags& f) {
  int most = 1;
  for (const std::vector<int>& sequences : {f.batch, f.prompts}) {
    for (const int n : sequences) most = std::max(most, n);
  }
  return most;
}

int Measure(LatencyFlags& f, comm::Link* link, LogSink* log) {
  std::unique_ptr<TraceFile> trace_file;
  if (!f.trace.empty()) {
    auto created = TraceFile::Create(f.trace);
    if (!created.ok()) return Fail(created.status());
    trace_file = std::move(created).value();
  }
  auto model = LoadModel(f.model, log);
  if (!model.ok()) return Fail(model.status());
  f.model.max_num_seqs = SequencesMaxOf(f);
  auto config = ExecConfigOf(f.model, log);
  if (!config.ok()) return Fail(config.status());
  for (const int k : f.drafts) config->draft_tokens = std::max(config->draft_tokens, k);
  config->draft_head = !f.drafts.empty() && models::HasDraftHead(*model->checkpoint);
  FitToModel(f.model, model->checkpoint->config(), &*config);
  config->link = link;
  auto executor = MakeExecutor(*model, *config, log);
  if (!executor.ok()) return Fail(executor.status());
  Latency latency(f, executor->get(), trace_file.get());
  const int threads = latency.workers();
  auto limits = LimitsFor(f, threads);
  if (!limits.ok()) return Fail(limits.status());
  const auto& instance = exec::InstanceOf(**executor);

  Json rows{Json::Array{}};
  if (!f.json) {
    fmt::print("{}  {}  weights {:.1f} MB\n", model->name, (*executor)->Describe(),
               static_cast<double>(instance.weight_bytes()) / 1e6);
    PrintHead();
  }
  const auto show = [&](const Result<Row>& row) -> Status {
    WEFT_RETURN_IF_ERROR(row.status());
    if (f.json) {
      rows.Push(ToJson(*row, *limits, threads));
      return Status::Ok();
    }
    PrintRow(*row, *limits, threads);
    if (f.by_op) PrintOps(*row, *limits, threads);
    return Status::Ok();
  };
  {
    const device::ScopedAffinity affinity;
    if (const Status pinned = (*executor)->PinCaller(); !pinned.ok()) return Fail(pinned);
    for (int tokens : f.prefill) {
      if (tokens == 0) continue;
      for (int prompts : f.prompts) {
        if (const Status status = show(latency.Prefill(prompts, tokens)); !status.ok())
          return Fail(status);
      }
    }
    for (int batch : f.batch) {
      for (int depth : f.depth) {
        if (batch == 0) continue;
        if (const Status status = show(latency.Decode(batch, depth)); !status.ok())
          return Fail(status);
        for (int drafts : f.drafts) {
          auto speculated = latency.Speculate(batch, depth, drafts);
          if (!speculated.ok()) return Fail(speculated.status());
          for (const Row& row : *speculated) {
            if (const Status status = show(row); !status.ok()) return Fail(status);
          }
        }
      }
    }
  }
  if (const Status ended = exec::EndFollowers(**executor); !ended.ok()) return Fail(ended);
  if (trace_file != nullptr) {
    Json about;
    about.Set("model", model->name);
    about.Set("executor", (*executor)->Describe());
    if (const Status status = trace_file->Close(about); !status.ok()) return Fail(status);
  }
  // The machine may have changed meanwhile: say what it could do at the end as well.
  auto after = LimitsFor(f, threads);
  if (!after.ok()) return Fail(after.status());
  if (f.json) {
    Json out;
    out.Set("schema", "weft-latency-1");
    out.Set("model", model->name);
    out.Set("executor", (*executor)->Describe());
    out.Set("threads", threads);
    out.Set("weight_bytes", instance.weight_bytes());
    out.Set("kv_bytes", instance.kv_bytes());
    out.Set("rows", std::move(rows));
    out.Set("limits", ToJson(*limits));
    out.Set("limits_after", ToJson(*after));
    fmt::print("{}\n", DumpJson(out, {.indent = 1}));
    return 0;
  }
  fmt::print("limits, before and after:");
  for (const Limit& l : limits->limits) {
    const Limit* then = after->Find(l.name, threads);
    if (l.threads == threads && then != nullptr)
      fmt::print("  {} {:.1f} {:.1f} {}", l.name, l.value, then->value, l.unit);
  }
  fmt::print("\n");
  return 0;
}

int Run(LatencyFlags& f) {
  if (f.model.reference)
    return Fail(
        Status::Invalid("--reference walks all ranks on one thread: its times tell nothing"));
  if (!f.drafts.empty()) {
    if (const Status status = RefuseJob("weft bench latency --drafts"); !status.ok())
      return Fail(status);
  }
  const std::unique_ptr<LogSink> log = MakeLog(true);
  auto job = Job::Join(&f.model, log.get());
  if (!job.ok()) return Fail(job.status());
  if (job->follows()) {
    f.model.max_num_seqs = SequencesMaxOf(f);
    const Status followed = job->Leave(job->Follow(f.model, log.get()));
    return Fail(followed);
  }
  const int code = Measure(f, job->link(), log.get());
  const Status left = job->Leave(code == 0 ? Status() : Status::Internal("the measurement failed"));
  return left.ok() ? code : 1;
}

}  // namespace

Command AddBenchLatency(CLI::App& app) {
  auto flags = std::make_shared<LatencyFlags>();
  AddModelFlags(app, &flags->model);
  app.add_option("--prefill,--input-len", flags->prefill, "prompt lengths; 0: none")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--prompts", flags->prompts, "prompts that share a prefill step")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--batch,--batch-size", flags->batch, "sequences of a decode step; 0: none")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--depth", flags->depth, "tokens of context before decoding")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--drafts", flags->drafts,
                 "also steps that verify so many guesses of each sequence, and the draft head's, "
                 "where the model has one")
      ->delimiter(',')
      ->check(CLI::Range(1, engine::kDraftTokensMax));
  app.add_option("--tokens,--output-len", flags->tokens, "decode steps")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--repeat,--num-iters", flags->repeat, "prefill repetitions")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.get_option("--profile")
      ->description(
          "this machine's figures, as `weft bench machine --output` wrote them: limits [measured "
          "now] and what exchanges cost [those of profiles/xeon-spr-2.json]");
  app.add_option(
      "--trace", flags->trace,
      fmt::format("each bucket's last steps, the last {} of a decode, for ui.perfetto.dev",
                  kTracedSteps));
  app.add_flag("--by-op", flags->by_op, "where the time of a step goes");
  app.add_flag("--json", flags->json, "one JSON object instead of the table");
  return [flags] { return Run(*flags); };
}

}  // namespace weft::cli
