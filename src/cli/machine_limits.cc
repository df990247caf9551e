#include "cli/machine_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>

#include "base/bf16.h"
#include "cli/exchange_limits.h"
#include "cli/machine_bench.h"
#include "device/memory.h"
#include "kernels/float_env.h"
#include "kernels/peak/peak.h"
#include "kernels/rms_norm/rms_norm.h"
#include "tensor/leaf_table.h"

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

Limit Rate(const std::string& name, int threads, double work, const std::vector<double>& seconds,
           const std::string& unit, std::string_view how) {
  return {name,
          threads,
          0,
          work / seconds.front() / 1e9,
          work / seconds[seconds.size() / 2] / 1e9,
          unit,
          std::string(how)};
}

void MeasurePeaks(MachineBench& bench, MachineLimits* out) {
  for (const PeakKind kind :
       {PeakKind::kFloat32, PeakKind::kBf16, PeakKind::kInt8, PeakKind::kInt4}) {
    const Peak* peak = kernels::ChoosePeak(kind, kernels::DetectIsa());
    if (kind == PeakKind::kInt4 &&
        peak->isa < kernels::ChoosePeak(PeakKind::kInt8, kernels::DetectIsa())->isa)
      continue;
    constexpr int64_t kRounds = 20'000;
    const auto seconds = bench.Rounds([&](int) { peak->run(nullptr, kRounds); });
    const double work = 2.0 * static_cast<double>(peak->products) * kRounds * bench.threads();
    const bool real = kind == PeakKind::kFloat32 || kind == PeakKind::kBf16;
    out->limits.push_back(Rate(std::string(NameOf(kind)), bench.threads(), work, seconds,
                               real ? "GFLOP/s" : "GOP/s", peak->name));
  }
}

// Each worker reads its own part, first touched by it; a run is short and begins where the last one
// ended, so that in a large set nothing is found in a cache.
void MeasureRead(MachineBench& bench, std::byte* memory, int64_t bytes, MachineLimits* out) {
  const Peak* peak = kernels::ChoosePeak(PeakKind::kRead, kernels::DetectIsa());
  const int64_t part = bytes / bench.threads() / 256 * 256;
  const int64_t run = std::min<int64_t>(part, int64_t{8} << 20);
  const int64_t repeat = std::max<int64_t>(1, (int64_t{4} << 20) / run);
  struct alignas(128) At {
    int64_t value = 0;
  };
  std::vector<At> at(bench.threads());
  const auto seconds = bench.Rounds([&](int worker) {
    int64_t& from = at[worker].value;
    for (int64_t i = 0; i < repeat; ++i) {
      if (from + run > part) from = 0;
      peak->run(memory + worker * part + from, run);
      from += run;
    }
  });
  Limit limit = Rate("read", bench.threads(), static_cast<double>(run * repeat * bench.threads()),
                     seconds, "GB/s", peak->name);
  limit.bytes = bytes;
  out->limits.push_back(limit);
}

// From one half of a worker's part to the other; bytes read and bytes written count one each.
void MeasureCopy(MachineBench& bench, std::byte* memory, int64_t bytes, MachineLimits* out) {
  const int64_t part = bytes / bench.threads() / 256 * 256, half = part / 2;
  const int64_t run = std::min<int64_t>(half, int64_t{4} << 20);
  struct alignas(128) At {
    int64_t value = 0;
  };
  std::vector<At> at(bench.threads());
  const auto seconds = bench.Rounds([&](int worker) {
    int64_t& from = at[worker].value;
    if (from + run > half) from = 0;
    std::byte* begin = memory + worker * part + from;
    std::memcpy(begin + half, begin, static_cast<size_t>(run));
    from += run;
  });
  Limit limit = Rate("copy", bench.threads(), static_cast<double>(2 * run * bench.threads()),
                     seconds, "GB/s", "memcpy");
  limit.bytes = bytes;
  out->limits.push_back(limit);
}

