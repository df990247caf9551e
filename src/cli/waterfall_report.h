// What switches are worth, one by one: figures of runs in pairs, as a table, as JSON and as a
// picture. Thread: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace weft::cli {

// One run of the same requests at once; means over requests, milliseconds.
struct RequestTimes {
  double tpot_ms = 0;      // per output token behind the first
  double tpot_p99_ms = 0;  // of the gaps between tokens
  double ttft_ms = 0;
  double e2e_ms = 0;
  double tokens_per_step = 0;  // above 1 with drafts
};

// Runs of two configurations that differ in one switch, in turns.
struct SwitchPair {
  std::vector<RequestTimes> without, with;
  // The switch's time over that without it, pair by pair; below 1 is a gain.
  double Ratio(double q) const;
};

struct WaterfallRow {
  std::string name;       // "fold_finish"
  bool on = true;         // by default
  int64_t rewrites = 0;   // what it changes in the plans that ran; 0 of a switch of the engine
  SwitchPair full, bare;  // with all others that are on by default, and with none
};

// At one number of requests.
struct Waterfall {
  int concurrency = 1;
  SwitchPair all;  // everything on by default against nothing
  std::vector<WaterfallRow> rows;
};

// A gain or loss that three of four pairs agree on; "-" otherwise.
std::string VerdictOf(const SwitchPair& pair);

std::string TableText(const Waterfall& waterfall);
Json ToJson(const Waterfall& waterfall);
// A bar for each switch, by what it is worth with all others on, from nothing on to everything on.
std::string Svg(const std::vector<Waterfall>& waterfalls, const std::string& title);

}  // namespace weft::cli
