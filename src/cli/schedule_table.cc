#include "cli/schedule_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace weft::cli {
namespace {

using enum Here;

// clang-format off
// Source: vllm-ascend's tags 0.18 and 0.23, its issues by number; what weft does is by its own tests.
constexpr ScheduleRow kRows[] = {
  // what                             SP                       FlashComm1                 FlashComm2                layer sharding
  {"dense, grouped queries",          {"no", "a", kMore},      {"> 1000 rows", "b", kMore}, {"yes", "c", kMore},      {"P nodes", "d", kMore}},
  {"experts (MoE)",                   {"no", "a", kLaw},       {"with EP", "e", kLaw},    {"yes", "c", kLaw},       {"P nodes", "d", kLaw}},
  {"latent attention (MLA)",          {"no", "a", kLaw},       {"yes", "f", kLaw},        {"yes", "c", kLaw},       {"P nodes", "d", kLaw}},
  {"recurrent layers (GDN)",          {"no", "a", kLaw},       {"yes", "g", kLaw},        {"yes", "c", kLaw},       {"P nodes", "d", kLaw}},
  {"vision and text",                 {"no", "a", kLaw},       {"yes", "h", kLaw},        {"crashes", "i", kLaw},   {"P nodes", "d", kLaw}},
  {"draft model",                     {"no", "a", kLaw},       {"experts", "j", kLaw},    {"crashes", "i", kLaw},   {"no", "j", kLaw}},
  {"weights bf16, f16, f32",          {"no", "a", kMore},      {"yes", "b", kYes},        {"yes", "c", kYes},       {"P nodes", "d", kMore}},
  {"weights of GGUF, int8 inputs",    {"-", "", kMore},        {"-", "k", kMore},         {"-", "k", kMore},        {"-", "", kMore}},
  {"W8A8, static scales",             {"no", "al", kLaw},      {"yes", "l", kLaw},        {"yes", "m", kLaw},       {"P nodes", "d", kLaw}},
  {"W8A8, scales per token",          {"no", "al", kLaw},      {"yes", "l", kLaw},        {"inexact", "m", kLaw},   {"P nodes", "d", kLaw}},
  {"--enforce-eager",                 {"no", "n", kMore},      {"yes", "l", kYes},        {"yes", "", kYes},        {"P nodes", "d", kMore}},
  {"rows no multiple of the ranks",   {"padded", "o", kMore},  {"padded", "o", kMore},    {"padded", "o", kMore},   {"-", "", kMore}},
  {"heads no multiple of the ranks",  {"refused", "p", kMore}, {"refused", "p", kMore},   {"refused", "p", kMore},  {"refused", "p", kMore}},
  {"nodes that decode",               {"no", "a", kMore},      {"> 1000 rows", "b", kMore}, {"refused", "c", kMore},  {"refused", "d", kMore}},
  {"one rank",                        {"warning", "", kNotice}, {"refused", "q", kNotice}, {"refused", "q", kError}, {"-", "", kNotice}},
};

constexpr ScheduleNote kNotes[] = {
  {'a', "In the tree from 0.18 to 0.26rc, where its patterns match no graph (#12772), so it changes nothing; 1000 rows for a dense model whatever the user says (#12760), 1 with experts; repaired 2026-08-03, deleted 2026-08-21. Here: --sp-min-token-num, and the number of rewrites is told."},
  {'b', "Dense: above 1000 rows of a step, fixed; 0.11 to 0.26rc, deleted 2026-08-21. Here: --fc1-min-token-num."},
  {'c', "At every size of a step; 0.13 to 0.24rc, deleted 2026-07-18. Refused with kv_role kv_consumer and kv_both; a warning without --kv-transfer-config and without FlashComm1. The size must divide the ranks and be below them. Here: --fc2-min-token-num; the roles are a notice."},
  {'d', "Only with kv_role kv_producer, and beside FlashComm2 only [\"o_proj\"]; 0.13 to 0.23, deleted 2026-07-15. Here: the role is a notice; where ranks share memory every weight exists once and is read in place, so it is accepted and told that nothing is left to do."},
  {'e', "Refused without --enable-expert-parallel; then for any number of rows. Gathers hidden states and router logits."},
  {'f', "Gathers q_c and kv behind the norm of the latent: 2112 of 7168 columns for DeepSeek-V3; a fused decode path of 0.23 gathers in front of it. By law the gather sinks there on its own."},
  {'g', "Since #7486 (2026-03-25)."},
  {'h', "Refused up to 2026-03-22 (#7390). The first layer's input is whole by the model's class, so a text-only run skips a gather (#14410, open). By law a gather follows from where a value is."},
  {'i', "Linear layers are caught by name, those of the vision tower and of the draft too (#10500, #10941, #11433); excluded in 0.24rc."},
  {'j', "Off for a dense draft, on with experts; sharding counts hidden layers alone. By law a draft is a graph like any other."},
  {'k', "Not among the quantisations that upstream treats (W8A8, W4A8, MXFP). Here the inputs are quantised by blocks of 32 inside a row, which no exchange cuts."},
  {'l', "No quantised pattern of SP. FlashComm1 gathers int8 in graph mode and bf16 in eager mode."},
  {'m', "Static scales: int8 crosses in the all-to-all. Per token: bf16 crosses, and the scale is taken over other columns than in plain TP, so results differ."},
  {'n', "Graph passes never run in eager mode. Here a schedule that was asked for is part of the eager plan too."},
  {'o', "Padded to a multiple of the ranks, captured sizes filtered to multiples. Here ranks own rows floor(rT/t) to floor((r+1)T/t), maybe none."},
  {'p', "vLLM wants heads to divide by the ranks. Here heads are cut by leaves, unevenly if need be, with the same bits."},
  {'q', "An assertion at start, also for a FlashComm2 size of all ranks. Here FlashComm1 on one rank is told and ignored (#9986), refused with --ascend-strict."},
};
// clang-format on

struct Line {
  plan::Schedule schedule;
  std::string_view text;
};
constexpr Line kLines[] = {
    {plan::Schedule::kPlain, "all-reduce behind o_proj and down_proj"},
    {plan::Schedule::kSp,
     "reduce-scatter there; residual and norms on a rank's own rows; gather right behind the norm"},
    {plan::Schedule::kFc1, "sp, and the gather sinks to where its bytes are least (FlashComm1)"},
    {plan::Schedule::kFc2,
     "ranks as otp x odp: all-to-all before o_proj, reduce-scatter over otp only (FlashComm2)"},
    {plan::Schedule::kFc1Fc2, "both: what FlashComm2 scatters stays scattered"},
    {plan::Schedule::kGather,
     "weights cut by outputs, activations gathered, nothing reduced; ours"},
};

constexpr size_t kTableWidth = 118;

// `text` in lines of at most kTableWidth; all but the first begin with `indent` spaces.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string out;
  size_t used = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (used + 1 + end > kTableWidth) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (used > indent) {
      out += ' ';
      ++used;
    }
    out += text.substr(0, end);
    used += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Rows of equal length, each column as wide as its widest entry; no blanks at the end of a line.
std::string Columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format(" {:<{}} ", row[i], width[i]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace

std::string_view NameOf(Here here) {
  switch (here) {
    case kYes: return "yes";
    case kMore: return "yes +";
    case kLaw: return "law";
    case kNotice: return "notice";
    case kError: return "error";
  }
  return "unknown";
}

std::span<const ScheduleRow> ScheduleRows() { return kRows; }

std::span<const ScheduleNote> ScheduleNotes() { return kNotes; }

std::string ScheduleTableText() {
  std::vector<std::vector<std::string>> schedules;
  for (const Line& line : kLines)
    schedules.push_back({std::string(NameOf(line.schedule)), std::string(line.text)});
  std::string out = "Schedules (--schedule)\n" + Columns(schedules);

  out += "\nWhat works, in vllm-ascend 0.18 to 0.23 and here\n";
  std::vector<std::vector<std::string>> rows = {
      {"", "SP", "", "FlashComm1", "", "FlashComm2", "", "layer sharding", ""},
      {"", "upstream", "weft", "upstream", "weft", "upstream", "weft", "upstream", "weft"}};
  for (const ScheduleRow& row : kRows) {
    std::vector<std::string> line = {std::string(row.what)};
    for (const ScheduleCell* cell : {&row.sp, &row.fc1, &row.fc2, &row.sharding}) {
      line.push_back(cell->notes.empty() ? std::string(cell->upstream)
                                         : fmt::format("{} {}", cell->upstream, cell->notes));
      line.emplace_back(NameOf(cell->here));
    }
    rows.push_back(std::move(line));
  }
  out += Columns(rows);
  out +=
      "\n  yes +  where upstream does not, or only under a condition\n"
      "  law    the laws of placement allow it; no such model or format is built in yet\n"
      "  P nodes: prefill nodes, kv_role kv_producer; EP: expert parallelism\n\n";
  for (const ScheduleNote& note : kNotes)
    out += fmt::format("  {}  {}\n", note.letter, Wrapped(note.text, 5));
  return out;
}

std::string BucketSchedulesText(const plan::ScheduleConfig& config, int ranks, int32_t tokens_max) {
  std::string out = fmt::format("Buckets of up to {} rows on {} rank{}, schedule {}\n", tokens_max,
                                ranks, ranks == 1 ? "" : "s", Describe(config));
  std::vector<std::vector<std::string>> rows = {{"rows", "schedule", "mesh", "why not as asked"}};
  for (const plan::Bucket& bucket :
       plan::Ladder(plan::Bucket::Kind::kBody, tokens_max, LadderCuts(config))) {
    const plan::BucketSchedule got = ScheduleFor(config, ranks, bucket);
    std::string mesh;
    for (const graph::MeshAxis& axis : got.mesh.axes)
      mesh += fmt::format("{}{}={}", mesh.empty() ? "" : " ", axis.name, axis.size);
    rows.push_back({bucket.rows_min == bucket.rows_max
                        ? fmt::format("{}", bucket.rows_min)
                        : fmt::format("{}-{}", bucket.rows_min, bucket.rows_max),
                    std::string(NameOf(got.schedule)), mesh, got.reason});
  }
  return out + Columns(rows);
}

}  // namespace weft::cli
