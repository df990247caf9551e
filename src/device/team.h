// The threads that compute: n workers, of which worker 0 is whoever calls Run() (the engine's loop)
// and the others are threads of the team, each pinned to its core with denormals flushed.
//
// One team covers all workers of all ranks of this process; a worker's index is rank-major. Run()
// rings a doorbell: a worker that finished less than spin_ns ago is still spinning and starts in
// about 0.1 us; later it sleeps in the kernel and costs a wake-up (15-40 us). An idle team uses no
// CPU. Run() allocates nothing.
// Thread: Run() and the destructor from one thread at a time. A job bounds its own waits (Barrier);
// Run() itself returns only when every worker has left the job, since they use the caller's memory,
// and reports a worker that stays in it through the log every heartbeat_ns.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "device/barrier.h"

namespace weft::device {

inline constexpr int kUnpinned = -1;

class Team {
 public:
  using Job = void (*)(void* context, int worker);

  struct Options {
    int workers = 1;
    std::vector<int> cpus;           // [workers] of the operating system, or kUnpinned; empty: none
    int64_t spin_ns = kSpinNs;       // 0: more workers than cores; sleep and yield at once
    std::vector<std::string> names;  // [workers] "worker 1 of rank 0"; empty: "worker 1"
    LogSink* log = nullptr;          // outlives the team; nullptr: silent
    int64_t heartbeat_ns = 5'000'000'000;
  };
  // Fails if a thread cannot be started or pinned. Does not pin the caller: see PinCaller().
  static Result<std::unique_ptr<Team>> Create(Options options);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int workers() const { return workers_; }

  // Pins the calling thread, which will be worker 0, to cpus[0] and flushes its denormals for good.
  Status PinCaller();

  // job(context, w) for every worker w, worker 0 on the calling thread; returns when all are done.
  void Run(Job job, void* context);
  // The same for a callable f(int worker), which is not copied.
  template <typename F>
  void RunEach(F& f) {
    Run([](void* context, int worker) { (*static_cast<F*>(context))(worker); }, &f);
  }

 private:
  struct alignas(128) Line {
    std::atomic<uint32_t> done{0};  // the doorbell's number that this worker has finished
  };

  explicit Team(Options options);
  void Loop(int worker);
  uint32_t WaitForDoorbell(uint32_t seen);
  void WaitForWorkers(uint32_t bell);
  std::string NameOf(int worker) const;

  const Options options_;
  const int workers_;
  std::unique_ptr<Line[]> lines_;     // [workers]
  std::vector<std::thread> threads_;  // workers 1 .. n - 1

  // Written by Run() before the doorbell, read by workers after it.
  Job job_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;

  alignas(128) std::atomic<uint32_t> doorbell_{0};
  alignas(128) std::atomic<int32_t> sleepers_{0};
};

// Binds the calling thread to one CPU of the operating system.
Status PinThisThread(int cpu);

}  // namespace weft::device
