#include "comm/hold_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
