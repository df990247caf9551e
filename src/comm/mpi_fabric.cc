#include "comm/mpi_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace weft::comm {
namespace {

// Worker 0 gives up at the deadline and then hears its peers for a moment: its reason is the
// better.
constexpr int64_t kBroadcastMax = int64_t{1} << 30;
constexpr int64_t kAfterWorker0Ns = 4 * MpiLink::kGraceNs;

std::vector<std::string> WorkerNames(int rank, int workers) {
  std::vector<std::string> names;
  for (int w = 0; w < workers; ++w) names.push_back(fmt::format("worker {} of rank {}", w, rank));
  return names;
}

template <typename T>
std::span<const std::byte> BytesOfValue(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// A status as plain bytes.
struct StatusRecord {
  int32_t code = 0;
  std::array<char, 252> text{};
};

}  // namespace

Result<std::unique_ptr<MpiFabric>> MpiFabric::Create(const Options& options,
                                                     const device::WaitSite& site) {
  if (options.workers < 1) return Status::Invalid("a rank with {} workers", options.workers);
  WEFT_ASSIGN_OR_RETURN(auto link, MpiLink::Open(options.link, site));
  return std::unique_ptr<MpiFabric>(new MpiFabric(std::move(link), options));
}

MpiFabric::MpiFabric(std::unique_ptr<MpiLink> link, const Options& options)
    : link_(std::move(link)),
      workers_(options.workers),
      entry_(workers_, {.spin_ns = options.link.spin_ns,
                        .abort = &link_->abort(),
                        .names = WorkerNames(link_->rank(), workers_)}),
      exit_(workers_, {.spin_ns = options.link.spin_ns,
                       .abort = &link_->abort(),
                       .names = WorkerNames(link_->rank(), workers_)}),
      windows_(static_cast<size_t>(link_->ranks())),
      records_(static_cast<size_t>(link_->ranks()) * sizeof(StatusRecord)),
      counters_(workers_) {}

Status MpiFabric::Share(std::span<const std::byte> mine, std::span<std::byte> all,
                        const device::WaitSite& site) {
  for (int peer = 0; peer < ranks(); ++peer) {
    const std::span<std::byte> theirs =
        all.subspan(mine.size() * static_cast<size_t>(peer), mine.size());
    if (peer == rank()) {
      std::ranges::copy(mine, theirs.begin());
      continue;
    }
    link_->To(peer).Add(mine);
    link_->From(peer).Add(theirs);
  }
  return link_->Transfer(site);
}

void MpiFabric::SetWindow(int rank, std::span<std::byte> window) {
  WEFT_CHECK(rank == this->rank(), "the window of rank {} is set by rank {}", rank, this->rank());
  windows_[rank] = window;
}

Status MpiFabric::ShareWindows(const device::WaitSite& site) {
  const auto mine = static_cast<int64_t>(windows_[rank()].size());
  std::vector<int64_t> bytes(windows_.size());
  WEFT_RETURN_IF_ERROR(Share(BytesOfValue(mine), std::as_writable_bytes(std::span(bytes)), site));
  mirrors_.resize(windows_.size());
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    WEFT_ASSIGN_OR_RETURN(mirrors_[peer],
                          device::Memory::Allocate(bytes[peer], device::kAnyNode,
                                                   fmt::format("mirror of rank {}", peer)));
    windows_[peer] = mirrors_[peer].span();
  }
  return {};
}

Status MpiFabric::CheckSame(std::string_view what, std::string_view mine,
                            const device::WaitSite& site) {
  WEFT_CHECK(mine.size() <= kFactBytes, "{} is {} bytes", what, mine.size());
  std::array<char, kFactBytes + 1> fact{};
  std::ranges::copy(mine, fact.begin());
  std::vector<char> all(fact.size() * windows_.size());
  WEFT_RETURN_IF_ERROR(
      Share(std::as_bytes(std::span(fact)), std::as_writable_bytes(std::span(all)), site));
  const auto fact_of = [&](int r) {
    return std::string_view(all.data() + fact.size() * static_cast<size_t>(r));
  };
  for (int r = 1; r < ranks(); ++r) {
    if (fact_of(r) == fact_of(0)) continue;
    return Status::Invalid("ranks differ in {}: rank 0 has '{}', rank {} has '{}'", what,
                           fact_of(0), r, fact_of(r));
  }
  return {};
}

Result<int64_t> MpiFabric::Least(int64_t mine, const device::WaitSite& site) {
  std::vector<int64_t> all(windows_.size());
  WEFT_RETURN_IF_ERROR(Share(BytesOfValue(mine), std::as_writable_bytes(std::span(all)), site));
  return *std::ranges::min_element(all);
}

