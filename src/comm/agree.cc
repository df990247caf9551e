#include "comm/agree.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace weft::comm {
namespace {

// No step's inputs come near it.
constexpr int64_t kBroadcastMax = int64_t{1} << 30;

template <typename T>
std::span<const std::byte> BytesOfValue(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// A status as plain bytes.
struct StatusRecord {
  int32_t code = 0;
  std::array<char, 252> text{};
};

// Where a process runs: its host, and the cores that it may use.
struct Home {
  std::array<char, 64> host{};
  uint64_t cores = 0;
};

}  // namespace

Status Share(Link& link, std::span<const std::byte> mine, std::span<std::byte> all,
             const device::WaitSite& site) {
  for (int peer = 0; peer < link.ranks(); ++peer) {
    const std::span<std::byte> theirs =
        all.subspan(mine.size() * static_cast<size_t>(peer), mine.size());
    if (peer == link.rank()) {
      std::ranges::copy(mine, theirs.begin());
      continue;
    }
    link.To(peer).Add(mine);
    link.From(peer).Add(theirs);
  }
  return link.Transfer(site);
}

Status CheckSame(Link& link, std::string_view what, std::string_view mine,
                 const device::WaitSite& site) {
  WEFT_CHECK(mine.size() <= kFactBytes, "{} is {} bytes", what, mine.size());
  std::array<char, kFactBytes + 1> fact{};
  std::ranges::copy(mine, fact.begin());
  std::vector<char> all(fact.size() * static_cast<size_t>(link.ranks()));
  WEFT_RETURN_IF_ERROR(
      Share(link, std::as_bytes(std::span(fact)), std::as_writable_bytes(std::span(all)), site));
  const auto fact_of = [&](int rank) {
    const char* const begin = all.data() + fact.size() * static_cast<size_t>(rank);
    return std::string_view(begin, strnlen(begin, kFactBytes));
  };
  for (int rank = 1; rank < link.ranks(); ++rank) {
    if (fact_of(rank) == fact_of(0)) continue;
    return Status::Invalid("ranks differ in {}: rank 0 has '{}', rank {} has '{}'", what,
                           fact_of(0), rank, fact_of(rank));
  }
  return {};
}

Result<int64_t> Least(Link& link, int64_t mine, const device::WaitSite& site) {
  std::vector<int64_t> all(static_cast<size_t>(link.ranks()));
  WEFT_RETURN_IF_ERROR(
      Share(link, BytesOfValue(mine), std::as_writable_bytes(std::span(all)), site));
  return *std::ranges::min_element(all);
}

Result<Neighbours> FindNeighbours(Link& link, const device::WaitSite& site) {
  Home mine;
  gethostname(mine.host.data(), mine.host.size() - 1);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  mine.cores = Hash64(&cores, sizeof cores);
  std::vector<Home> all(static_cast<size_t>(link.ranks()));
  WEFT_RETURN_IF_ERROR(
      Share(link, BytesOfValue(mine), std::as_writable_bytes(std::span(all)), site));
  Neighbours out{.on_host = 0, .on_cores = 0};
  for (int rank = 0; rank < link.ranks(); ++rank) {
    const Home& home = all[static_cast<size_t>(rank)];
    if (home.host != mine.host) continue;
    ++out.on_host;
    if (home.cores != mine.cores) continue;
    if (rank == link.rank()) out.place_on_cores = out.on_cores;
    ++out.on_cores;
  }
  return out;
}

void TellFailure(Link& link, const Status& why) {
  link.abort().Set(why);
  (void)link.Transfer({});
}

Status Broadcast(Link& link, std::vector<std::byte>* bytes, const device::WaitSite& site) {
  auto size = static_cast<int64_t>(bytes->size());
  const auto carry = [&](std::span<const std::byte> piece) {
    if (link.rank() == 0) {
      for (int peer = 1; peer < link.ranks(); ++peer) link.To(peer).Add(piece);
    } else {
      link.From(0).Add(piece);
    }
    return link.Transfer(site);
  };
  WEFT_RETURN_IF_ERROR(carry(BytesOfValue(size)));
  if (size < 0 || size > kBroadcastMax) {
    link.abort().Set(Status::Internal("rank 0 announced {} bytes", size));
    return link.Transfer(site);
  }
  bytes->resize(static_cast<size_t>(size));
  return carry(*bytes);
}

Status GatherStatus(Link& link, const Status& mine, const device::WaitSite& site) {
  StatusRecord record{.code = static_cast<int32_t>(mine.code())};
  std::copy_n(mine.message().begin(), std::min(mine.message().size(), record.text.size() - 1),
              record.text.begin());
  if (link.rank() != 0) {
    link.To(0).Add(BytesOfValue(record));
    WEFT_RETURN_IF_ERROR(link.Transfer(site));
    return mine;
  }
  std::vector<StatusRecord> all(static_cast<size_t>(link.ranks()));
  for (int peer = 1; peer < link.ranks(); ++peer) {
    link.From(peer).Add(BytesOfValue(all[static_cast<size_t>(peer)]));
  }
  WEFT_RETURN_IF_ERROR(link.Transfer(site));
  WEFT_RETURN_IF_ERROR(mine.In("rank 0"));
  for (int peer = 1; peer < link.ranks(); ++peer) {
    StatusRecord& told = all[static_cast<size_t>(peer)];
    told.text.back() = '\0';
    if (told.code == 0) continue;
    return Status(static_cast<StatusCode>(told.code),
                  fmt::format("rank {}: {}", peer, told.text.data()));
  }
  return {};
}

}  // namespace weft::comm
