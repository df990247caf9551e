#include "cli/bench_waterfall.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/job.h"
#include "cli/load.h"
#include "cli/plan_switches.h"
#include "cli/progress_line.h"
#include "cli/schedule_report.h"
#include "cli/waterfall_report.h"
#include "device/affinity.h"
#include "engine/engine.h"
#include "exec/rank_executor.h"
#include "graph/passes/pass.h"

namespace weft::cli {
namespace {

constexpr const char* kSpeculation = "speculation";

struct WaterfallFlags {
  ModelFlags model;
  std::vector<int> concurrency = {1, 4, 8};
  int input_len = 64, output_len = 64, rounds = 5;
  std::string dataset, output, svg;
  std::vector<std::string> switches;
  bool json = false;
};

// Which of the switches are on.
using Setting = std::set<std::string>;

struct Switch {
  std::string name;
  bool on = true;  // by default
  int64_t rewrites = 0;
  bool of_graph = false;  // a pass
};

// Requests of one setting on an executor of its own.
class SettingRuns {
 public:
  static Result<std::unique_ptr<SettingRuns>> Create(const WaterfallFlags& f,
                                                     const LoadedModel& model,
                                                     exec::ExecConfig config,
                                                     std::span<const Switch> known,
                                                     const Setting& on, LogSink* log) {
    for (const Switch& s : known) {
      if (s.of_graph)
        config.compile.switches[s.name] =
            on.contains(s.name) ? graph::Switch::kOn : graph::Switch::kOff;
    }
    for (const PlanSwitch& s : PlanSwitches()) s.set(config, on.contains(std::string(s.name)));
    auto self = std::unique_ptr<SettingRuns>(new SettingRuns);
    WEFT_ASSIGN_OR_RETURN(engine::EngineConfig engine_config, EngineConfigOf(f.model, {}));
    if (!on.contains(kSpeculation)) {
      engine_config.speculation = {};
      config.draft_tokens = 0;
      config.draft_head = false;
    }
    engine_config.enable_prefix_caching = false;
    WEFT_ASSIGN_OR_RETURN(self->executor_, MakeExecutor(model, std::move(config), log));
    WEFT_RETURN_IF_ERROR(self->executor_->PinCaller());
    WEFT_ASSIGN_OR_RETURN(self->engine_,
                          engine::Engine::Create(std::move(engine_config), self->executor_.get(),
                                                 &self->clock_, log));
    return self;
  }

  const exec::ModelInstance& instance() const { return exec::InstanceOf(*executor_); }

  // All prompts at once, to their ends.
  Result<RequestTimes> Run(const std::vector<std::vector<int32_t>>& prompts, int output_len) {
    const engine::MetricsSnapshot before = engine_->Metrics();
    std::vector<std::vector<int64_t>> at(prompts.size());
    Status failed;
    size_t running = prompts.size();
    const int64_t start = SteadyNowNs();
    for (size_t i = 0; i < prompts.size(); ++i) {
      auto request = std::make_unique<engine::Request>();
      request->id = fmt::format("{}-{}", runs_, i);
      request->prompt = prompts[i];
      request->sampling = {.temperature = 0, .max_tokens = output_len, .ignore_eos = true};
      request->sink = [&, i](const engine::TokenEvent& event) {
        if (event.id >= 0) at[i].push_back(SteadyNowNs());
        if (event.finish == engine::FinishReason::kNone) return;
        --running;
        if (!event.error.ok()) failed = event.error;
      };
      WEFT_RETURN_IF_ERROR(engine_->Submit(std::move(request)));
    }
    while (running > 0) engine_->Step();
    ++runs_;
    WEFT_RETURN_IF_ERROR(failed);
    RequestTimes out;
    std::vector<double> gaps;
    for (const std::vector<int64_t>& times : at) {
      const auto ms = [&](int64_t from, int64_t to) {
        return static_cast<double>(to - from) / 1e6 / static_cast<double>(prompts.size());
      };
      out.ttft_ms += ms(start, times.front());
      out.e2e_ms += ms(start, times.back());
      out.tpot_ms += ms(times.front(), times.back()) / static_cast<double>(times.size() - 1);
      for (size_t j = 1; j < times.size(); ++j)
        gaps.push_back(static_cast<double>(times[j] - times[j - 1]) / 1e6);
    }
    out.tpot_p99_ms = QuantileOf(std::move(gaps), 0.99);
    const engine::MetricsSnapshot after = engine_->Metrics();
    out.tokens_per_step = static_cast<double>(after.generation_tokens - before.generation_tokens) /
                          static_cast<double>((after.steps - before.steps) * prompts.size());
    return out;
  }

