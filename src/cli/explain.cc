// weft explain: the plan of a bucket, as it would run here; the table of ops; the schedules.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/coverage.h"
#include "cli/load.h"
#include "cli/schedule_table.h"
#include "exec/rank_executor.h"
#include "graph/ops_page.h"
#include "graph/passes/pass.h"
#include "models/model.h"

namespace weft::cli {
namespace {

struct ExplainFlags {
  ModelFlags model;
  std::string bucket = "decode:1";
  bool graph = false, ops = false, schedules = false, coverage = false;
};

constexpr std::string_view kName = "explain";

constexpr std::pair<std::string_view, exec::PlanKind> kKinds[] = {
    {"decode", exec::PlanKind::kBody},         {"prefill", exec::PlanKind::kBody},
    {"mixed", exec::PlanKind::kBody},          {"head", exec::PlanKind::kHead},
    {"draft", exec::PlanKind::kDraft},         {"next_draft", exec::PlanKind::kNextDraft},
    {"draft_head", exec::PlanKind::kDraftHead}};

// The table, and what each bucket gets if there is a model.
Status ExplainSchedules(const ExplainFlags& f, LogSink* log) {
  fmt::print("{}", ScheduleTableText());
  if (f.model.model.empty()) return Status::Ok();
  WEFT_ASSIGN_OR_RETURN(exec::ExecConfig config, ExecConfigOf(f.model, log));
  WEFT_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(f.model, log));
  FitToModel(f.model, model.checkpoint->config(), &config);
  WEFT_RETURN_IF_ERROR(CheckSchedule(config.schedule, config.ranks));
  fmt::print("\n{}", BucketSchedulesText(config.schedule, config.ranks, config.tokens_max));
  return Status::Ok();
}

int Explain(const ExplainFlags& f) {
  if (f.ops) {
    fmt::print("{}", graph::OpsPage());
    return 0;
  }
  const std::unique_ptr<LogSink> log = MakeLog(true);
  if (f.schedules) {
    const Status status = ExplainSchedules(f, log.get());
    return ExitCode(kName, status);
  }
  const size_t colon = f.bucket.find(':');
  const std::string name = f.bucket.substr(0, colon);
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const auto& k) { return k.first == name; });
  if (colon == std::string::npos || kind == std::end(kKinds)) {
    return ExitCode(
        kName,
        Status::Invalid("--bucket '{}': decode:ROWS, prefill:TOKENS, mixed:TOKENS, head:ROWS, "
                        "draft:TOKENS, next_draft:ROWS or draft_head:ROWS",
                        f.bucket));
  }
  auto rows = ParseSize(f.bucket.substr(colon + 1), "--bucket " + name + ":");
  if (!rows.ok()) return ExitCode(kName, rows.status());
  auto model = LoadModel(f.model, log.get());
  if (!model.ok()) return ExitCode(kName, model.status());
  auto config = ExecConfigOf(f.model, log.get());
  if (!config.ok()) return ExitCode(kName, config.status());
  FitToModel(f.model, model->checkpoint->config(), &*config);
  const bool of_drafts = name.find("draft") != std::string::npos ||
                         (f.coverage && models::HasDraftHead(*model->checkpoint));
  if (of_drafts) {
    config->draft_head = true;
    config->draft_tokens = std::max(config->draft_tokens, 1);
  }
  if (f.coverage) {
    auto instance = exec::ModelInstance::Plan(*model->checkpoint, *config);
    if (!instance.ok()) return ExitCode(kName, instance.status());
    fmt::print("{}", CoverageOf(**instance).Text());
    return 0;
  }
  const bool by_tokens =
      kind->second == exec::PlanKind::kBody || kind->second == exec::PlanKind::kDraft;
  const int64_t most =
      by_tokens ? config->tokens_max : std::min(config->seqs_max, config->tokens_max);
  if (*rows < 1 || *rows > most) {
    return ExitCode(kName,
                    Status::Invalid("--bucket {}: 1 to {} ({} moves it)", f.bucket, most,
                                    by_tokens ? "--max-num-batched-tokens" : "--max-num-seqs"));
  }
  auto plan =
      exec::ExplainPlan(*model->checkpoint, *config, kind->second, static_cast<int32_t>(*rows));
  if (!plan.ok()) return ExitCode(kName, plan.status());
  if (f.graph) fmt::print("{}", graph::Print(plan->graph));
  fmt::print("{}fingerprint {:016x}\n", plan::Print(*plan), plan->fingerprint);
  return 0;
}

}  // namespace

Command AddExplain(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  AddModelFlags(app, &flags->model);
  app.add_option("--bucket", flags->bucket,
                 "decode:4, prefill:512, mixed:100 or head:8; draft:8, next_draft:2 or "
                 "draft_head:2 of a model with a draft head")
      ->type_name("KIND:ROWS")
      ->capture_default_str();
  app.add_flag(
      "--coverage", flags->coverage,
      "which kernels all plans together name, and where one for any CPU stands in and why");
  app.add_flag("--graph", flags->graph, "print the graph too");
  app.add_flag("--ops", flags->ops, "print the table of ops (docs/ops.md) and nothing else");
  app.add_flag("--schedules", flags->schedules,
               "print which communication schedules there are and what they work for; with --model "
               "also what each bucket gets");
  return [flags] { return Explain(*flags); };
}

}  // namespace weft::cli
