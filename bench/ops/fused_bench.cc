// The fused chain against its steps: product, exchange, residual add and norm on two ranks of one
// worker, by turns in one run, with weights that are not in cache (as many layers as a model has,
// one after the other). Printed as microseconds of the fused chain, of its steps, their ratio, and
// the time from the last tile to the norm; each the best of short rounds, since virtual CPUs move:
// compare figures of one run only. Run: fused_bench [rounds [scatter]]
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
      layers.push_back(std::make_unique<fused::FusedCase>(fused::FusedShape{.rows = rows,
                                                                            .n = chain.n,
                                                                            .leaves = chain.leaves,
                                                                            .weight = chain.weight,
                                                                            .bias = false,
                                                                            .method = method}));
    }
    const auto fused = [&](int rank, int l) {
      fused::FusedWork work;
      Must(RunMatmulAllReduceNorm(layers[l]->NormStep(rank, 0), flags_, {}, &work, nullptr));
    };
    const auto steps = [&](int rank, int l) {
      layers[l]->RunNormChain(rank, 0, [&] { Must(barrier_.Wait(rank)); });
    };
    Compare(chain, rows, method, fused, steps);
    // Looking at the clock has its own price, so the tiles are timed by themselves.
    std::vector<double> last_tile;
    for (int i = 0; i < rounds_; ++i) {
      Time(chain.layers, [&](int rank, int l) {
        fused::FusedWork work;
        fused::TileTimes times;
        Must(RunMatmulAllReduceNorm(layers[l]->NormStep(rank, 0), flags_, {}, &work, &times));
        if (rank == 0) last_tile.push_back(static_cast<double>(SteadyNowNs() - times.seen_ns));
      });
    }
    fmt::print("  from the last tile {:.2f} us, quarter {:.2f}, median {:.2f}\n",
               At(last_tile, 0) / 1e3, At(last_tile, 0.25) / 1e3, At(last_tile, 0.5) / 1e3);
  }

  void Scatter(const Chain& chain, int64_t rows) {
    std::vector<std::unique_ptr<fused::FusedCase>> layers;
    for (int l = 0; l < std::max(1, chain.layers / 8); ++l) {
      layers.push_back(std::make_unique<fused::FusedCase>(fused::FusedShape{.rows = rows,
                                                                            .n = chain.n,
                                                                            .leaves = chain.leaves,
                                                                            .weight = chain.weight,
                                                                            .bias = false}));
    }
    const auto fused = [&](int rank, int l) {
      fused::FusedWork work;
      Must(RunMatmulReduceScatter(layers[l]->ScatterStep(rank, 0), flags_, {}, &work, nullptr));
      Must(barrier_.Wait(rank));  // somebody gathers next
    };
    const auto steps = [&](int rank, int l) {
      layers[l]->RunScatterChain(rank, 0, [&] { Must(barrier_.Wait(rank)); });
      Must(barrier_.Wait(rank));
    };
    Compare({chain.name, chain.weight, chain.n, chain.leaves, static_cast<int>(layers.size())},
            rows, "scatter", fused, steps);
    fmt::print("\n");
  }

 private:
  static void Must(const Status& status) {
    if (status.ok()) return;
    fmt::print(stderr, "{}\n", status.message());
    std::exit(1);
  }

  // ns a layer of a few layers, other ones each time: short, so that the best is one without a
  // preemption.
  template <typename Walk>
  double Time(int layers, const Walk& walk) {
    int64_t ns = 0;
    const int first = next_, count = std::min(kLayersARound, layers);
    next_ = (next_ + count) % layers;
    auto job = [&](int rank) {
      Must(barrier_.Wait(rank));
      const int64_t start = SteadyNowNs();
      for (int i = 0; i < count; ++i) walk(rank, (first + i) % layers);
      Must(barrier_.Wait(rank));
      if (rank == 0) ns = SteadyNowNs() - start;
    };
    team_.RunEach(job);
    return static_cast<double>(ns) / count;
  }

  template <typename Fused, typename Steps>
  void Compare(const Chain& chain, int64_t rows, const char* method, const Fused& fused,
               const Steps& steps) {
    std::vector<double> a, b;
    next_ = 0;
    for (int i = 0; i < rounds_; ++i) {
      a.push_back(Time(chain.layers, fused));
      b.push_back(Time(chain.layers, steps));
    }
    fmt::print(
        "{:<22} {:>5} {:<8} fused {:9.2f} us  steps {:9.2f} us  ratio {:.3f}, tenth {:.3f}, "
        "quarter {:.3f}",
        chain.name, rows, method, At(a, 0) / 1e3, At(b, 0) / 1e3, At(a, 0) / At(b, 0),
        At(a, 0.1) / At(b, 0.1), At(a, 0.25) / At(b, 0.25));
    std::fflush(stdout);
  }

  static constexpr int kLayersARound = 4;

  device::Team& team_;
  int rounds_;
  int next_ = 0;  // layer
  device::Barrier barrier_{kRanks, {}};
  fused::TileFlags flags_{{.workers = std::vector<int>(kRanks, 1)}};
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  const bool scatter = argc > 2;
  device::Team::Options options{.workers = kRanks};
  Result<device::Topology> topology = device::DetectTopology();
  if (topology.ok()) {
    Result<device::CoreAssignment> cores = device::AssignCores(*topology, kRanks, 1);
    if (cores.ok() && !cores->oversubscribed)
      options.cpus = {cores->ranks[0].cpus[0], cores->ranks[1].cpus[0]};
  }
  Result<std::unique_ptr<device::Team>> team = device::Team::Create(options);
  if (!team.ok() || !(*team)->PinCaller().ok()) return 1;
  Bench bench(**team, rounds);
  const std::vector<Chain> chains{
      {"SmolLM2 o_proj Q4_1", DType::kQ4_1, 576, LeafTable::Make(576, 64), 30},
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