 private:
  SettingRuns() = default;
  const SteadyClock clock_;
  std::unique_ptr<plan::Executor> executor_;
  std::unique_ptr<engine::Engine>
      engine_;  // kept, as a server's is: what it has learnt of drafts stays
  int runs_ = 0;
};

class WaterfallBench {
 public:
  WaterfallBench(const WaterfallFlags& flags, const LoadedModel& model, exec::ExecConfig config,
                 LogSink* log)
      : f_(flags), model_(model), config_(std::move(config)), log_(log) {}

  Status Measure() {
    WEFT_RETURN_IF_ERROR(MakePrompts());
    WEFT_RETURN_IF_ERROR(ListSwitches());
    Setting all;
    for (const Switch& s : known_) {
      if (s.on) all.insert(s.name);
    }
    for (const int n : f_.concurrency) waterfalls_.push_back({.concurrency = n});
    WEFT_ASSIGN_OR_RETURN(const auto full, Make(all));
    WEFT_ASSIGN_OR_RETURN(const auto bare, Make({}));
    WEFT_RETURN_IF_ERROR(Pair("all", *bare, *full, [](Waterfall& w) { return &w.all; }));
    for (const Switch& s : switches_) {
      for (Waterfall& w : waterfalls_)
        w.rows.push_back({.name = s.name, .on = s.on, .rewrites = s.rewrites});
      Setting toggled = all;
      if (s.on)
        toggled.erase(s.name);
      else
        toggled.insert(s.name);
      {
        WEFT_ASSIGN_OR_RETURN(const auto other, Make(toggled));
        SettingRuns &without = s.on ? *other : *full, &with = s.on ? *full : *other;
        WEFT_RETURN_IF_ERROR(Pair(s.name + " among all", without, with,
                                  [](Waterfall& w) { return &w.rows.back().full; }));
      }
      WEFT_ASSIGN_OR_RETURN(const auto alone, Make({s.name}));
      WEFT_RETURN_IF_ERROR(
          Pair(s.name + " alone", *bare, *alone, [](Waterfall& w) { return &w.rows.back().bare; }));
    }
    progress_.Clear();
    return Status::Ok();
  }

  Status Tell() const {
    Json list{Json::Array{}};
    for (const Waterfall& w : waterfalls_) list.Push(ToJson(w));
    Json out;
    out.Set("schema", "weft-waterfall-1");
    out.Set("model", model_.name);
    out.Set("executor", about_);
    out.Set("input_len", f_.input_len);
    out.Set("output_len", f_.output_len);
    out.Set("rounds", f_.rounds);
    out.Set("waterfalls", std::move(list));
    const std::string json = DumpJson(out, {.indent = 1}) + "\n";
    WEFT_RETURN_IF_ERROR(Write(f_.output, json, "--output"));
    WEFT_RETURN_IF_ERROR(Write(f_.svg,
                               Svg(waterfalls_, fmt::format("{}  {}  {} in, {} out", model_.name,
                                                            about_, f_.input_len, f_.output_len)),
                               "--svg"));
    if (f_.json) {
      fmt::print("{}", json);
      return Status::Ok();
    }
    fmt::print("{}  {}  {} tokens in, {} out, {} pairs\n", model_.name, about_, f_.input_len,
               f_.output_len, f_.rounds);
    for (const Waterfall& w : waterfalls_) fmt::print("\n{}", TableText(w));
    return Status::Ok();
  }

 private:
  static Status Write(const std::string& path, const std::string& text, const char* flag) {
    if (path.empty()) return Status::Ok();
    std::ofstream file(path);
    file << text;
    file.close();
    return file ? Status::Ok() : Status::Invalid("{} {}: cannot be written", flag, path);
  }

