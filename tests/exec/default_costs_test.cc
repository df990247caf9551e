#include "exec/default_costs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/json.h"

namespace weft::exec {
namespace {

TEST(DefaultCosts, AreTheMediansOfTheCommittedProfile) {
  std::stringstream text;
  text << std::ifstream(WEFT_SOURCE_DIR "/profiles/xeon-spr-2.json").rdbuf();
  const auto profile = ParseJson(text.str());
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  const plan::CostTable table = DefaultCosts();
  size_t exchanges = 0, meetings = 0;
  for (const Json& limit : profile->Find("limits")->as_array()) {
    const std::string& name = limit.Find("name")->as_string();
    const double median = limit.Find("median")->as_double();
    const auto threads = static_cast<int>(limit.Find("scope")->Find("threads")->as_int());
    if (name == "walk" && threads == 1) {
      EXPECT_EQ(median, table.walk_kib_ns);
    }
    if (name == "barrier") {
      ASSERT_LT(meetings, table.meetings.size());
      EXPECT_EQ(table.meetings[meetings++], (plan::MeetingCost{threads, median}));
    }
    // A method's two figures stand one after the other.
    if (!name.ends_with("_phase") && !name.ends_with("_kib")) continue;
    ASSERT_LT(exchanges / 2, table.exchanges.size());
    const plan::ExchangeCost& cost = table.exchanges[exchanges++ / 2];
    EXPECT_EQ(name, cost.collective + (name.ends_with("_kib") ? "_kib" : "_phase"));
    EXPECT_EQ(limit.Find("how")->as_string(), cost.method);
    EXPECT_EQ(threads, cost.ranks);
    EXPECT_EQ(median, name.ends_with("_kib") ? cost.kib_ns : cost.phase_ns)
        << name << " of " << cost.method;
  }
  EXPECT_EQ(exchanges, 2 * table.exchanges.size());
  EXPECT_EQ(meetings, table.meetings.size());
}

}  // namespace
}  // namespace weft::exec
