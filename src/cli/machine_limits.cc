#include "cli/machine_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "base/clock.h"
#include "comm/fabric.h"
#include "comm/roots.h"
#include "device/affinity.h"
#include "device/memory.h"
#include "device/team.h"
#include "device/topology.h"
#include "kernels/float_env.h"
#include "kernels/peak/peak.h"
#include "kernels/reduce/finish.h"

namespace weft::cli {
namespace {

using kernels::Peak;
using kernels::PeakKind;

std::string CpuName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

// Workers on their cores, and rounds that all of them start together.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> Create(const device::Topology& topology, int threads, double seconds) {
    auto bench = std::unique_ptr<Bench>(new Bench);
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
  // Seconds of work(worker) on all workers, from the first start to the last end, many times.
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

 private:
  Bench() = default;
  double seconds_ = 0;
  int threads_ = 1;
  std::unique_ptr<device::Team> team_;
  std::unique_ptr<device::Barrier> barrier_;
  device::ScopedAffinity affinity_;  // who measures again, or goes on to other work, needs its CPUs
};

Limit Rate(const std::string& name, int threads, double work, const std::vector<double>& seconds, const std::string& unit,
           std::string_view how) {
  return {name, threads, 0, work / seconds.front() / 1e9, work / seconds[seconds.size() / 2] / 1e9, unit, std::string(how)};
}

void MeasurePeaks(Bench& bench, MachineLimits* out) {
  for (const PeakKind kind : {PeakKind::kFloat32, PeakKind::kBf16, PeakKind::kInt8, PeakKind::kInt4}) {
    const Peak* peak = kernels::ChoosePeak(kind, kernels::DetectIsa());
    if (kind == PeakKind::kInt4 && peak->isa < kernels::ChoosePeak(PeakKind::kInt8, kernels::DetectIsa())->isa) continue;
    constexpr int64_t kRounds = 20'000;
    const auto seconds = bench.Rounds([&](int) { peak->run(nullptr, kRounds); });
    const double work = 2.0 * static_cast<double>(peak->products) * kRounds * bench.threads();
    const bool real = kind == PeakKind::kFloat32 || kind == PeakKind::kBf16;
    out->limits.push_back(Rate(std::string(NameOf(kind)), bench.threads(), work, seconds, real ? "GFLOP/s" : "GOP/s", peak->name));
  }
}

// Each worker reads its own part, first touched by it; a run is short and begins where the last one
// ended, so that in a large set nothing is found in a cache.
void MeasureRead(Bench& bench, std::byte* memory, int64_t bytes, MachineLimits* out) {
  const Peak* peak = kernels::ChoosePeak(PeakKind::kRead, kernels::DetectIsa());
  const int64_t part = bytes / bench.threads() / 256 * 256;
  const int64_t run = std::min<int64_t>(part, int64_t{8} << 20);
  const int64_t repeat = std::max<int64_t>(1, (int64_t{4} << 20) / run);
  struct alignas(128) At { int64_t value = 0; };
  std::vector<At> at(bench.threads());
  const auto seconds = bench.Rounds([&](int worker) {
    int64_t& from = at[worker].value;
    for (int64_t i = 0; i < repeat; ++i) {
      if (from + run > part) from = 0;
      peak->run(memory + worker * part + from, run);
      from += run;
    }
  });
  Limit limit = Rate("read", bench.threads(), static_cast<double>(run * repeat * bench.threads()), seconds, "GB/s", peak->name);
  limit.bytes = bytes;
  out->limits.push_back(limit);
}

void MeasureExchange(Bench& bench, MachineLimits* out) {
  constexpr int kCalls = 200;
  const int n = bench.threads();
  const auto per_call = [&](const std::string& name, int64_t bytes, const std::vector<double>& seconds, double scale,
                            const std::string& unit, const std::string& how) {
    out->limits.push_back({name, n, bytes, seconds.front() / kCalls * scale, seconds[seconds.size() / 2] / kCalls * scale, unit, how});
  };
  per_call("barrier", 0, bench.Rounds([&](int worker) {
    for (int i = 0; i < kCalls; ++i) (void)bench.barrier().Wait(worker);
  }), 1e9, "ns", "flags in shared lines");

  comm::ThreadFabric::Options options;
  options.workers.assign(n, 1);
  auto fabric = comm::ThreadFabric::Create(options);
  std::vector<int> all(n);
  for (int r = 0; r < n; ++r) all[r] = r;
  const int group = (*fabric)->AddGroup(all).value();
  const comm::RootLayout layout = comm::MakeRootLayout(LeafTable::Make(16, 1), n);
  // One row of fp32 partials a rank, written anew each time, two sets in turn as in a plan.
  for (const int64_t cols : {512, 2048, 16384}) {
    struct Set {
      std::vector<std::vector<float>> roots;
      std::vector<std::vector<uint16_t>> y;
      std::vector<float*> root_pointers;
      std::vector<View> views;
    } sets[2];
    const std::vector<int64_t> strides(layout.count(), cols);
    for (Set& set : sets) {
      set.roots.resize(n);
      for (int r = 0; r < n; ++r) {
        set.roots[r].assign(cols * std::max(layout.CountOf(r), 1), 1.0f);
        for (int i = 0; i < layout.CountOf(r); ++i) set.root_pointers.push_back(set.roots[r].data() + i * cols);
        set.y.emplace_back(cols, uint16_t{0});
        set.views.push_back({set.y.back().data(), 1, cols, cols, DType::kBF16});
      }
    }
    struct alignas(128) Turn { int64_t value = 0; };
    for (const auto* method : comm::AllReduceMethods()) {
      std::vector<Turn> turns(n);
      const auto reduce = [&](int rank) {
        Set& set = sets[turns[rank].value++ % 2];
        for (float& x : set.roots[rank]) x = static_cast<float>(turns[rank].value & 15);
        comm::ReduceArgs args{.rank = rank, .ranks = n, .rows = 1, .cols = cols, .root_count = layout.count(),
                              .root_ranks = layout.root_ranks.data(), .merges = layout.merges.data(),
                              .roots = set.root_pointers.data(), .strides = strides.data(), .y = set.views.data()};
        args.finish = kernels::Choose(kernels::FinishKernels(), kernels::FinishArgs{.strides = strides.data(), .count = layout.count(),
                                      .merges = layout.merges.data(), .y = set.views[rank]}, kernels::DetectIsa());
        (void)comm::RunCollective(**fabric, {group, rank, 0}, *method, args, {});
      };
      per_call("all_reduce", cols * 4, bench.Rounds([&](int worker) {
        for (int i = 0; i < kCalls; ++i) reduce(worker);
      }), 1e6, "us", std::string(method->name));
    }
  }
}

}  // namespace

