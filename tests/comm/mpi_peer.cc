// One rank of a job in which ranks lose each other: mpi_loss_test.cc starts it and reads what it
// says.
//   weft_comm_mpi_peer HOW VICTIM TIMEOUT_MS
// All ranks exchange until the victim does in the middle what HOW says (exit, kill, stall) or,
// after "never", until something outside separates them. Then each of the others prints "rank R:
// STATUS after S s" and ends without MPI, as a server would.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "comm/mpi_link.h"
#include "process_rank.h"

namespace weft::comm {
namespace {

int Main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string_view how = argv[1];
  const int victim = std::atoi(argv[2]);
  const int64_t timeout_ns = std::atoi(argv[3]) * kNsPerMs;
  const kernels::ScopedFlushDenormals flush;
  const auto link = std::move(OpenMpiLink({.spin_ns = 0}, SoonEnough("open")).value());
  ProcessRank self(*link, 1, int64_t{1} << 20);
  const int rank = self.rank(), ranks = link->ranks(), group = self.all();
  const auto cases = WindowCases(ranks, 500, false);
  for (int64_t step = 0;; ++step) {
    if (rank == victim && step == 100 && how != "never") {
      if (how == "exit") _exit(3);
      if (how == "kill") raise(SIGKILL);
      std::this_thread::sleep_for(std::chrono::nanoseconds(timeout_ns + 3 * kNsPerSecond));
    }
    WindowCase& test = *cases[static_cast<size_t>(step) % cases.size()];
    const int64_t start_ns = SteadyNowNs();
    const Status status = self.Run(
        test, group,
        {.deadline_ns = start_ns + timeout_ns, .step = step, .what = NameOf(test.kind()).data()});
    if (status.ok()) {
      if (!self.HasContractsBits(test, group)) std::printf("rank %d: wrong bits\n", rank);
      continue;
    }
    // One write: lines of several ranks may not mix.
    const std::string line =
        fmt::format("rank {}: {} after {:.2f} s\n", rank, status.message(),
                    static_cast<double>(SteadyNowNs() - start_ns) / kNsPerSecond);
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(4);
    // MPI takes a process that ends for a failure of the job, and ends the others before they
    // spoke.
    std::this_thread::sleep_for(std::chrono::seconds(rank == victim ? 0 : 1));
    _exit(0);
  }
}

}  // namespace
}  // namespace weft::comm

int main(int argc, char** argv) { return weft::comm::Main(argc, argv); }
