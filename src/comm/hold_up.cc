#include "comm/hold_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace weft::comm {

void GiveUpNotice::SetWaits(std::span<const int> ranks) {
  wait_count = static_cast<int32_t>(std::min(ranks.size(), waits.size()));
  std::copy_n(ranks.begin(), wait_count, waits.begin());
}

void GiveUpNotice::SetText(std::string_view why) {
  const size_t size = std::min(why.size(), text.size() - 1);
  std::memcpy(text.data(), why.data(), size);
  text[size] = '\0';
}

bool CameLate(int rank, int64_t waited_ns, std::span<const GiveUpNotice> notices) {
  return std::ranges::any_of(notices, [&](const GiveUpNotice& notice) {
    const auto waits = std::span(notice.waits).first(static_cast<size_t>(notice.wait_count));
    return waited_ns < notice.waited_ns / 2 && std::ranges::find(waits, rank) != waits.end();
  });
}

std::vector<int> WhoHoldsUp(std::span<const GiveUpNotice> notices) {
  std::vector<int> out;
  for (const GiveUpNotice& notice : notices) {
    for (int32_t i = 0; i < notice.wait_count; ++i) {
      const int rank = notice.waits[i];
      const bool waits = std::ranges::any_of(notices, [&](const GiveUpNotice& other) {
        return other.rank == rank && other.wait_count > 0;
      });
      if (!waits) out.push_back(rank);
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Status WhyGivenUp(const GiveUpNotice& mine, std::span<const GiveUpNotice> heard,
                  const device::WaitSite& site) {
  for (const GiveUpNotice& notice : heard) {
    if (notice.code == 0) continue;
    return Status(static_cast<StatusCode>(notice.code),
                  fmt::format("rank {}: {}", notice.rank, notice.text.data()));
  }
  std::string where;
  if (site.step >= 0) where += fmt::format(" at step {}", site.step);
  if (*site.what != '\0') where += fmt::format(" ({})", site.what);
  std::vector<GiveUpNotice> all(heard.begin(), heard.end());
  all.push_back(mine);
  const std::vector<int> blamed = WhoHoldsUp(all);
  std::vector<int> others;
  for (const GiveUpNotice& notice : heard) others.push_back(notice.rank);
  std::ranges::sort(others);
  if (std::ranges::find(blamed, mine.rank) != blamed.end()) {
    return Status::Deadline("rank {} came too late{}: {} had given up waiting for it", mine.rank,
                            where, RanksInWords(others));
  }
  const std::vector<int> waits(mine.waits.begin(), mine.waits.begin() + mine.wait_count);
  if (waits.empty()) {
    return Status::Deadline("rank {} heard{} that {} gave up waiting for {}", mine.rank, where,
                            RanksInWords(others), RanksInWords(blamed));
  }
  const bool directly = std::ranges::any_of(
      blamed, [&](int r) { return std::ranges::find(waits, r) != waits.end(); });
  std::string whom = RanksInWords(directly ? blamed : waits);
  if (!directly && !blamed.empty()) whom += fmt::format(", held up by {}", RanksInWords(blamed));
  return Status::Deadline("rank {} waited {:.1f} s for {}{}", mine.rank,
                          static_cast<double>(mine.waited_ns) / kNsPerSecond, whom, where);
}

std::string RanksInWords(std::span<const int> ranks) {
  constexpr size_t kNamesMax = 4;
  if (ranks.empty()) return "nobody";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  const size_t named = ranks.size() > kNamesMax ? kNamesMax : ranks.size() - 1;
  std::string out = fmt::format("ranks {}", fmt::join(ranks.first(named), ", "));
  if (ranks.size() > kNamesMax) return out + fmt::format(" and {} more", ranks.size() - named);
  return out + fmt::format(" and {}", ranks.back());
}

}  // namespace weft::comm