  Result<std::unique_ptr<SettingRuns>> Make(const Setting& on) {
    // An executor takes the cores that the caller may use, so it is made before the caller is
    // pinned to one.
    affinity_.reset();
    affinity_.emplace();
    return SettingRuns::Create(f_, model_, config_, known_, on, log_);
  }

  // Different texts for each request; out of --dataset-path, or ids at random.
  Status MakePrompts() {
    const int most = *std::max_element(f_.concurrency.begin(), f_.concurrency.end());
    std::vector<int32_t> ids;
    if (!f_.dataset.empty()) {
      if (model_.tokenizer == nullptr)
        return Status::Invalid("--dataset-path {}: {} has no tokenizer", f_.dataset, model_.name);
      std::ifstream file(f_.dataset, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
      if (!file || text.empty())
        return Status::Invalid("--dataset-path {}: cannot be read, or is empty", f_.dataset);
      WEFT_ASSIGN_OR_RETURN(ids, model_.tokenizer->Encode(text));
      if (static_cast<int64_t>(ids.size()) < int64_t{most} * f_.input_len) {
        return Status::Invalid(
            "--dataset-path {}: {} tokens; --concurrency {} of --input-len {} need {}", f_.dataset,
            ids.size(), most, f_.input_len, int64_t{most} * f_.input_len);
      }
    } else {
      Rng rng(1);
      const auto vocab = static_cast<uint64_t>(model_.checkpoint->config().vocab_size);
      while (static_cast<int64_t>(ids.size()) < int64_t{most} * f_.input_len)
        ids.push_back(static_cast<int32_t>(rng.Below(vocab)));
    }
    // Spread over the text.
    const size_t stride = ids.size() / static_cast<size_t>(most);
    for (int i = 0; i < most; ++i) {
      const auto begin = ids.begin() + static_cast<int64_t>(stride) * i;
      prompts_.emplace_back(begin, begin + f_.input_len);
    }
    return Status::Ok();
  }

  // Those that change something here: passes that rewrite a plan, by themselves or when told to.
  Status ListSwitches() {
    const auto count =
        [&](const exec::ExecConfig& config) -> Result<std::map<std::string, int64_t>> {
      WEFT_ASSIGN_OR_RETURN(const auto instance,
                            exec::ModelInstance::Plan(*model_.checkpoint, config));
      std::map<std::string, int64_t> rewrites;
      for (const plan::Plan* p :
           {&instance->body_plan(1), &instance->head_plan(1, plan::HeadMode::kGreedy, false)}) {
        for (const graph::PassReport& report : p->passes) rewrites[report.name] += report.rewrites;
      }
      return rewrites;
    };
    WEFT_ASSIGN_OR_RETURN(auto by_default, count(config_));
    for (const graph::Pass& pass : graph::AllPasses()) {
      const std::string name(pass.name);
      if (by_default[name] > 0) {
        known_.push_back({name, true, by_default[name], true});
        continue;
      }
      exec::ExecConfig config = config_;
      config.compile.switches[name] = graph::Switch::kOn;
      const auto told = count(config);
      // The passes of a schedule are compared by `weft bench schedules`.
      if (!told.ok() || !name.starts_with("fuse_")) continue;
      if (const int64_t n = told->find(name)->second; n > 0)
        known_.push_back({name, false, n, true});
    }
    for (const PlanSwitch& s : PlanSwitches()) {
      if (config_.ranks > 1 || !s.between_ranks)
        known_.push_back({std::string(s.name), s.by_default});
    }
    if (config_.draft_tokens > 0) known_.push_back({kSpeculation});
    for (const std::string& name : f_.switches) {
      const auto at = std::find_if(known_.begin(), known_.end(),
                                   [&](const Switch& s) { return s.name == name; });
      if (at == known_.end()) {
        std::string names;
        for (const Switch& s : known_) names += (names.empty() ? "" : ", ") + s.name;
        return Status::Invalid("--switches {}: for this model and deployment there are {}", name,
                               names);
      }
      switches_.push_back(*at);
    }
    if (f_.switches.empty()) switches_ = known_;
    return Status::Ok();
  }

  template <typename Where>
  Status Pair(const std::string& what, SettingRuns& without, SettingRuns& with,
              const Where& where) {
    const int ranks = with.instance().config().ranks, threads = with.instance().workers_per_rank();
    about_ = fmt::format("{} rank{} x {} thread{}", ranks, ranks == 1 ? "" : "s", threads,
                         threads == 1 ? "" : "s");
    for (Waterfall& w : waterfalls_) {
      const std::vector<std::vector<int32_t>> prompts(prompts_.begin(),
                                                      prompts_.begin() + w.concurrency);
      SwitchPair& pair = *where(w);
      for (int round = -1; round < f_.rounds; ++round) {  // the first is not counted
        progress_.Show(fmt::format("{}, {} at once", what, w.concurrency),
                       fmt::format(", {} of {}", std::max(round, 0) + 1, f_.rounds));
        for (const bool first : {true, false}) {
          const bool on = first == (round % 2 == 0);
          WEFT_ASSIGN_OR_RETURN(const RequestTimes times,
                                (on ? with : without).Run(prompts, f_.output_len));
          if (round >= 0) (on ? pair.with : pair.without).push_back(times);
        }
      }
    }
    return Status::Ok();
  }

  const WaterfallFlags& f_;
  const LoadedModel& model_;
  exec::ExecConfig config_;
  LogSink* log_;
  ProgressLine progress_;
  std::optional<device::ScopedAffinity> affinity_;  // the caller's, while it is pinned
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<Switch> known_;     // that change something here
  std::vector<Switch> switches_;  // those of them that are measured
  std::vector<Waterfall> waterfalls_;
  std::string about_;
};

Status Run(WaterfallFlags& f) {
  if (f.model.reference)
    return Status::Invalid("--reference walks all ranks on one thread: its times tell nothing");
  if (f.model.enforce_eager)
    return Status::Invalid("--enforce-eager turns off what is to be measured");
  WEFT_RETURN_IF_ERROR(RefuseJob("weft bench waterfall"));
  if (f.concurrency.empty())
    return Status::Invalid("--concurrency: at least one number of requests");
  for (const int n : f.concurrency) {
    if (n < 1 || n > f.model.max_num_seqs)
      return Status::Invalid("--concurrency {}: 1 to {} (--max-num-seqs)", n, f.model.max_num_seqs);
  }
  const std::unique_ptr<LogSink> log = MakeLog(true);
  f.model.max_num_seqs = *std::max_element(f.concurrency.begin(), f.concurrency.end());
  WEFT_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(f.model, log.get()));
  if (f.model.max_model_len == "auto")
    f.model.max_model_len = fmt::format("{}", f.input_len + f.output_len);
  WEFT_ASSIGN_OR_RETURN(exec::ExecConfig config, ExecConfigOf(f.model, log.get()));
  FitToModel(f.model, model.checkpoint->config(), &config);
  config.state_checkpoints = 0;
  WaterfallBench bench(f, model, std::move(config), log.get());
  WEFT_RETURN_IF_ERROR(bench.Measure());
  return bench.Tell();
}

}  // namespace

Command AddBenchWaterfall(CLI::App& app) {
  auto flags = std::make_shared<WaterfallFlags>();
  AddModelFlags(app, &flags->model);
  AddSpeculationFlags(app, &flags->model.speculation);
  app.add_option("--concurrency,--max-concurrency", flags->concurrency, "requests at once")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--input-len", flags->input_len, "tokens of a prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--output-len", flags->output_len, "tokens of an answer")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--rounds", flags->rounds, "pairs of runs for each comparison")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option(
         "--dataset-path", flags->dataset,
         "a text that prompts are cut from; default: ids at random, of which no draft is likely")
      ->type_name("FILE");
  app.add_option("--switches", flags->switches, "some of them; default: all that change something")
      ->delimiter(',');
  app.add_option("--output", flags->output, "also write all figures as JSON")->type_name("FILE");
  app.add_option("--svg", flags->svg, "also draw them")->type_name("FILE");
  app.add_flag("--json", flags->json, "one JSON object instead of the tables");
  return [flags] { return ExitCode("bench waterfall", Run(*flags)); };
}

}  // namespace weft::cli
