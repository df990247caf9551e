// What exchanges cost on a machine, as plain data: the choice between an exchange's methods is made
// from it when a plan is compiled, so that the same model, flags and table give the same plan
// anywhere. A stopwatch at start would give another plan every day.
//
// Thread: plain data and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::plan {

// ns = phases * phase_ns + KiB * kib_ns, bytes being what the busiest worker takes from other
// ranks.
struct ExchangeCost {
  std::string collective;  // "all_reduce"
  std::string method;      // "two_shot"
  int ranks = 2;           // as measured
  double phase_ns = 0;     // a meeting, and what a phase without bytes does
  double kib_ns = 0;
  friend bool operator==(const ExchangeCost&, const ExchangeCost&) = default;
};

// Workers that meet, without anything between ranks.
struct MeetingCost {
  int workers = 2;
  double ns = 0;
  friend bool operator==(const MeetingCost&, const MeetingCost&) = default;
};

struct CostTable {
  std::vector<ExchangeCost> exchanges;
  std::vector<MeetingCost> meetings;
  double weight_kib_ns = 0;  // weights from memory, all workers together
  double walk_kib_ns = 0;    // rows that one worker reads and writes in norms and the like
  double bf16_mac_ns = 0;    // a multiplication and its addition, one worker
  double int8_mac_ns = 0;

  // Of the most ranks that were measured and are not above `ranks`, else of the fewest. nullopt:
  // the table does not know the method.
  std::optional<double> ExchangeNs(std::string_view collective, std::string_view method, int ranks,
                                   int64_t bytes, int phases) const;
  double MeetingNs(int workers) const;  // 0: the table does not say
  uint64_t Hash() const;
  friend bool operator==(const CostTable&, const CostTable&) = default;
};

// A method that could do an exchange, in the order of preference.
struct MethodCost {
  std::string_view method;
  std::optional<double> ns;
};
// The index of the cheapest. A method has to save kSavingLeast of the time of one before it: the
// figures are medians of a noisy machine, and what comes first meets less often or is simpler.
// Methods that the table does not know come last. REQUIRES: not empty.
inline constexpr double kSavingLeast = 0.1;
size_t Cheapest(const std::vector<MethodCost>& methods);

}  // namespace weft::plan
