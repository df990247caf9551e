// What a meeting and an all-reduce cost between processes, on this machine, now: min / median / max
// of rounds, and the bytes that a rank takes for each second of the median.
// Run: mpirun -n 2 --bind-to none mpi_exchange_bench [rounds]; rank 0 prints. Over TCP as between
// hosts: --mca btl tcp,self.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "comm/mpi_link.h"
#include "comm/process_fabric.h"
#include "comm/roots.h"
#include "device/team.h"
#include "device/topology.h"

namespace {

using namespace weft;  // NOLINT(google-build-using-namespace): one program

constexpr int64_t kCols = 2048;
constexpr int64_t kRowsMax = 512;

device::WaitSite Soon() { return {.deadline_ns = SteadyNowNs() + 60 * kNsPerSecond}; }

Status Main(int rounds) {
  WEFT_ASSIGN_OR_RETURN(const device::Topology topology, device::DetectTopology());
  WEFT_ASSIGN_OR_RETURN(const auto link, comm::OpenMpiLink({}, Soon()));
  WEFT_ASSIGN_OR_RETURN(const auto fabric, comm::ProcessFabric::Create(link.get(), {}));
  const int rank = fabric->rank(), ranks = fabric->ranks();
  // As a server's workers are; two that meet on one core wait for each other's spins.
  WEFT_ASSIGN_OR_RETURN(const device::CoreAssignment cores,
                        device::AssignCores(topology, ranks, 1));
  if (!cores.oversubscribed) WEFT_RETURN_IF_ERROR(device::PinThisThread(cores.ranks[rank].cpus[0]));
  std::vector<int> all(ranks);
  for (int r = 0; r < ranks; ++r) all[r] = r;
  WEFT_ASSIGN_OR_RETURN(const int group, fabric->AddGroup(all));
  const comm::RootLayout layout = comm::MakeRootLayout(LeafTable::Make(16, 1), ranks);

  // Roots of the largest rank, then y.
  int roots_max = 1;
  for (int r = 0; r < ranks; ++r) roots_max = std::max(roots_max, layout.CountOf(r));
  const int64_t root_bytes = kRowsMax * kCols * 4;
  WEFT_ASSIGN_OR_RETURN(
      device::Memory window,
      device::Memory::Allocate(root_bytes * (roots_max + 1), device::kAnyNode, "window"));
  fabric->SetWindow(rank, window.span());
  WEFT_RETURN_IF_ERROR(fabric->ShareWindows(Soon()));

  const auto measure = [&](const std::string& name, int64_t bytes, auto&& op) -> Status {
    std::vector<double> us;
    for (int round = 0; round < rounds; ++round) {
      WEFT_RETURN_IF_ERROR(fabric->Sync({group, rank, 0}, Soon()));
      const int64_t start = SteadyNowNs();
      WEFT_RETURN_IF_ERROR(op());
      us.push_back(static_cast<double>(SteadyNowNs() - start) / 1000);
    }
    std::ranges::sort(us);
    const double median = us[us.size() / 2];
    if (rank == 0) {
      fmt::print("{:<44} {:9.1f} / {:9.1f} / {:9.1f} us{}\n", name, us.front(), median, us.back(),
                 bytes == 0
                     ? ""
                     : fmt::format(", {:.2f} GB/s", static_cast<double>(bytes) / median / 1000));
    }
    return {};
  };
  if (rank == 0) fmt::print("{}; {} ranks\n", topology.Describe(), ranks);
  WEFT_RETURN_IF_ERROR(measure("meeting", 0, [&] {
    return fabric->Sync({group, rank, 0}, Soon());
  }));
  for (const int64_t rows : {1, 8, 64, 512}) {
    std::vector<float*> roots;
    std::vector<View> y;
    for (int r = 0; r < ranks; ++r) {
      std::byte* const base = fabric->WindowOf(r).data();
      for (int i = 0; i < layout.CountOf(r); ++i) {
        roots.push_back(reinterpret_cast<float*>(base + i * root_bytes));
      }
      y.push_back({base + roots_max * root_bytes, rows, kCols, kCols, DType::kBF16});
    }
    const std::vector<int64_t> strides(layout.count(), kCols);
    std::vector<comm::ReduceArgs> members;
    for (int r = 0; r < ranks; ++r) {
      members.push_back({.rank = r,
                         .ranks = ranks,
                         .rows = rows,
                         .cols = kCols,
                         .root_count = layout.count(),
                         .root_ranks = layout.root_ranks.data(),
                         .merges = layout.merges.data(),
                         .roots = roots.data(),
                         .strides = strides.data(),
                         .y = y.data()});
      members.back().finish = kernels::Choose(kernels::FinishKernels(),
                                              kernels::FinishArgs{.strides = strides.data(),
                                                                  .count = layout.count(),
                                                                  .merges = layout.merges.data(),
                                                                  .y = y[r]},
                                              kernels::DetectIsa());
    }
    for (const auto* method : comm::AllReduceMethods()) {
      if (!method->refuse(members[0]).empty()) continue;
      WEFT_RETURN_IF_ERROR(
          measure(fmt::format("all_reduce {} {} KiB a rank", method->name, rows * kCols * 4 / 1024),
                  method->bytes(members[rank]), [&] {
                    return comm::RunCollective(*fabric, {group, rank, 0}, *method,
                                               std::span<const comm::ReduceArgs>(members), Soon());
                  }));
    }
  }
  return link->Close(Soon());
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = Main(argc > 1 ? std::max(1, std::atoi(argv[1])) : 200);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return status.ok() ? 0 : 1;
}
