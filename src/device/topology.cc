#include "device/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>

#include "device/memory.h"

namespace weft::device {
namespace {

constexpr int kRanksMax = 64;
constexpr int kWorkersMax = 1024;

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Result<Topology> Read(hwloc_topology_t machine, const cpu_set_t* allowed) {
  Topology out;
  std::set<int> caches;
  const int core_count = hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_CORE);
  // A virtual machine may report no cores; then each hardware thread counts as one.
  const hwloc_obj_type_t kind = core_count > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  const int count = hwloc_get_nbobjs_by_type(machine, kind);
  for (int i = 0; i < count; ++i) {
    hwloc_obj_t object = hwloc_get_obj_by_type(machine, kind, i);
    Core core;
    core.cpu = -1;
    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
      if (allowed != nullptr && (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, allowed))) continue;
      if (core.cpu < 0) {
        core.cpu = cpu;
      } else {
        core.siblings.push_back(cpu);
      }
    }
    if (core.cpu < 0) continue;
    const int node = hwloc_bitmap_first(object->nodeset);
    core.node = node < 0 ? 0 : node;
    for (hwloc_obj_t up = object; up != nullptr; up = up->parent) {
      if (!hwloc_obj_type_is_dcache(up->type)) continue;
      const auto bytes = static_cast<int64_t>(up->attr->cache.size);
      if (up->type == HWLOC_OBJ_L1CACHE) out.l1d_bytes = bytes;
      if (up->type == HWLOC_OBJ_L2CACHE) out.l2_bytes = bytes;
      if (up->type == HWLOC_OBJ_L3CACHE) {
        out.l3_bytes = bytes;
        core.l3 = static_cast<int>(up->logical_index);
        caches.insert(core.l3);
      }
    }
    out.cores.push_back(core);
  }
  if (out.cores.empty()) return Status::Internal("hwloc reports no core that we may use");
  std::stable_sort(out.cores.begin(), out.cores.end(), [](const Core& a, const Core& b) {
    return std::tie(a.node, a.l3) < std::tie(b.node, b.l3);
  });
  for (const Core& core : out.cores) {
    if (out.nodes.empty() || out.nodes.back() != core.node) out.nodes.push_back(core.node);
  }
  out.l3_count = static_cast<int>(caches.size());
  return out;
}

std::string Join(std::vector<int> cpus) {
  std::string out;
  for (size_t i = 0; i < cpus.size();) {
    size_t j = i;
    while (j + 1 < cpus.size() && cpus[j + 1] == cpus[j] + 1) ++j;
    out += out.empty() ? "" : ",";
    out += j == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[j]);
    i = j + 1;
  }
  return out;
}

// How many ranks each node gets when there are at least as many ranks as nodes: one each, then
// always the node whose ranks have most cores apiece (ties: the first).
std::vector<int> RanksPerNode(const std::vector<int>& cores_per_node, int ranks) {
  std::vector<int> out(cores_per_node.size(), 1);
  for (int left = ranks - static_cast<int>(out.size()); left > 0; --left) {
    size_t best = 0;
    for (size_t n = 1; n < out.size(); ++n) {
      if (int64_t{cores_per_node[n]} * (out[best] + 1) >
          int64_t{cores_per_node[best]} * (out[n] + 1)) {
        best = n;
      }
    }
    ++out[best];
  }
  return out;
}

}  // namespace

std::string Topology::Describe() const {
  const auto plural = [](size_t n) { return n == 1 ? "" : "s"; };
  std::string out = fmt::format("{} core{}, {} node{}", cores.size(), plural(cores.size()),
                                nodes.size(), plural(nodes.size()));
  if (l1d_bytes > 0) out += ", L1d " + FormatBytes(l1d_bytes);
  if (l2_bytes > 0) out += ", L2 " + FormatBytes(l2_bytes);
  if (l3_bytes > 0) out += fmt::format(", {} x L3 {}", l3_count, FormatBytes(l3_bytes));
  return out;
}

