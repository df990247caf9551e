#include "cli/schedule_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::cli {
namespace {

// "fc2 otp=1" is a form of fc2.
bool RunsAsAsked(const ScheduleResult& row) {
  return row.taken == row.schedule.substr(0, row.schedule.find(' '));
}

Json ToJson(const ScheduleTask& task, const ScheduleResult& row) {
  const auto list = [](const std::vector<double>& ns) {
    Json ms{Json::Array{}};
    for (const double t : ns) ms.Push(t / 1e6);
    return ms;
  };
  Json bytes;
  bytes.Set("layer_planned", row.layer_planned);
  bytes.Set("layer_formula", row.layer_formula ? Json(*row.layer_formula) : Json());
  bytes.Set("planned", row.planned);
  bytes.Set("counted", row.counted);
  Json out;
  out.Set("schedule", row.schedule);
  out.Set("taken", row.taken);
  out.Set("note", row.note);
  out.Set("bytes", std::move(bytes));
  out.Set("exchange_us", row.exchange_us);
  out.Set("wait_us", row.wait_us);
  out.Set("compute_us", row.compute_us);
  out.Set("ms", list(row.ns));
  out.Set("plain_ms", list(row.plain_ns));
  const double median = QuantileOf(row.ns, 0.5);
  out.Set("median_ms", median / 1e6);
  out.Set("tokens_per_s", task.rows * 1e9 / median);
  out.Set("time_over_plain", TimeOverPlain(row, 0.5));
  return out;
}

}  // namespace

double QuantileOf(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

double TimeOverPlain(const ScheduleResult& row, double q) {
  std::vector<double> ratios;
  for (size_t i = 0; i < row.ns.size(); ++i) ratios.push_back(row.ns[i] / row.plain_ns[i]);
  return QuantileOf(std::move(ratios), q);
}

std::string WinnerOf(const std::vector<ScheduleResult>& rows) {
  double least = 1;
  for (const ScheduleResult& row : rows) {
    if (row.schedule == "plain") least = std::min(least, TimeOverPlain(row, 0.25));
  }
  const ScheduleResult* best = nullptr;
  for (const ScheduleResult& row : rows) {
    if (row.taken == "plain" || TimeOverPlain(row, 0.75) >= least) continue;
    if (best == nullptr || TimeOverPlain(row, 0.5) < TimeOverPlain(*best, 0.5)) best = &row;
  }
  return best == nullptr ? "plain" : best->schedule;
}

void Print(const ScheduleTask& task, const std::vector<ScheduleResult>& rows) {
  fmt::print("\n{:<14} {:>11} {:>11} {:>8} {:>11} {:>10} {:>11} {:>10} {:>10}  {}\n", task.name,
             "B/row/layer", "formula", "counted", "exchange us", "wait us", "compute us",
             "median ms", "tokens/s", "time / plain");
  for (const ScheduleResult& row : rows) {
    const double median = QuantileOf(row.ns, 0.5);
    const auto per_row = [&](double bytes) { return fmt::format("{:.1f}", bytes / task.rows); };
    fmt::print(
        "{:<14} {:>11} {:>11} {:>8} {:>11.1f} {:>10.1f} {:>11.1f} {:>10.3f} {:>10.1f}  {:.3f} "
        "({:.3f} to {:.3f}){}{}\n",
        row.schedule, row.layer_planned > 0 ? per_row(static_cast<double>(row.layer_planned)) : "-",
        row.layer_formula ? per_row(*row.layer_formula) : "-",
        row.counted == row.planned ? "=" : fmt::format("-{} B", row.planned - row.counted),
        row.exchange_us, row.wait_us, row.compute_us, median / 1e6, task.rows * 1e9 / median,
        TimeOverPlain(row, 0.5), TimeOverPlain(row, 0.25), TimeOverPlain(row, 0.75),
        RunsAsAsked(row) ? "" : "  runs " + row.taken, row.note.empty() ? "" : ": " + row.note);
  }
  fmt::print("{:<14} {}\n", "winner", WinnerOf(rows));
}

Json ToJson(const ScheduleTask& task, const std::vector<ScheduleResult>& rows) {
  Json list{Json::Array{}};
  for (const ScheduleResult& row : rows) list.Push(ToJson(task, row));
  Json out;
  out.Set("step", task.name);
  out.Set("rows", task.rows);
  out.Set("position", task.position);
  out.Set("schedules", std::move(list));
  out.Set("winner", WinnerOf(rows));
  return out;
}

}  // namespace weft::cli
