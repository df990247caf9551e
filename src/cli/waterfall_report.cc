#include "cli/waterfall_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/schedule_report.h"

namespace weft::cli {
namespace {

template <typename Get>
double MedianOf(const std::vector<RequestTimes>& runs, Get get) {
  std::vector<double> values;
  for (const RequestTimes& run : runs) values.push_back(get(run));
  return QuantileOf(std::move(values), 0.5);
}

double Tpot(const std::vector<RequestTimes>& runs) {
  return MedianOf(runs, [](const RequestTimes& t) { return t.tpot_ms; });
}

std::string Percent(double ratio) { return fmt::format("{:+.1f} %", (ratio - 1) * 100); }

std::string Quartiles(const SwitchPair& pair) {
  return fmt::format("({:+.1f} to {:+.1f})", (pair.Ratio(0.25) - 1) * 100,
                     (pair.Ratio(0.75) - 1) * 100);
}

std::string PairText(const SwitchPair& pair) {
  return fmt::format("{:>8.3f} {:>8.3f} {:>8} {:<17} {:<4}", Tpot(pair.without), Tpot(pair.with),
                     Percent(pair.Ratio(0.5)), Quartiles(pair), VerdictOf(pair));
}

Json ToJson(const std::vector<RequestTimes>& runs) {
  Json list{Json::Array{}};
  for (const RequestTimes& t : runs) {
    Json one;
    one.Set("tpot_ms", t.tpot_ms);
    one.Set("tpot_p99_ms", t.tpot_p99_ms);
    one.Set("ttft_ms", t.ttft_ms);
    one.Set("e2e_ms", t.e2e_ms);
    one.Set("tokens_per_step", t.tokens_per_step);
    list.Push(std::move(one));
  }
  return list;
}

Json ToJson(const SwitchPair& pair) {
  Json out;
  out.Set("without", ToJson(pair.without));
  out.Set("with", ToJson(pair.with));
  out.Set("ratio", pair.Ratio(0.5));
  out.Set("ratio_q25", pair.Ratio(0.25));
  out.Set("ratio_q75", pair.Ratio(0.75));
  return out;
}

}  // namespace

double SwitchPair::Ratio(double q) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < with.size(); ++i) ratios.push_back(with[i].tpot_ms / without[i].tpot_ms);
  return QuantileOf(std::move(ratios), q);
}

std::string VerdictOf(const SwitchPair& pair) {
  return pair.Ratio(0.75) < 1 ? "gain" : pair.Ratio(0.25) > 1 ? "loss" : "-";
}

std::string TableText(const Waterfall& w) {
  std::string out = fmt::format("{} request{} at once, ms per token behind the first\n",
                                w.concurrency, w.concurrency == 1 ? "" : "s");
  out += fmt::format("{:<44} {:<49}  {}\n", "", "   among all others", "   alone");
  const std::string columns =
      fmt::format("{:>8} {:>8} {:>8} {:<22}", "without", "with", "change", "quartiles");
  out += fmt::format("{:<35} {:>8} {}  {}\n", "switch", "rewrites", columns, columns);
  for (const WaterfallRow& row : w.rows) {
    out += fmt::format("{:<35} {:>8} {}  {}\n", row.name + (row.on ? "" : " (off)"),
                       row.rewrites == 0 ? "-" : fmt::format("{}", row.rewrites),
                       PairText(row.full), PairText(row.bare));
  }
  const auto line = [](const char* name, const std::vector<RequestTimes>& runs) {
    return fmt::format(
        "{:<35} TPOT {:.3f} ms, p99 {:.3f}; TTFT {:.2f} ms; end to end {:.1f} ms; {:.2f} tokens a "
        "step\n",
        name, Tpot(runs), MedianOf(runs, [](const RequestTimes& t) { return t.tpot_p99_ms; }),
        MedianOf(runs, [](const RequestTimes& t) { return t.ttft_ms; }),
        MedianOf(runs, [](const RequestTimes& t) { return t.e2e_ms; }),
        MedianOf(runs, [](const RequestTimes& t) { return t.tokens_per_step; }));
  };
  out += line("all off", w.all.without) + line("all that are on by default", w.all.with);
  return out +
         fmt::format("{:<35} {} {}\n", "together", Percent(w.all.Ratio(0.5)), Quartiles(w.all));
}

Json ToJson(const Waterfall& w) {
  Json rows{Json::Array{}};
  for (const WaterfallRow& row : w.rows) {
    Json one;
    one.Set("switch", row.name);
    one.Set("on", row.on);
    one.Set("rewrites", row.rewrites);
    one.Set("among_all", ToJson(row.full));
    one.Set("alone", ToJson(row.bare));
    rows.Push(std::move(one));
  }
  Json out;
  out.Set("concurrency", w.concurrency);
  out.Set("all", ToJson(w.all));
  out.Set("switches", std::move(rows));
  return out;
}

std::string Svg(const std::vector<Waterfall>& waterfalls, const std::string& title) {
  constexpr int kRow = 20, kLabel = 230, kChart = 420, kRight = 150, kTop = 44, kGap = 34;
  size_t bars = 0;
  for (const Waterfall& w : waterfalls) bars += w.rows.size() + 2;
  const int height =
      kTop + static_cast<int>(bars) * kRow + static_cast<int>(waterfalls.size()) * kGap;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"8\" y=\"22\" "
      "font-size=\"14\" fill=\"#222222\">{}</text>\n",
      kLabel + kChart + kRight, height, title);
  int y = kTop;
  for (const Waterfall& w : waterfalls) {
    const double bare = Tpot(w.all.without), full = Tpot(w.all.with);
    double most = std::max(bare, full);
    for (const WaterfallRow& row : w.rows)
      most = std::max({most, Tpot(row.full.with), Tpot(row.full.without)});
    const auto x_of = [&](double ms) { return kLabel + ms / most * kChart; };
    const auto bar = [&](const std::string& label, double from, double to, const char* colour,
                         const std::string& text) {
      const double left = x_of(std::min(from, to)), right = x_of(std::max(from, to));
      out += fmt::format(
          "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#222222\">{}</text>\n<rect "
          "x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n"
          "<text x=\"{:.1f}\" y=\"{}\" fill=\"#222222\">{}</text>\n",
          kLabel - 8, y + 14, label, left, y + 3, std::max(right - left, 1.5), kRow - 6, colour,
          right + 6, y + 14, text);
      y += kRow;
    };
    out += fmt::format(
        "<text x=\"8\" y=\"{}\" fill=\"#555555\">{} request{} at once, ms per token</text>\n",
        y + 8, w.concurrency, w.concurrency == 1 ? "" : "s");
    y += 16;
    bar("all off", 0, bare, "#9aa5b1", fmt::format("{:.3f}", bare));
    for (const WaterfallRow& row : w.rows) {
      const std::string verdict = VerdictOf(row.full);
      const char* colour = verdict == "gain"   ? "#2f855a"
                           : verdict == "loss" ? "#c05621"
                                               : "#cbd5e0";
      bar(row.name + (row.on ? "" : " (off)"), Tpot(row.full.without), Tpot(row.full.with), colour,
          Percent(row.full.Ratio(0.5)));
    }
    bar("all on", 0, full, "#2b6cb0", fmt::format("{:.3f} ({})", full, Percent(w.all.Ratio(0.5))));
    y += kGap - 16;
  }
  return out + "</svg>\n";
}

}  // namespace weft::cli
