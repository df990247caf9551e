// What the machine under us is: cores, NUMA nodes, caches, as far as this process may use them; and
// which cores each rank gets.
// Thread: start-up only. Errors: hwloc's failures; more workers asked for than make sense.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::device {

struct Core {
  int cpu = 0;                // the first hardware thread we may use, as the system numbers it
  std::vector<int> siblings;  // its other hardware threads that we may use
  int node = 0;               // NUMA node, as the system numbers it
  int l3 = -1;                // index of its last-level cache; -1: none reported
};

struct Topology {
  std::vector<Core> cores;  // by node, then cache, then core: neighbours share most
  std::vector<int> nodes;   // nodes that have at least one of `cores`, ascending
  int64_t l1d_bytes = 0;    // per core; 0: not reported
  int64_t l2_bytes = 0;
  int64_t l3_bytes = 0;  // of one cache
  int l3_count = 0;

  // "2 cores, 1 node, L1d 32.0 KiB, L2 512.0 KiB, 1 x L3 32.0 MiB"
  std::string Describe() const;
};

// The machine, cut down to the calling thread's affinity mask and to the container's cpuset; call
// it before any thread is pinned.
Result<Topology> DetectTopology();
// A machine that we do not have, in hwloc's words ("numa:2 l3:1 core:4 pu:2"); for tests.
Result<Topology> SyntheticTopology(const std::string& description);

struct RankCores {
  int node = 0;           // where the rank's memory goes
  std::vector<int> cpus;  // [workers] one per worker; a CPU may repeat when cores are shared
};

struct CoreAssignment {
  std::vector<RankCores> ranks;
  bool oversubscribed = false;  // a CPU has more than one worker: nobody may spin
  int workers() const;          // of all ranks
  // "rank 0: node 0, CPUs 0-3; rank 1: node 1, CPUs 4-7"
  std::string Describe() const;
};

// Contiguous groups of cores, none across nodes where there are at least as many ranks as nodes.
// Sizes may differ by the machine's own unevenness; with more ranks than cores, cores are shared.
// workers_per_rank: 0 takes all cores of the group; else exactly that many workers per rank.
Result<CoreAssignment> AssignCores(const Topology& topology, int ranks, int workers_per_rank);

}  // namespace weft::device
