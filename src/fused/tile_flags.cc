#include "fused/tile_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace weft::fused {

TileFlags::TileFlags(Options options)
    : spin_ns_(options.spin_ns), abort_(options.abort != nullptr ? options.abort : &own_abort_) {
  firsts_.push_back(0);
  for (int workers : options.workers) {
    WEFT_CHECK(workers >= 1, "a rank of {} workers", workers);
    firsts_.push_back(firsts_.back() + workers);
  }
  lines_ = std::make_unique<Line[]>(static_cast<size_t>(firsts_.back()));
}

Status TileFlags::Await(int who, int rank, uint64_t count, const device::WaitSite& site) {
  if (device::PassesSoon([&] { return Up(rank, count); }, site.ahead)) return {};
  return device::WaitSlowly(
      [&] { return Up(rank, count); }, spin_ns_, *abort_, site, [&] { return NameOf(who); },
      [&] {
        int late = firsts_[rank];
        while (late + 1 < firsts_[rank + 1] &&
               lines_[late].raised.load(std::memory_order_acquire) >= count)
          ++late;
        return fmt::format("tile {} of {}", lines_[late].raised.load(std::memory_order_acquire) + 1,
                           NameOf(late));
      });
}

Status TileFlags::AwaitAll(int who, uint64_t count, const device::WaitSite& site) {
  for (int rank = 0; rank < ranks(); ++rank) WEFT_RETURN_IF_ERROR(Await(who, rank, count, site));
  return {};
}

std::string TileFlags::NameOf(int who) const {
  const int rank =
      static_cast<int>(std::upper_bound(firsts_.begin(), firsts_.end(), who) - firsts_.begin()) - 1;
  const bool alone = firsts_[rank + 1] - firsts_[rank] == 1;
  return alone ? fmt::format("rank {}", rank)
               : fmt::format("worker {} of rank {}", who - firsts_[rank], rank);
}

}  // namespace weft::fused
