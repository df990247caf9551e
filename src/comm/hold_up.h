// Which rank holds the others up, when ranks wait for each other in different places and each sees
// only its own wait: a rank that gives up tells all others for whom it waited, and who is waited
// for without waiting himself is the one that died or stalls. Thread: any; pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/barrier.h"

namespace weft::comm {

// What a rank tells its peers when it gives up. Plain bytes: it travels as it is.
struct GiveUpNotice {
  int32_t rank = 0;
  int32_t code = 0;        // its StatusCode if it failed by itself; 0: it waited, or heard of it
  int32_t wait_count = 0;  // 0: it was computing, or had all it needed
  int64_t waited_ns = 0;   // for these
  std::array<int32_t, 32> waits{};
  std::array<char, 256> text{};  // why, for people, ended by a zero

  void SetWaits(std::span<const int> ranks);
  void SetText(std::string_view why);
};

// Whether a rank that has waited for `waited_ns` when it hears the notices is itself what their
// senders waited for: it came when they had nearly given up, so for whom it waits says nothing.
bool CameLate(int rank, int64_t waited_ns, std::span<const GiveUpNotice> notices);

// The ranks to blame, ascending: those that are waited for and told no wait of their own. Empty:
// the waits go round in a circle.
std::vector<int> WhoHoldsUp(std::span<const GiveUpNotice> notices);

// Why `mine.rank` has given up at `site`, by what it told and what it has heard: the rank to blame,
// or a peer's own error as that rank's.
Status WhyGivenUp(const GiveUpNotice& mine, std::span<const GiveUpNotice> heard,
                  const device::WaitSite& site);

// "rank 3", "ranks 1 and 3", "ranks 0, 1, 2, 3 and 4 more"
std::string RanksInWords(std::span<const int> ranks);

}  // namespace weft::comm