void MeasureBarrier(MachineBench& bench, MachineLimits* out) {
  constexpr int kCalls = 200;
  const auto seconds = bench.Rounds([&](int worker) {
    for (int i = 0; i < kCalls; ++i) (void)bench.barrier().Wait(worker);
  });
  out->limits.push_back({"barrier", bench.threads(), 0, seconds.front() / kCalls * 1e9,
                         seconds[seconds.size() / 2] / kCalls * 1e9, "ns",
                         "flags in shared lines"});
}

// Rows that are read and written once: the residual add and norm, which a schedule shares out over
// ranks or not. 512 rows of 1,024 for each worker, more than its L2 holds of x, residual and
// result.
void MeasureWalk(MachineBench& bench, MachineLimits* out) {
  constexpr int64_t kRows = 512, kWidth = 1024;
  const LeafTable leaves = LeafTable::Make(kWidth, 32);
  const std::vector<int64_t> begins(leaves.starts().begin(), leaves.starts().end());
  const std::vector<float> gain(kWidth, 1.0f);
  const kernels::Kernel<kernels::RmsNormArgs>* kernel = nullptr;
  kernels::RmsNormArgs args;
  args.x = args.residual = args.y = View{nullptr, kRows, kWidth, kWidth, DType::kBF16};
  args.gain = gain.data();
  args.eps = 1e-5f;
  args.width = kWidth;
  args.leaf_begin = begins.data();
  args.leaves = leaves.count();
  for (const auto* k : kernels::RmsNormKernels()) {
    if (kernel == nullptr && k->isa <= kernels::DetectIsa() &&
        (k->refuse == nullptr || k->refuse(args).empty()))
      kernel = k;
  }
  if (kernel == nullptr) return;
  std::vector<std::vector<Bf16>> rows(static_cast<size_t>(bench.threads()) * 3,
                                      std::vector<Bf16>(kRows * kWidth));
  const auto seconds = bench.Rounds([&](int worker) {
    kernels::RmsNormArgs mine = args;
    mine.x.data = rows[worker * 3].data();
    mine.residual.data = rows[worker * 3 + 1].data();
    mine.y.data = rows[worker * 3 + 2].data();
    kernel->run(mine, {0, kernel->units(mine)}, nullptr);
  });
  // Two rows read, two written.
  const double kib = 4.0 * kRows * kWidth * 2 / 1024;
  out->limits.push_back({"walk", bench.threads(), 0, seconds.front() / kib * 1e9,
                         seconds[seconds.size() / 2] / kib * 1e9, "ns/KiB",
                         fmt::format("add_rms_norm {}", kernel->name)});
}

}  // namespace

