// The fused chain against its steps: product, exchange, residual add and norm on two ranks of one worker, by
// turns in one run, with weights that are not in cache (as many layers as a model has, one after the other).
// Printed as microseconds of the fused chain, of its steps, their ratio, and the time from the last tile to
// the norm; each the best of short rounds, since virtual CPUs move: compare figures of one run only.
// Run: fused_bench [rounds]
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "device/team.h"
#include "device/topology.h"
#include "fused/fused_case.h"

namespace {

using namespace weft;  // NOLINT(google-build-using-namespace): one program

constexpr int kRanks = 2;

struct Chain {
  const char* name;
  DType weight;
  int64_t n;
  LeafTable leaves;
  int layers;
};

double At(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

class Bench {
 public:
  Bench(device::Team& team, int rounds) : team_(team), rounds_(rounds) {}

  void Norm(const Chain& chain, int64_t rows, const char* method) {
    std::vector<std::unique_ptr<fused::FusedCase>> layers;
    for (int l = 0; l < chain.layers; ++l) {
      layers.push_back(std::make_unique<fused::FusedCase>(fused::FusedShape{
          .rows = rows, .n = chain.n, .leaves = chain.leaves, .weight = chain.weight, .bias = false, .method = method}));
    }
    std::vector<double> last_tile;
    const auto fused = [&](int rank) {
      double ns = 0;
      for (const auto& layer : layers) {
        fused::FusedWork work;
        fused::TileTimes times;
        Must(RunMatmulAllReduceNorm(layer->NormStep(rank, 0), flags_, {}, &work, &times));
        ns += static_cast<double>(SteadyNowNs() - times.seen_ns);
      }
      if (rank == 0) last_tile.push_back(ns / chain.layers);
    };
    const auto steps = [&](int rank) {
      for (const auto& layer : layers) layer->RunNormChain(rank, 0, [&] { Must(barrier_.Wait(rank)); });
    };
    Report(chain, rows, method, fused, steps, &last_tile);
  }

  void Scatter(const Chain& chain, int64_t rows) {
    std::vector<std::unique_ptr<fused::FusedCase>> layers;
    for (int l = 0; l < std::max(1, chain.layers / 8); ++l) {
      layers.push_back(std::make_unique<fused::FusedCase>(
          fused::FusedShape{.rows = rows, .n = chain.n, .leaves = chain.leaves, .weight = chain.weight, .bias = false}));
    }
    const auto fused = [&](int rank) {
      for (const auto& layer : layers) {
        fused::FusedWork work;
        Must(RunMatmulReduceScatter(layer->ScatterStep(rank, 0), flags_, {}, &work, nullptr));
        Must(barrier_.Wait(rank));  // somebody gathers next
      }
    };
    const auto steps = [&](int rank) {
      for (const auto& layer : layers) {
        layer->RunScatterChain(rank, 0, [&] { Must(barrier_.Wait(rank)); });
        Must(barrier_.Wait(rank));
      }
    };
    Report({chain.name, chain.weight, chain.n, chain.leaves, static_cast<int>(layers.size())}, rows, "scatter", fused, steps, nullptr);
  }

 private:
  static void Must(const Status& status) {
    if (status.ok()) return;
    fmt::print(stderr, "{}\n", status.message());
    std::exit(1);
  }

  // ns a layer of one walk over all layers.
  template <typename Walk>
  double Time(const Walk& walk, int layers) {
    int64_t ns = 0;
    auto job = [&](int rank) {
      Must(barrier_.Wait(rank));
      const int64_t start = SteadyNowNs();
      walk(rank);
      Must(barrier_.Wait(rank));
      if (rank == 0) ns = SteadyNowNs() - start;
    };
    team_.RunEach(job);
    return static_cast<double>(ns) / layers;
  }

  template <typename Fused, typename Steps>
  void Report(const Chain& chain, int64_t rows, const char* method, const Fused& fused, const Steps& steps, std::vector<double>* last_tile) {
    std::vector<double> a, b;
    for (int i = 0; i < rounds_; ++i) {
      a.push_back(Time(fused, chain.layers));
      b.push_back(Time(steps, chain.layers));
    }
    fmt::print("{:<22} {:>5} {:<8} fused {:9.2f} us  steps {:9.2f} us  ratio {:.3f}  (quarter: {:.3f})", chain.name, rows, method,
               At(a, 0) / 1e3, At(b, 0) / 1e3, At(a, 0) / At(b, 0), At(a, 0.25) / At(b, 0.25));
    if (last_tile != nullptr) fmt::print("  from the last tile {:.2f} us, median {:.2f}", At(*last_tile, 0) / 1e3, At(*last_tile, 0.5) / 1e3);
    fmt::print("\n");
    std::fflush(stdout);
  }

  device::Team& team_;
  int rounds_;
  device::Barrier barrier_{kRanks, {}};
  fused::TileFlags flags_{{.workers = std::vector<int>(kRanks, 1)}};
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
  const bool scatter = argc > 2;
  device::Team::Options options{.workers = kRanks};
  Result<device::Topology> topology = device::DetectTopology();
  if (topology.ok()) {
    Result<device::CoreAssignment> cores = device::AssignCores(*topology, kRanks, 1);
    if (cores.ok() && !cores->oversubscribed) options.cpus = {cores->ranks[0].cpus[0], cores->ranks[1].cpus[0]};
  }
  Result<std::unique_ptr<device::Team>> team = device::Team::Create(options);
  if (!team.ok() || !(*team)->PinCaller().ok()) return 1;
  Bench bench(**team, rounds);
  const std::vector<Chain> chains{{"SmolLM2 o_proj Q4_1", DType::kQ4_1, 576, LeafTable::Make(576, 64), 30},
                                  {"SmolLM2 down_proj Q4_1", DType::kQ4_1, 576, LeafTable::Make(1536, 32), 30},
                                  {"0.6B o_proj bf16", DType::kBF16, 1024, LeafTable::Make(2048, 128), 28},
                                  {"0.6B down_proj bf16", DType::kBF16, 1024, LeafTable::Make(3072, 32), 28}};
  for (const Chain& chain : chains) {
    if (scatter) {
      for (const int64_t rows : {128, 256, 512, 1024}) bench.Scatter(chain, rows);
      continue;
    }
    for (const int64_t rows : {1, 2, 4, 8, 16, 24, 32, 40, 64}) {
      for (const char* method : {"direct", "two_shot"}) bench.Norm(chain, rows, method);
    }
  }
  return 0;
}
