// weft explain: the plan of a bucket, as it would run here.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/load.h"
#include "exec/rank_executor.h"
#include "graph/ops_page.h"
#include "graph/passes/pass.h"

namespace weft::cli {
namespace {

struct ExplainFlags {
  ModelFlags model;
  std::string bucket = "decode:1";
  bool graph = false, ops = false;
};

int Fail(const Status& status) {
  fmt::print(stderr, "weft explain: {}\n", status.message());
  return 1;
}

int Explain(const ExplainFlags& f) {
  if (f.ops) {
    fmt::print("{}", graph::OpsPage());
    return 0;
  }
  const std::unique_ptr<LogSink> log = MakeLog(true);
  const size_t colon = f.bucket.find(':');
  const std::string kind = f.bucket.substr(0, colon);
  if (colon == std::string::npos || (kind != "decode" && kind != "prefill" && kind != "mixed" && kind != "head")) {
    return Fail(Status::Invalid("--bucket '{}': decode:ROWS, prefill:TOKENS, mixed:TOKENS or head:ROWS", f.bucket));
  }
  auto rows = ParseSize(f.bucket.substr(colon + 1), "--bucket " + kind + ":");
  if (!rows.ok()) return Fail(rows.status());
  auto model = LoadModel(f.model, log.get());
  if (!model.ok()) return Fail(model.status());
  auto config = ExecConfigOf(f.model, log.get());
  if (!config.ok()) return Fail(config.status());
  FitToModel(f.model, model->checkpoint->config(), &*config);
  const int64_t most = kind == "head" ? config->rows_max : config->tokens_max;
  if (*rows < 1 || *rows > most) {
    return Fail(Status::Invalid("--bucket {}: 1 to {} ({} moves it)", f.bucket, most, kind == "head" ? "--max-num-seqs" : "--max-num-batched-tokens"));
  }
  auto plan = exec::ExplainPlan(*model->checkpoint, *config, kind == "head", static_cast<int32_t>(*rows));
  if (!plan.ok()) return Fail(plan.status());
  if (f.graph) fmt::print("{}", graph::Print(plan->graph));
  fmt::print("{}fingerprint {:016x}\n", plan::Print(*plan), plan->fingerprint);
  return 0;
}

}  // namespace

Command AddExplain(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  AddModelFlags(app, &flags->model);
  app.add_option("--bucket", flags->bucket, "decode:4, prefill:512, mixed:100 or head:8")->type_name("KIND:ROWS")->capture_default_str();
  app.add_flag("--graph", flags->graph, "print the graph too");
  app.add_flag("--ops", flags->ops, "print the table of ops (docs/ops.md) and nothing else");
  return [flags] { return Explain(*flags); };
}

}  // namespace weft::cli