const Limit* MachineLimits::Find(const std::string& name, int threads) const {
  const Limit* best = nullptr;
  for (const Limit& limit : limits) {
    if (limit.name != name || limit.threads > threads) continue;
    if (best == nullptr || limit.threads > best->threads ||
        (limit.threads == best->threads && limit.bytes > best->bytes))
      best = &limit;
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
  WEFT_ASSIGN_OR_RETURN(
      device::Memory memory,
      device::Memory::Allocate(options.bytes + (1 << 16), device::kAnyNode, "machine"));
  for (const int n : threads) {
    if (n < 1 || n > out.cores)
      return Status::Invalid("--threads {}: this machine has {} cores", n, out.cores);
    WEFT_ASSIGN_OR_RETURN(auto bench, MachineBench::Create(topology, n, options.seconds));
    MeasurePeaks(*bench, &out);
    std::vector<int64_t> sets;
    if (options.caches) {
      if (topology.l1d_bytes > 0) sets.push_back(topology.l1d_bytes / 2 * n);
      if (topology.l2_bytes > 0) sets.push_back(topology.l2_bytes / 2 * n);
      if (topology.l3_bytes > 0)
        sets.push_back(std::max(topology.l3_bytes / 4, topology.l2_bytes * 2 * n));
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
    MeasureCopy(*bench, memory.data(), options.bytes, &out);
    MeasureWalk(*bench, &out);
    if (n < 2 || !options.exchange) continue;
    MeasureBarrier(*bench, &out);
    for (Limit& limit : MeasureExchanges(*bench)) out.limits.push_back(std::move(limit));
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
  auto parsed = ParseJson(text.str());
  if (!parsed.ok()) return parsed.status().In(fmt::format("--profile {}", path));
  const Json& json = *parsed;
  const auto member = [](const Json* object, std::string_view key) {
    return object == nullptr || !object->is_object() ? nullptr : object->Find(key);
  };
  const auto string_of = [](const Json* j) {
    return j != nullptr && j->is_string() ? j->as_string() : std::string();
  };
  const auto number_of = [](const Json* j) {
    return j != nullptr && j->is_number() ? j->as_double() : 0.0;
  };
  if (string_of(member(&json, "schema")) != "weft-machine-1")
    return Status::Invalid("--profile {}: schema \"weft-machine-1\" expected", path);
  MachineLimits out;
  const Json* machine = member(&json, "machine");
  out.cpu = string_of(member(machine, "cpu"));
  out.topology = string_of(member(machine, "topology"));
  out.isa = string_of(member(machine, "isa"));
  out.cores = static_cast<int>(number_of(member(machine, "cores")));
  const Json* list = member(&json, "limits");
  if (list == nullptr || !list->is_array())
    return Status::Invalid("--profile {}: no list \"limits\"", path);
  for (const Json& one : list->as_array()) {
    const Json* scope = member(&one, "scope");
    out.limits.push_back({string_of(member(&one, "name")),
                          static_cast<int>(number_of(member(scope, "threads"))),
                          static_cast<int64_t>(number_of(member(scope, "bytes"))),
                          number_of(member(&one, "value")), number_of(member(&one, "median")),
                          string_of(member(&one, "unit")), string_of(member(&one, "how"))});
    Limit& limit = out.limits.back();
    if (!(limit.median > 0)) limit.median = limit.value;  // documented figures have no other
    if (!(limit.value > 0))
      return Status::Invalid("--profile {}: limit \"{}\" has no positive value", path, limit.name);
  }
  return out;
}

Result<plan::CostTable> CostTableOf(const MachineLimits& limits) {
  constexpr std::string_view kPhase = "_phase", kKib = "_kib";
  plan::CostTable table;
  const auto entry = [&](std::string_view collective, const Limit& limit) -> plan::ExchangeCost& {
    for (plan::ExchangeCost& e : table.exchanges) {
      if (e.collective == collective && e.method == limit.how && e.ranks == limit.threads) return e;
    }
    return table.exchanges.emplace_back(
        plan::ExchangeCost{std::string(collective), limit.how, limit.threads, 0, 0});
  };
  for (const Limit& limit : limits.limits) {
    const std::string_view name = limit.name;
    if (name == "barrier") table.meetings.push_back({limit.threads, limit.median});
    if (name.ends_with(kPhase))
      entry(name.substr(0, name.size() - kPhase.size()), limit).phase_ns = limit.median;
    if (name.ends_with(kKib))
      entry(name.substr(0, name.size() - kKib.size()), limit).kib_ns = limit.median;
  }
  // What packed kernels reach of the peaks (docs/measured): it is alike in all schedules, and only
  // weighs products against exchanges.
  constexpr double kBf16Reached = 0.7, kInt8Reached = 0.5;
  const auto mac_ns = [&](const char* name) {
    const Limit* limit = limits.Find(name, 1);
    return limit == nullptr ? 0 : 2 / limit->median;
  };
  if (const Limit* read = limits.Memory(std::numeric_limits<int>::max()))
    table.weight_kib_ns = 1024 / read->median;
  if (const Limit* walk = limits.Find("walk", 1)) table.walk_kib_ns = walk->median;
  const double bf16 = mac_ns("bf16"), fp32 = mac_ns("fp32");
  table.bf16_mac_ns =
      (bf16 > 0 && fp32 > 0 ? std::min(bf16, fp32) : std::max(bf16, fp32)) / kBf16Reached;
  table.int8_mac_ns = mac_ns("int8") / kInt8Reached;
  for (const plan::ExchangeCost& e : table.exchanges) {
    if (e.phase_ns > 0 && e.kib_ns > 0) continue;
    return Status::Invalid("limit \"{}{}\" of {} for {} threads is missing", e.collective,
                           e.phase_ns > 0 ? kKib : kPhase, e.method, e.ranks);
  }
  return table;
}

}  // namespace weft::cli
