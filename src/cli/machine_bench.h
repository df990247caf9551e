// Workers on their cores for a measurement, and rounds that all of them start together.
// Thread: one caller, which is worker 0 and pinned as long as the bench lives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/affinity.h"
#include "device/team.h"
#include "device/topology.h"

namespace weft::cli {

class MachineBench {
 public:
  // `seconds`: for each figure.
  static Result<std::unique_ptr<MachineBench>> Create(const device::Topology& topology, int threads,
                                                      double seconds) {
    auto bench = std::unique_ptr<MachineBench>(new MachineBench);
    bench->seconds_ = seconds;
    bench->threads_ = threads;
    device::Team::Options options;
    options.workers = threads;
    for (int w = 0; w < threads; ++w) options.cpus.push_back(topology.cores[w].cpu);
    WEFT_ASSIGN_OR_RETURN(bench->team_, device::Team::Create(std::move(options)));
    WEFT_RETURN_IF_ERROR(bench->team_->PinCaller());
    bench->barrier_ = std::make_unique<device::Barrier>(threads, device::Barrier::Options{});
    return bench;
  }
  // Seconds of work(worker) on all workers, from the first start to the last end, many times;
  // sorted.
  template <typename F>
  std::vector<double> Rounds(const F& work) {
    std::vector<double> out;
    const int64_t until = SteadyNowNs() + static_cast<int64_t>(seconds_ * 1e9);
    while (out.size() < 3 || SteadyNowNs() < until) {
      int64_t start = 0, end = 0;
      auto job = [&](int worker) {
        (void)barrier_->Wait(worker);
        if (worker == 0) start = SteadyNowNs();
        work(worker);
        (void)barrier_->Wait(worker);
        if (worker == 0) end = SteadyNowNs();
      };
      team_->RunEach(job);
      out.push_back(static_cast<double>(end - start) * 1e-9);
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  device::Team& team() { return *team_; }
  device::Barrier& barrier() { return *barrier_; }
  int threads() const { return threads_; }
  double seconds() const { return seconds_; }

 private:
  MachineBench() = default;
  double seconds_ = 0;
  int threads_ = 1;
  std::unique_ptr<device::Team> team_;
  std::unique_ptr<device::Barrier> barrier_;
  device::ScopedAffinity affinity_;  // who measures again, or goes on to other work, needs its CPUs
};

}  // namespace weft::cli
