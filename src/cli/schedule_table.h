// Which schedule works for what, upstream and here: the table of `weft explain --schedules`.
// Upstream is vllm-ascend 0.18 to 0.23, which article B describes; what became of it later is in
// the notes. Thread: constants and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/bucket.h"
#include "plan/schedule.h"

namespace weft::cli {

enum class Here : uint8_t {
  kYes,     // as upstream
  kMore,    // where upstream does not, or only under a condition
  kLaw,     // the laws allow it; no such model or format is built in yet
  kNotice,  // nothing to do, which is told
  kError,   // cannot work, which is told
};
std::string_view NameOf(Here here);

struct ScheduleCell {
  std::string_view upstream;  // a word or two
  std::string_view notes;     // letters of ScheduleNotes()
  Here here;
};

struct ScheduleRow {
  std::string_view what;
  ScheduleCell sp, fc1, fc2, sharding;  // sharding: of o_proj by layers
};
std::span<const ScheduleRow> ScheduleRows();

struct ScheduleNote {
  char letter;
  std::string_view text;
};
std::span<const ScheduleNote> ScheduleNotes();

// Schedules, table and notes, in columns.
std::string ScheduleTableText();

// What each bucket of bodies up to tokens_max rows gets, and why it is not what was asked for.
// REQUIRES: CheckSchedule(config, ranks) is ok.
std::string BucketSchedulesText(const plan::ScheduleConfig& config, int ranks, int32_t tokens_max);

}  // namespace weft::cli
