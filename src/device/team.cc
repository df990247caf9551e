#include "device/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "device/mxcsr.h"
#include "device/wait.h"

namespace weft::device {
namespace {

// std::atomic::wait spins by its own rules and shares its wait table with the whole process; the
// raw call sleeps when we say so.
void FutexWait(std::atomic<uint32_t>* word, uint32_t value) {
  static_assert(sizeof *word == sizeof value);
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Status PinThisThread(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return Status::Invalid("CPU {} does not exist", cpu);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return Status::Invalid("cannot run on CPU {}: {} (is it in this process' cpuset?)", cpu,
                         std::strerror(errno));
}

Team::Team(Options options)
    : options_(std::move(options)),
      workers_(options_.workers),
      lines_(std::make_unique<Line[]>(options_.workers)) {}

Result<std::unique_ptr<Team>> Team::Create(Options options) {
  if (options.workers < 1) return Status::Invalid("a team of {} workers", options.workers);
  const auto workers = static_cast<size_t>(options.workers);
  WEFT_CHECK(options.cpus.empty() || options.cpus.size() == workers, "{} cpus for {} workers",
             options.cpus.size(), workers);
  WEFT_CHECK(options.names.empty() || options.names.size() == workers, "{} names for {} workers",
             options.names.size(), workers);
  std::unique_ptr<Team> team(new Team(std::move(options)));
  team->threads_.reserve(workers - 1);
  for (size_t w = 1; w < workers; ++w) {
    try {
      team->threads_.emplace_back(&Team::Loop, team.get(), static_cast<int>(w));
    } catch (const std::system_error& error) {
      return Status::Exhausted("cannot start thread {} of {}: {}", w, workers, error.what());
    }
  }
  // The first job pins: so Create() can report a failure of any worker, and the names of the
  // threads are set before anybody looks.
  struct Pin {
    Team* team;
    std::vector<Status> statuses;
  } pin{team.get(), std::vector<Status>(workers)};
  team->Run(
      [](void* context, int worker) {
        if (worker == 0) return;
        auto* const p = static_cast<Pin*>(context);
        pthread_setname_np(pthread_self(), fmt::format("weft-{}", worker).c_str());
        const std::vector<int>& cpus = p->team->options_.cpus;
        if (cpus.empty() || cpus[worker] == kUnpinned) return;
        p->statuses[worker] = PinThisThread(cpus[worker]);
      },
      &pin);
  for (size_t w = 1; w < workers; ++w) {
    if (!pin.statuses[w].ok()) return pin.statuses[w].In(team->NameOf(static_cast<int>(w)));
  }
  return team;
}

Team::~Team() {
  stop_ = true;
  doorbell_.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(&doorbell_);
  for (std::thread& thread : threads_) thread.join();
}

Status Team::PinCaller() {
  SetFlushDenormals();
  if (options_.cpus.empty() || options_.cpus[0] == kUnpinned) return {};
  return PinThisThread(options_.cpus[0]).In(NameOf(0));
}

void Team::Run(Job job, void* context) {
  if (workers_ > 1) {
    job_ = job;
    context_ = context;
    // seq_cst, as the sleeper's increment and its look at the doorbell: either the sleeper sees the
    // new number, or its increment is seen here.
    const uint32_t bell = doorbell_.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (sleepers_.load(std::memory_order_seq_cst) > 0) FutexWakeAll(&doorbell_);
    {
      const ScopedFlushDenormals flush;
      job(context, 0);
    }
    WaitForWorkers(bell);
  } else {
    const ScopedFlushDenormals flush;
    job(context, 0);
  }
}

void Team::Loop(int worker) {
  SetFlushDenormals();
  uint32_t seen = 0;
  while (true) {
    seen = WaitForDoorbell(seen);
    if (stop_) return;
    job_(context_, worker);
    // Partner: WaitForWorkers. Everything the job wrote is visible to the caller.
    lines_[worker].done.store(seen, std::memory_order_release);
  }
}

uint32_t Team::WaitForDoorbell(uint32_t seen) {
  const int64_t start_ns = SteadyNowNs();
  do {
    for (int i = 0; i < kPollsPerClock; ++i) {
      // Partner: Run's fetch_add; job_, context_ and stop_ were written before it.
      const uint32_t bell = doorbell_.load(std::memory_order_acquire);
      if (bell != seen) return bell;
      _mm_pause();
    }
  } while (SteadyNowNs() - start_ns < options_.spin_ns);
  while (true) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (doorbell_.load(std::memory_order_seq_cst) == seen) FutexWait(&doorbell_, seen);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    const uint32_t bell = doorbell_.load(std::memory_order_acquire);
    if (bell != seen) return bell;
  }
}

void Team::WaitForWorkers(uint32_t bell) {
  int64_t start_ns = 0;
  int64_t heard_ns = 0;
  for (int w = 1; w < workers_; ++w) {
    for (int64_t polls = 1; lines_[w].done.load(std::memory_order_acquire) != bell; ++polls) {
      _mm_pause();
      if (polls % kPollsPerClock != 0) continue;
      const int64_t now_ns = SteadyNowNs();
      if (start_ns == 0) start_ns = heard_ns = now_ns;
      if (now_ns - start_ns > options_.spin_ns + kYieldNs) {
        nanosleep(&kNap, nullptr);
      } else if (now_ns - start_ns > options_.spin_ns) {
        sched_yield();
      }
      if (options_.log != nullptr && now_ns - heard_ns > options_.heartbeat_ns) {
        options_.log->Warning("{} waits {:.1f} s for {} to end its job", NameOf(0),
                              static_cast<double>(now_ns - start_ns) / kNsPerSecond, NameOf(w));
        heard_ns = now_ns;
      }
    }
  }
}

std::string Team::NameOf(int worker) const {
  return options_.names.empty() ? fmt::format("worker {}", worker) : options_.names[worker];
}

}  // namespace weft::device
