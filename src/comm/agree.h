// What ranks in processes of their own tell each other outside of exchanges: facts at the start,
// the inputs of a step, how it ended. Every rank calls the same functions in the same order.
// Thread: the link's. Errors: the link's.
#pragma once

#include <string_view>
#include <vector>

#include "comm/link.h"

namespace weft::comm {

// `all` becomes the ranks' pieces of mine.size() bytes, in the order of ranks.
Status Share(Link& link, std::span<const std::byte> mine, std::span<std::byte> all,
             const device::WaitSite& site);

// Errors, on all ranks: kInvalid with both values if not every rank says the same.
// REQUIRES: at most kFactBytes bytes.
inline constexpr int kFactBytes = 256;
Status CheckSame(Link& link, std::string_view what, std::string_view mine,
                 const device::WaitSite& site);
// The least of what the ranks say: what all of them have in common of an ordered thing.
Result<int64_t> Least(Link& link, int64_t mine, const device::WaitSite& site);

// Who shares what with this rank.
struct Neighbours {
  int on_host = 1;         // ranks on this host, memory's sharers
  int on_cores = 1;        // those of them that may run on the same cores
  int place_on_cores = 0;  // of this rank among them
};
Result<Neighbours> FindNeighbours(Link& link, const device::WaitSite& site);

// For a rank that fails between transfers: its peers hear why at their next one, and fail too.
void TellFailure(Link& link, const Status& why);

// Rank 0's bytes become everybody's. Allocates only what `bytes` has no capacity for.
Status Broadcast(Link& link, std::vector<std::byte>* bytes, const device::WaitSite& site);
// On rank 0 the first error by rank, told as that rank's; on others their own.
Status GatherStatus(Link& link, const Status& mine, const device::WaitSite& site);

}  // namespace weft::comm
