#include "plan/cost_table.h"

#include "base/hash.h"

namespace weft::plan {
namespace {

// The entry of the list that fits `n` best: the most that is not above, else the least above.
template <typename List, typename Size, typename Matches>
const typename List::value_type* Nearest(const List& list, int n, const Size& size,
                                         const Matches& matches) {
  const typename List::value_type* best = nullptr;
  for (const auto& entry : list) {
    if (!matches(entry)) continue;
    const bool below = size(entry) <= n;
    if (best == nullptr || (below && (size(*best) > n || size(entry) > size(*best))) ||
        (!below && size(entry) < size(*best))) {
      best = &entry;
    }
  }
  return best;
}

}  // namespace

std::optional<double> CostTable::ExchangeNs(std::string_view collective, std::string_view method,
                                            int ranks, int64_t bytes, int phases) const {
  const ExchangeCost* cost = Nearest(
      exchanges, ranks, [](const ExchangeCost& e) { return e.ranks; },
      [&](const ExchangeCost& e) { return e.collective == collective && e.method == method; });
  if (cost == nullptr) return std::nullopt;
  return phases * cost->phase_ns + static_cast<double>(bytes) / 1024 * cost->kib_ns;
}

double CostTable::MeetingNs(int workers) const {
  const MeetingCost* cost = Nearest(
      meetings, workers, [](const MeetingCost& m) { return m.workers; },
      [](const MeetingCost&) { return true; });
  return cost == nullptr ? 0 : cost->ns;
}

uint64_t CostTable::Hash() const {
  Hash64Stream hash;
  const auto text = [&](std::string_view t) {
    hash.AddValue(static_cast<int64_t>(t.size()));
    hash.Add(t);
  };
  for (const ExchangeCost& e : exchanges) {
    text(e.collective);
    text(e.method);
    hash.AddValue(e.ranks);
    hash.AddValue(e.phase_ns);
    hash.AddValue(e.kib_ns);
  }
  for (const MeetingCost& m : meetings) {
    hash.AddValue(m.workers);
    hash.AddValue(m.ns);
  }
  for (double ns : {weight_kib_ns, walk_kib_ns, bf16_mac_ns, int8_mac_ns}) hash.AddValue(ns);
  return hash.Digest();
}

size_t Cheapest(const std::vector<MethodCost>& methods) {
  size_t best = 0;
  for (size_t i = 1; i < methods.size(); ++i) {
    if (!methods[i].ns) continue;
    if (!methods[best].ns || *methods[i].ns < (1 - kSavingLeast) * *methods[best].ns) best = i;
  }
  return best;
}

}  // namespace weft::plan
