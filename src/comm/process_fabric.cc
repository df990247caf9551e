#include "comm/process_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/agree.h"

namespace weft::comm {
namespace {

// Worker 0 gives up at the deadline and then hears its peers for a moment: its reason is the
// better.
constexpr int64_t kAfterWorker0Ns = 4 * Link::kGraceNs;

device::Barrier::Options BarrierOf(Link& link, const ProcessFabric::Options& options) {
  device::Barrier::Options out{.spin_ns = options.spin_ns, .abort = &link.abort()};
  for (int w = 0; w < options.workers; ++w) {
    out.names.push_back(fmt::format("worker {} of rank {}", w, link.rank()));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<ProcessFabric>> ProcessFabric::Create(Link* link, const Options& options) {
  if (options.workers < 1) return Status::Invalid("a rank with {} workers", options.workers);
  return std::unique_ptr<ProcessFabric>(new ProcessFabric(link, options));
}

ProcessFabric::ProcessFabric(Link* link, const Options& options)
    : link_(link),
      workers_(options.workers),
      entry_(workers_, BarrierOf(*link, options)),
      exit_(workers_, BarrierOf(*link, options)),
      windows_(static_cast<size_t>(link->ranks())),
      counters_(workers_) {}

void ProcessFabric::SetWindow(int rank, std::span<std::byte> window) {
  WEFT_CHECK(rank == this->rank(), "the window of rank {} is set by rank {}", rank, this->rank());
  windows_[rank] = window;
}

Status ProcessFabric::ShareWindows(const device::WaitSite& site) {
  const auto mine = static_cast<int64_t>(windows_[rank()].size());
  std::vector<int64_t> bytes(windows_.size());
  WEFT_RETURN_IF_ERROR(Share(*link_, std::as_bytes(std::span(&mine, 1)),
                             std::as_writable_bytes(std::span(bytes)), site));
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

Result<int> ProcessFabric::AddGroup(std::span<const int> ranks) {
  const auto same =
      std::ranges::find_if(groups_, [&](const auto& g) { return std::ranges::equal(g, ranks); });
  if (same != groups_.end()) return static_cast<int>(same - groups_.begin());
  WEFT_RETURN_IF_ERROR(CheckGroup(ranks));
  groups_.emplace_back(ranks.begin(), ranks.end());
  return static_cast<int>(groups_.size()) - 1;
}

Status ProcessFabric::OthersAreHere(const device::WaitSite& site) {
  const Status entered = entry_.Await(0, site);
  if (entered.ok()) return {};
  // A worker that does not come breaks the link, and the transfer tells the peers why.
  const Status told = link_->Transfer(site);
  return told.ok() ? entered : told;
}

Status ProcessFabric::Complete(const Actor& actor, const device::WaitSite& site) {
  if (actor.worker != 0) {
    device::WaitSite later = site;
    if (later.deadline_ns != device::kNoDeadline) later.deadline_ns += kAfterWorker0Ns;
    return exit_.Wait(actor.worker, later);
  }
  WEFT_RETURN_IF_ERROR(link_->Transfer(site));
  return exit_.Wait(0, site);
}

Status ProcessFabric::Await(const Actor& actor, const device::WaitSite& site) {
  if (actor.worker == 0) {
    WEFT_RETURN_IF_ERROR(OthersAreHere(site));
    for (int peer : groups_[actor.group]) {
      if (peer != rank()) link_->Meet(peer);
    }
  }
  return Complete(actor, site);
}

Status ProcessFabric::Post(const Actor& actor, PhaseReads reads, const device::WaitSite& site) {
  entry_.Arrive(actor.worker);
  if (actor.worker != 0) return {};
  WEFT_RETURN_IF_ERROR(OthersAreHere(site));
  List(groups_[actor.group], reads);
  return link_->Start();
}

void ProcessFabric::List(std::span<const int> group, PhaseReads reads) {
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
}

}  // namespace weft::comm