const Limit* MachineLimits::Find(const std::string& name, int threads) const {
  const Limit* best = nullptr;
  for (const Limit& limit : limits) {
    if (limit.name != name || limit.threads > threads) continue;
    if (best == nullptr || limit.threads > best->threads || (limit.threads == best->threads && limit.bytes > best->bytes)) best = &limit;
  }
  return best;
}

const Limit* MachineLimits::Memory(int threads) const { return Find("read", threads); }

Result<MachineLimits> MeasureMachine(const MachineOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const device::Topology topology, device::DetectTopology());
  kernels::ScopedFlushDenormals flush;
  MachineLimits out;
  out.cpu = CpuName();
  out.topology = topology.Describe();
  out.isa = std::string(kernels::NameOf(kernels::DetectIsa()));
  out.cores = static_cast<int>(topology.cores.size());
  std::vector<int> threads = options.threads;
  if (threads.empty()) {
    for (int n = 1; n < out.cores; n *= 2) threads.push_back(n);
    threads.push_back(out.cores);
  }
  WEFT_ASSIGN_OR_RETURN(device::Memory memory, device::Memory::Allocate(options.bytes + (1 << 16), device::kAnyNode, "machine"));
  for (const int n : threads) {
    if (n < 1 || n > out.cores) return Status::Invalid("--threads {}: this machine has {} cores", n, out.cores);
    WEFT_ASSIGN_OR_RETURN(auto bench, Bench::Create(topology, n, options.seconds));
    MeasurePeaks(*bench, &out);
    std::vector<int64_t> sets;
    if (options.caches) {
      if (topology.l1d_bytes > 0) sets.push_back(topology.l1d_bytes / 2 * n);
      if (topology.l2_bytes > 0) sets.push_back(topology.l2_bytes / 2 * n);
      if (topology.l3_bytes > 0) sets.push_back(std::max(topology.l3_bytes / 4, topology.l2_bytes * 2 * n));
    }
    sets.push_back(options.bytes);
    for (const int64_t bytes : sets) {
      if (bytes > options.bytes) continue;
      const int64_t part = bytes / n / 256 * 256;
      auto touch = [&](int worker) {
        std::byte* begin = memory.data() + worker * part;
        for (int64_t i = 0; i < part; i += 64) begin[i] = std::byte{1};
      };
      bench->team().RunEach(touch);
      MeasureRead(*bench, memory.data(), bytes, &out);
    }
    if (n > 1 && options.exchange) MeasureExchange(*bench, &out);
  }
  return out;
}

