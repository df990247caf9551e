#include "cli/schedule_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/schedule_flags.h"

namespace weft::cli {
namespace {

using testing::HasSubstr;
using Cell = ScheduleCell ScheduleRow::*;
constexpr Cell kCells[] = {&ScheduleRow::sp, &ScheduleRow::fc1, &ScheduleRow::fc2,
                           &ScheduleRow::sharding};

const ScheduleRow& Row(std::string_view what) {
  const auto rows = ScheduleRows();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const ScheduleRow& r) { return r.what == what; });
  EXPECT_NE(row, rows.end()) << what;
  return *row;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('\n', i), text.size());
    lines.push_back(text.substr(i, end - i));
    i = end + 1;
  }
  return lines;
}

TEST(ScheduleTable, EveryNoteIsThereAndIsUsed) {
  std::set<char> used, there;
  for (const ScheduleRow& row : ScheduleRows()) {
    for (Cell cell : kCells) used.insert((row.*cell).notes.begin(), (row.*cell).notes.end());
  }
  for (const ScheduleNote& note : ScheduleNotes()) {
    EXPECT_TRUE(there.insert(note.letter).second) << "twice: " << note.letter;
    EXPECT_FALSE(note.text.empty());
  }
  EXPECT_EQ(used, there);
}

TEST(ScheduleTable, APlusIsWhereUpstreamHasNoPlainYes) {
  for (const ScheduleRow& row : ScheduleRows()) {
    for (Cell cell : kCells) {
      const ScheduleCell& c = row.*cell;
      if (c.here == Here::kYes) {
        EXPECT_EQ(c.upstream, "yes") << row.what;
      }
      // What only differs by its note's condition is FlashComm2's policy.
      if (c.here == Here::kMore && c.upstream == "yes") {
        EXPECT_EQ(c.notes, "c") << row.what;
      }
    }
  }
}

// The columns begin where the head's do, in every row.
TEST(ScheduleTable, ColumnsAreAligned) {
  const std::vector<std::string> lines = Lines(ScheduleTableText());
  const auto head = std::find_if(lines.begin(), lines.end(), [](const std::string& l) {
    return l.find("upstream") != std::string::npos && l.find("weft") != std::string::npos;
  });
  ASSERT_NE(head, lines.end());
  std::vector<size_t> starts;
  for (size_t at = head->find_first_not_of(' '); at != std::string::npos;
       at = head->find_first_not_of(' ', head->find(' ', at))) {
    starts.push_back(at);
    if (head->find(' ', at) == std::string::npos) break;
  }
  ASSERT_EQ(starts.size(), 8u);
  for (size_t i = 0; i < ScheduleRows().size(); ++i) {
    const std::string& line = *(head + 1 + static_cast<std::ptrdiff_t>(i));
    EXPECT_TRUE(line.starts_with("  " + std::string(ScheduleRows()[i].what))) << line;
    for (const size_t at : starts) {
      ASSERT_LT(at, line.size()) << line;
      EXPECT_NE(line[at], ' ') << line;
      EXPECT_EQ(line[at - 1], ' ') << line;
    }
  }
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 120u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

// What the table says of us and the rules of the flags decide, they agree upon.
TEST(ScheduleTable, SaysWhatTheFlagsDo) {
  const auto choose = [](const char* schedule, int ranks, const char* kv) {
    ScheduleFlags flags;
    flags.schedule = schedule;
    flags.upstream.kv_transfer_config = {kv};
    return ChooseSchedule(flags, ranks, {});
  };
  const std::pair<const char*, Cell> schedules[] = {
      {"sp", &ScheduleRow::sp}, {"fc1", &ScheduleRow::fc1}, {"fc2", &ScheduleRow::fc2}};
  for (const auto& [name, cell] : schedules) {
    const auto one = choose(name, 1, "{}");
    EXPECT_EQ((Row("one rank").*cell).here, !one.ok()                 ? Here::kError
                                            : one->notices.size() > 1 ? Here::kNotice
                                                                      : Here::kYes)
        << name;
    const auto decodes = choose(name, 4, R"({"kv_role":"kv_consumer"})");
    EXPECT_EQ((Row("nodes that decode").*cell).here, decodes.ok() ? Here::kMore : Here::kError)
        << name;
    const auto odd = choose(name, 3, "{}");  // nobody asks for divisible rows or heads
    EXPECT_EQ((Row("rows no multiple of the ranks").*cell).here,
              odd.ok() ? Here::kMore : Here::kError)
        << name;
  }
}

TEST(BucketSchedulesText, TellsEachBucketsScheduleMeshAndReason) {
  plan::ScheduleConfig config;
  config.schedule = plan::Schedule::kFc1Fc2;
  config.otp = 2;
  config.fc2_min_tokens = 3;
  config.fc1_min_tokens = 20;
  const std::vector<std::string> lines = Lines(BucketSchedulesText(config, 4, 40));
  EXPECT_EQ(lines[0], "Buckets of up to 40 rows on 4 ranks, schedule fc1+fc2 otp=2");
  const std::pair<const char*, const char*> expected[] = {
      {"  2 ", "plain     tp=4         rows 2 < 3 (--fc2-min-token-num)"},
      {"  3 ", "fc2       otp=2 odp=2  without fc1: rows 3 < 20 (--fc1-min-token-num)"},
      {"  17-19 ", "fc2       otp=2 odp=2  without fc1: rows 19 < 20 (--fc1-min-token-num)"},
      {"  20-32 ", "fc1+fc2   otp=2 odp=2"},
      {"  33-40 ", "fc1+fc2   otp=2 odp=2"},
  };
  for (const auto& [begin, rest] : expected) {
    const auto line = std::find_if(lines.begin(), lines.end(),
                                   [&](const std::string& l) { return l.starts_with(begin); });
    ASSERT_NE(line, lines.end()) << begin;
    EXPECT_TRUE(line->ends_with(rest)) << *line;
  }
  EXPECT_EQ(lines.size(), 2u + 16 + 3);  // the head, 1 to 16, 17-19, 20-32, 33-40
}

}  // namespace
}  // namespace weft::cli