Result<Topology> DetectTopology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Status::Internal("hwloc cannot start");
  const HwlocTopology machine(raw);
  if (hwloc_topology_load(raw) != 0) return Status::Internal("hwloc cannot read this machine");
  // hwloc leaves out what the container forbids, but not what taskset does.
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return Read(raw, known ? &allowed : nullptr);
}

Result<Topology> SyntheticTopology(const std::string& description) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Status::Internal("hwloc cannot start");
  const HwlocTopology machine(raw);
  if (hwloc_topology_set_synthetic(raw, description.c_str()) != 0 ||
      hwloc_topology_load(raw) != 0) {
    return Status::Invalid("'{}' describes no machine", description);
  }
  return Read(raw, nullptr);
}

int CoreAssignment::workers() const {
  int out = 0;
  for (const RankCores& rank : ranks) out += static_cast<int>(rank.cpus.size());
  return out;
}

std::string CoreAssignment::Describe() const {
  std::string out;
  for (size_t r = 0; r < ranks.size(); ++r) {
    out += fmt::format("{}rank {}: node {}, CPUs {}", r == 0 ? "" : "; ", r, ranks[r].node,
                       Join(ranks[r].cpus));
  }
  return out + (oversubscribed ? " (shared)" : "");
}

Result<CoreAssignment> AssignCores(const Topology& topology, int ranks, int workers_per_rank) {
  if (ranks < 1 || ranks > kRanksMax) {
    return Status::Invalid("{} ranks: --tensor-parallel-size must be 1 to {}", ranks, kRanksMax);
  }
  if (workers_per_rank < 0 || int64_t{workers_per_rank} * ranks > kWorkersMax) {
    return Status::Invalid("{} workers for each of {} ranks: 0 to {} in all", workers_per_rank,
                           ranks, kWorkersMax);
  }
  // Per rank: its cores are [begin, end) of the topology's order, and who shares that group.
  struct Group {
    int begin, end, member, members;
  };
  std::vector<Group> groups;
  const int node_count = static_cast<int>(topology.nodes.size());
  std::vector<int> node_start(node_count + 1, 0);
  for (int n = 0; n < node_count; ++n) {
    node_start[n + 1] = node_start[n];
    while (node_start[n + 1] < static_cast<int>(topology.cores.size()) &&
           topology.cores[node_start[n + 1]].node == topology.nodes[n]) {
      ++node_start[n + 1];
    }
  }
  if (ranks >= node_count) {
    std::vector<int> sizes;
    for (int n = 0; n < node_count; ++n) sizes.push_back(node_start[n + 1] - node_start[n]);
    const std::vector<int> per_node = RanksPerNode(sizes, ranks);
    for (int n = 0; n < node_count; ++n) {
      for (int i = 0; i < per_node[n]; ++i) {
        groups.push_back({node_start[n], node_start[n + 1], i, per_node[n]});
      }
    }
  } else {
    for (int r = 0; r < ranks; ++r) {
      groups.push_back(
          {node_start[r * node_count / ranks], node_start[(r + 1) * node_count / ranks], 0, 1});
    }
  }

  CoreAssignment out;
  std::set<int> used;
  for (const Group& group : groups) {
    const int size = group.end - group.begin;
    int begin = group.begin + size * group.member / group.members;
    int end = group.begin + size * (group.member + 1) / group.members;
    if (begin == end) end = begin + 1;  // more ranks than cores
    RankCores rank{.node = topology.cores[begin].node};
    const int workers = workers_per_rank == 0 ? end - begin : workers_per_rank;
    for (int w = 0; w < workers; ++w) {
      const int cpu = topology.cores[begin + w % (end - begin)].cpu;
      if (!used.insert(cpu).second) out.oversubscribed = true;
      rank.cpus.push_back(cpu);
    }
    out.ranks.push_back(std::move(rank));
  }
  return out;
}

}  // namespace weft::device