Json ToJson(const MachineLimits& limits) {
  Json machine;
  machine.Set("cpu", limits.cpu);
  machine.Set("topology", limits.topology);
  machine.Set("isa", limits.isa);
  machine.Set("cores", limits.cores);
  Json list{Json::Array{}};
  for (const Limit& l : limits.limits) {
    Json one;
    one.Set("name", l.name);
    one.Set("value", l.value);
    one.Set("unit", l.unit);
    one.Set("median", l.median);
    Json scope;
    scope.Set("threads", l.threads);
    if (l.bytes > 0) scope.Set("bytes", l.bytes);
    one.Set("scope", std::move(scope));
    one.Set("how", l.how);
    one.Set("source", "weft bench machine");
    one.Set("confidence", "measured");
    list.Push(std::move(one));
  }
  Json out;
  out.Set("schema", "weft-machine-1");
  out.Set("machine", std::move(machine));
  out.Set("limits", std::move(list));
  return out;
}

Result<MachineLimits> ReadProfile(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Status::Invalid("--profile {}: cannot be read", path);
  std::stringstream text;
  text << in.rdbuf();
  WEFT_ASSIGN_OR_RETURN(const Json json, ParseJson(text.str()));
  const auto member = [](const Json* object, std::string_view key) { return object == nullptr || !object->is_object() ? nullptr : object->Find(key); };
  const auto string_of = [](const Json* j) { return j != nullptr && j->is_string() ? j->as_string() : std::string(); };
  const auto number_of = [](const Json* j) { return j != nullptr && j->is_number() ? j->as_double() : 0.0; };
  if (string_of(member(&json, "schema")) != "weft-machine-1") return Status::Invalid("--profile {}: schema \"weft-machine-1\" expected", path);
  MachineLimits out;
  const Json* machine = member(&json, "machine");
  out.cpu = string_of(member(machine, "cpu"));
  out.topology = string_of(member(machine, "topology"));
  out.isa = string_of(member(machine, "isa"));
  out.cores = static_cast<int>(number_of(member(machine, "cores")));
  const Json* list = member(&json, "limits");
  if (list == nullptr || !list->is_array()) return Status::Invalid("--profile {}: no list \"limits\"", path);
  for (const Json& one : list->as_array()) {
    const Json* scope = member(&one, "scope");
    out.limits.push_back({string_of(member(&one, "name")), static_cast<int>(number_of(member(scope, "threads"))),
                          static_cast<int64_t>(number_of(member(scope, "bytes"))), number_of(member(&one, "value")),
                          number_of(member(&one, "median")), string_of(member(&one, "unit")), string_of(member(&one, "how"))});
    if (!(out.limits.back().value > 0)) return Status::Invalid("--profile {}: limit \"{}\" has no positive value", path, out.limits.back().name);
  }
  return out;
}

}  // namespace weft::cli
