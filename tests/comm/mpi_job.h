// What programs that mpirun starts have in common: how a case is run on this rank.
#pragma once

#include <vector>

#include "base/clock.h"
#include "comm/mpi_fabric.h"
#include "device/team.h"
#include "window_case.h"

namespace weft::comm {

// Far more than any wait takes on a machine that is busy.
inline device::WaitSite SoonEnough(const char* what = "") {
  return {.deadline_ns = SteadyNowNs() + 60 * kNsPerSecond, .what = what};
}

inline Status RunOnWorker(Fabric& fabric, const Actor& actor, const WindowCase& test,
                          const device::WaitSite& site) {
  if (const auto* reduce = dynamic_cast<const MethodCase<ReduceArgs>*>(&test)) {
    return RunCollective(fabric, actor, reduce->method(), reduce->args(), site);
  }
  if (const auto* move = dynamic_cast<const MethodCase<MoveArgs>*>(&test)) {
    return RunCollective(fabric, actor, move->method(), move->args(), site);
  }
  const auto& pairs = dynamic_cast<const MethodCase<PairMaxArgs>&>(test);
  return RunCollective(fabric, actor, pairs.method(), pairs.args(), site);
}

// A fabric, the workers of this rank, a window, and mirrors of the others.
class RankUnderTest {
 public:
  RankUnderTest(int workers, MpiLink::Options link, int64_t window_bytes) : window_(window_bytes) {
    auto fabric = MpiFabric::Create({.workers = workers, .link = link}, SoonEnough("create"));
    WEFT_CHECK(fabric.ok(), "{}", fabric.status().message());
    fabric_ = std::move(fabric.value());
    fabric_->SetWindow(fabric_->rank(), window_);
    const Status shared = fabric_->ShareWindows(SoonEnough("windows"));
    WEFT_CHECK(shared.ok(), "{}", shared.message());
    auto team = device::Team::Create({.workers = workers, .spin_ns = 0});
    WEFT_CHECK(team.ok(), "{}", team.status().message());
    team_ = std::move(team.value());
  }
  MpiFabric& fabric() { return *fabric_; }
  int rank() const { return fabric_->rank(); }

  // The case in `group`, of which this rank is a member, with mirrors that hold poison at first.
  // The first error of a worker.
  Status Run(WindowCase& test, int group, const device::WaitSite& site) {
    const std::span<const int> ranks = fabric_->GroupOf(group);
    const int me = fabric_->PlaceOf({group, rank(), 0});
    std::vector<std::byte*> windows;
    for (size_t m = 0; m < ranks.size(); ++m) {
      std::byte* const window = fabric_->WindowOf(ranks[m]).data();
      windows.push_back(window);
      const int64_t bytes = test.WindowBytes(static_cast<int>(m));
      WEFT_CHECK(bytes <= static_cast<int64_t>(window_.size()), "a window of {} bytes", bytes);
      std::fill_n(window, bytes, std::byte{0xFF});
    }
    test.Fill(me, windows[me]);
    test.See(windows);
    std::vector<Status> statuses(fabric_->WorkersOf(rank()));
    auto job = [&](int worker) {
      statuses[worker] = RunOnWorker(*fabric_, {group, rank(), worker}, test, site);
    };
    team_->RunEach(job);
    for (const Status& status : statuses) WEFT_RETURN_IF_ERROR(status);
    return {};
  }
  bool HasContractsBits(const WindowCase& test, int group) const {
    const int me = fabric_->PlaceOf({group, rank(), 0});
    const Region result = test.ResultOf(me);
    const std::vector<std::byte> expected = test.Expected(me);
    return std::equal(expected.begin(), expected.end(), window_.begin() + result.begin);
  }

 private:
  std::vector<std::byte> window_;
  std::unique_ptr<MpiFabric> fabric_;
  std::unique_ptr<device::Team> team_;
};

}  // namespace weft::comm
