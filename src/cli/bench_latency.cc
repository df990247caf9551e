#include "cli/bench_latency.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "cli/load.h"
#include "exec/rank_executor.h"

namespace weft::cli {
namespace {

struct LatencyFlags {
  ModelFlags model;
  std::vector<int> prefill = {512};
  std::vector<int> batch = {1};
  int depth = 0;
  int tokens = 64;
  int repeat = 5;
};

int Fail(const Status& status) {
  fmt::print(stderr, "weft bench latency: {}\n", status.message());
  return 1;
}

// Steps straight into the executor: B sequences, each with its own pages.
class Stepper {
 public:
  Stepper(plan::Executor* executor, int sequences, int positions) : executor_(executor) {
    const int page_tokens = executor->limits().page_tokens;
    const int pages = (positions + page_tokens - 1) / page_tokens;
    pages_.resize(sequences);
    for (int b = 0; b < sequences; ++b) {
      for (int p = 0; p < pages; ++p) pages_[b].push_back(1 + b * pages + p);
    }
  }
  // Every sequence advances by `count` tokens from `position`; the last row of each is sampled.
  Result<int64_t> Step(int position, int count) {
    const int page_tokens = executor_->limits().page_tokens;
    ids_.clear(); positions_.clear(); slots_.clear(); segments_.clear(); rows_.clear();
    for (auto& pages : pages_) {
      segments_.push_back({static_cast<int32_t>(ids_.size()), count, position, static_cast<int32_t>(pages.size()), pages.data()});
      for (int i = 0; i < count; ++i) {
        const int at = position + i;
        ids_.push_back((at * 7919 + 13) % executor_->limits().vocab_size);
        positions_.push_back(at);
        slots_.push_back(int64_t{pages[at / page_tokens]} * page_tokens + at % page_tokens);
      }
      rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
    }
    plan::StepInputs in;
    in.ids = ids_; in.positions = positions_; in.slots = slots_; in.segments = segments_; in.head_rows = rows_;
    WEFT_RETURN_IF_ERROR(executor_->Run(in, &out_));
    return out_.step_ns;
  }

 private:
  plan::Executor* executor_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<int32_t> ids_, positions_, rows_;
  std::vector<int64_t> slots_;
  std::vector<Segment> segments_;
  plan::StepOutputs out_;
};

int Latency(LatencyFlags& f) {
  const std::unique_ptr<LogSink> log = MakeLog(true);
  auto model = LoadModel(f.model, log.get());
  if (!model.ok()) return Fail(model.status());
  const int batch_max = *std::max_element(f.batch.begin(), f.batch.end());
  f.model.max_num_seqs = std::max(1, batch_max);
  auto config = ExecConfigOf(f.model);
  if (!config.ok()) return Fail(config.status());
  auto executor = MakeExecutor(*model, *config, log.get());
  if (!executor.ok()) return Fail(executor.status());
  const plan::ExecutorLimits& limits = (*executor)->limits();
  const auto& instance = exec::InstanceOf(**executor);
  fmt::print("{}  {}  weights {:.1f} MB\n", model->name, (*executor)->Describe(), static_cast<double>(instance.weight_bytes()) / 1e6);
  fmt::print("{:<24} {:>10} {:>10} {:>10} {:>12} {:>10}\n", "bucket", "min ms", "median ms", "max ms", "tokens/s", "GB/s");
  const auto report = [&](const std::string& name, std::vector<int64_t> ns, int tokens, bool weights) {
    std::sort(ns.begin(), ns.end());
    const double median = static_cast<double>(ns[ns.size() / 2]);
    fmt::print("{:<24} {:>10.3f} {:>10.3f} {:>10.3f} {:>12.1f} {:>10}\n", name, static_cast<double>(ns.front()) / 1e6, median / 1e6,
               static_cast<double>(ns.back()) / 1e6, tokens * 1e9 / median,
               weights ? fmt::format("{:.1f}", static_cast<double>(instance.weight_bytes()) / median) : "-");
    std::fflush(stdout);
  };
  for (int tokens : f.prefill) {
    if (tokens < 1) continue;
    if (tokens > limits.tokens_max || tokens > limits.positions_max) return Fail(Status::Invalid("--prefill {}: at most {}", tokens, std::min(limits.tokens_max, limits.positions_max)));
    Stepper stepper(executor->get(), 1, tokens);
    std::vector<int64_t> ns;
    for (int r = 0; r < f.repeat; ++r) {
      auto step = stepper.Step(0, tokens);
      if (!step.ok()) return Fail(step.status());
      ns.push_back(*step);
    }
    report(fmt::format("prefill:{}", tokens), ns, tokens, false);
  }
  for (int batch : f.batch) {
    if (batch < 1) continue;
    if (f.depth + f.tokens > limits.positions_max) return Fail(Status::Invalid("--depth {} + --tokens {}: at most {}", f.depth, f.tokens, limits.positions_max));
    Stepper stepper(executor->get(), batch, f.depth + f.tokens);
    for (int at = 0; at < f.depth;) {
      const int chunk = std::min(f.depth - at, std::max(1, limits.tokens_max / batch));
      auto step = stepper.Step(at, chunk);
      if (!step.ok()) return Fail(step.status());
      at += chunk;
    }
    std::vector<int64_t> ns;
    for (int i = 0; i < f.tokens; ++i) {
      auto step = stepper.Step(f.depth + i, 1);
      if (!step.ok()) return Fail(step.status());
      if (i >= 2) ns.push_back(*step);
    }
    report(fmt::format("decode:{} depth {}", batch, f.depth), ns, batch, true);
  }
  return 0;
}

}  // namespace

Command AddBenchLatency(CLI::App& app) {
  auto flags = std::make_shared<LatencyFlags>();
  AddModelFlags(app, &flags->model);
  app.add_option("--prefill", flags->prefill, "prompt lengths")->delimiter(',')->capture_default_str();
  app.add_option("--batch", flags->batch, "sequences of a decode step")->delimiter(',')->capture_default_str();
  app.add_option("--depth", flags->depth, "tokens of context before decoding")->capture_default_str();
  app.add_option("--tokens", flags->tokens, "decode steps")->capture_default_str();
  app.add_option("--repeat", flags->repeat, "prefill repetitions")->capture_default_str();
  return [flags] { return Latency(*flags); };
}

}  // namespace weft::cli