Status MpiFabric::Broadcast(std::vector<std::byte>* bytes, const device::WaitSite& site) {
  auto size = static_cast<int64_t>(bytes->size());
  const bool root = rank() == 0;
  if (root) {
    for (int peer = 1; peer < ranks(); ++peer) link_->To(peer).Add(BytesOfValue(size));
  } else {
    link_->From(0).Add(BytesOfValue(size));
  }
  WEFT_RETURN_IF_ERROR(link_->Transfer(site));
  if (size < 0 || size > kBroadcastMax) {
    Abort(Status::Internal("rank 0 announced {} bytes", size));
    return link_->Transfer(site);
  }
  bytes->resize(static_cast<size_t>(size));
  if (root) {
    for (int peer = 1; peer < ranks(); ++peer) link_->To(peer).Add(*bytes);
  } else {
    link_->From(0).Add(*bytes);
  }
  return link_->Transfer(site);
}

Status MpiFabric::GatherStatus(const Status& mine, const device::WaitSite& site) {
  StatusRecord record{.code = static_cast<int32_t>(mine.code())};
  std::copy_n(mine.message().begin(), std::min(mine.message().size(), record.text.size() - 1),
              record.text.begin());
  if (rank() != 0) {
    link_->To(0).Add(BytesOfValue(record));
    WEFT_RETURN_IF_ERROR(link_->Transfer(site));
    return mine;
  }
  const auto all = std::as_writable_bytes(std::span(records_));
  for (int peer = 1; peer < ranks(); ++peer) {
    link_->From(peer).Add(
        all.subspan(sizeof(StatusRecord) * static_cast<size_t>(peer), sizeof(StatusRecord)));
  }
  WEFT_RETURN_IF_ERROR(link_->Transfer(site));
  WEFT_RETURN_IF_ERROR(mine.In("rank 0"));
  for (int peer = 1; peer < ranks(); ++peer) {
    std::memcpy(&record, all.data() + sizeof(StatusRecord) * static_cast<size_t>(peer),
                sizeof record);
    record.text.back() = '\0';
    if (record.code != 0) {
      return Status(static_cast<StatusCode>(record.code),
                    fmt::format("rank {}: {}", peer, record.text.data()));
    }
  }
  return {};
}

Result<int> MpiFabric::AddGroup(std::span<const int> ranks) {
  const auto same =
      std::ranges::find_if(groups_, [&](const auto& g) { return std::ranges::equal(g, ranks); });
  if (same != groups_.end()) return static_cast<int>(same - groups_.begin());
  WEFT_RETURN_IF_ERROR(CheckGroup(ranks));
  groups_.emplace_back(ranks.begin(), ranks.end());
  return static_cast<int>(groups_.size()) - 1;
}

Status MpiFabric::WhileOthersWait(const Actor& actor, const device::WaitSite& site,
                                  FunctionRef<Status()> talk) {
  if (actor.worker != 0) {
    device::WaitSite later = site;
    if (later.deadline_ns != device::kNoDeadline) later.deadline_ns += kAfterWorker0Ns;
    return exit_.Wait(actor.worker, later);
  }
  // A worker that does not come breaks the link, and the transfer tells the peers why.
  const Status entered = entry_.Await(0, site);
  const Status talked = talk();
  if (!talked.ok()) return talked;
  WEFT_RETURN_IF_ERROR(entered);
  return exit_.Wait(0, site);
}

Status MpiFabric::Await(const Actor& actor, const device::WaitSite& site) {
  return WhileOthersWait(actor, site, [&]() -> Status {
    for (int peer : groups_[actor.group]) {
      if (peer != rank()) link_->Meet(peer);
    }
    return link_->Transfer(site);
  });
}

Status MpiFabric::Exchange(const Actor& actor, PhaseReads reads, const device::WaitSite& site) {
  entry_.Arrive(actor.worker);
  return WhileOthersWait(actor, site, [&] { return Pull(groups_[actor.group], reads, site); });
}

Status MpiFabric::Pull(std::span<const int> group, PhaseReads reads, const device::WaitSite& site) {
  const auto me = static_cast<int>(std::ranges::find(group, rank()) - group.begin());
  Status outside;
  const auto check = [&](const Read& read, int holder) {
    const std::span<const std::byte> window = windows_[holder];
    const int64_t begin = read.data - window.data();
    const int64_t end = begin + (read.rows - 1) * read.stride + read.bytes;
    if (begin >= 0 && end <= static_cast<int64_t>(window.size())) return true;
    outside = Status::Internal("bytes {} to {} of the window of rank {}, which has {}", begin, end,
                               holder, window.size());
    return false;
  };
  for (int member = 0; member < static_cast<int>(group.size()); ++member) {
    reads(member, [&](const Read& read) {
      const int holder = group[read.from];
      if (member == me) {
        if (check(read, holder)) link_->From(holder).Add(read);
      } else if (read.from == me) {
        if (check(read, holder)) link_->To(group[member]).Add(read);
      }
    });
  }
  if (!outside.ok()) Abort(outside);
  return link_->Transfer(site);
}

}  // namespace weft::comm
