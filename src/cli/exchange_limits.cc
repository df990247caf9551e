#include "cli/exchange_limits.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "comm/fabric.h"
#include "comm/mesh.h"
#include "comm/parts.h"
#include "comm/roots.h"
#include "kernels/reduce/finish.h"

namespace weft::cli {
namespace {

constexpr int kSets = 2;       // exchanged in turn, so that nobody writes what a peer still reads
constexpr int kAlone = kSets;  // the set that is written and never read by a peer
constexpr int kCalls = 24, kWarm = 4;  // of a method at a time, before the next one has its turn

struct Shape {
  int64_t rows, cols;
};
// 1 KiB to 1 MiB of fp32 partials a rank.
constexpr Shape kShapes[] = {{2, 128}, {2, 512}, {4, 1024}, {16, 1024}, {64, 1024}, {256, 1024}};

// One method at one shape.
struct Case {
  std::string collective, method;
  int64_t bytes = 0;  // of the busiest rank
  int phases = 1;
  std::function<void(int rank, int set)> write;  // what its peers will read
  std::function<void(int rank, int set)> exchange;
  std::vector<double> ns, alone_ns;  // written and exchanged; written alone
};

// Everything that the ranks exchange in one shape, in kSets + 1 sets.
class Buffers {
 public:
  Buffers(Shape shape, int ranks)
      : rows_(std::max<int64_t>(shape.rows, ranks)),
        cols_(shape.cols),
        ranks_(ranks),
        layout_(comm::MakeRootLayout(LeafTable::Make(16, 1), ranks)),
        strides_(layout_.count(), cols_) {
    for (Set& set : sets_) {
      set.roots.resize(ranks);
      for (int r = 0; r < ranks; ++r) {
        set.roots[r].resize(rows_ * cols_ * std::max(layout_.CountOf(r), 1));
        for (int i = 0; i < layout_.CountOf(r); ++i)
          set.root_pointers.push_back(set.roots[r].data() + i * rows_ * cols_);
        set.y.emplace_back(rows_ * cols_);
        set.whole.emplace_back(rows_ * cols_);
        set.shard.emplace_back(rows_ * (Cols(r + 1) - Cols(r)));
        set.pairs.emplace_back(rows_);
        set.best.emplace_back(rows_);
      }
      for (int r = 0; r < ranks; ++r) {
        set.y_views.push_back({set.y[r].data(), rows_, cols_, cols_, DType::kBF16});
        set.shard_views.push_back({set.shard[r].data(), rows_, Cols(r + 1) - Cols(r),
                                   Cols(r + 1) - Cols(r), DType::kBF16});
        set.pair_pointers.push_back(set.pairs[r].data());
      }
    }
  }

  comm::ReduceArgs Reduce(int rank, int set) const {
    const Set& s = sets_[set];
    comm::ReduceArgs args{.rank = rank,
                          .ranks = ranks_,
                          .rows = rows_,
                          .cols = cols_,
                          .root_count = layout_.count(),
                          .root_ranks = layout_.root_ranks.data(),
                          .merges = layout_.merges.data(),
                          .roots = s.root_pointers.data(),
                          .strides = strides_.data(),
                          .y = s.y_views.data()};
    args.finish = kernels::Choose(kernels::FinishKernels(),
                                  kernels::FinishArgs{.strides = strides_.data(),
                                                      .count = layout_.count(),
                                                      .merges = layout_.merges.data(),
                                                      .y = s.y_views[rank]},
                                  kernels::DetectIsa());
    return args;
  }
  // `parts` is filled and has room for one of each rank.
  comm::MoveArgs Gather(int rank, int set, std::span<comm::Part> parts) {
    Set& s = sets_[set];
    const View whole{s.whole[rank].data(), rows_, cols_, cols_, DType::kBF16};
    return {.rank = rank,
            .parts = parts.data(),
            .count = comm::GatherCols(s.shard_views, whole, parts)};
  }
  comm::MoveArgs Exchange(int rank, int set, std::span<comm::Part> parts) {
    Set& s = sets_[set];
    const comm::RowChunk rows{comm::OwnedBegin(rows_, rank, ranks_),
                              comm::OwnedBegin(rows_, rank + 1, ranks_)};
    const View mine{s.whole[rank].data(), rows.end - rows.begin, cols_, cols_, DType::kBF16};
    return {.rank = rank,
            .parts = parts.data(),
            .count = comm::ExchangeChunks(s.shard_views, {&rows, 1}, mine, parts)};
  }
  comm::PairMaxArgs Pairs(int rank, int set) {
    Set& s = sets_[set];
    return {.rank = rank,
            .ranks = ranks_,
            .rows = rows_,
            .peers = s.pair_pointers.data(),
            .out = s.best[rank].data()};
  }

  void WriteRoots(int rank, int set) {
    for (float& x : sets_[set].roots[rank]) x = Next(rank);
  }
  void WriteShard(int rank, int set) {
    for (uint16_t& x : sets_[set].shard[rank]) x = static_cast<uint16_t>(Next(rank));
  }
  void WritePairs(int rank, int set) {
    for (kernels::ValueIndex& x : sets_[set].pairs[rank]) x = {Next(rank), rank, 0};
  }

 private:
  struct Set {
    std::vector<std::vector<float>> roots;
    std::vector<std::vector<uint16_t>> y, whole, shard;
    std::vector<std::vector<kernels::ValueIndex>> pairs, best;
    std::vector<float*> root_pointers;
    std::vector<View> y_views, shard_views;
    std::vector<const kernels::ValueIndex*> pair_pointers;
  };
  int64_t Cols(int rank) const { return comm::OwnedBegin(cols_, rank, ranks_); }
  static float Next(int rank) { return static_cast<float>(rank + 1); }

  const int64_t rows_, cols_;
  const int ranks_;
  const comm::RootLayout layout_;
  const std::vector<int64_t> strides_;
  Set sets_[kSets + 1];
};

class ExchangeBench {
 public:
  explicit ExchangeBench(MachineBench& bench)
      : bench_(bench),
        ranks_(bench.threads()),
        took_(static_cast<size_t>(ranks_) * (kCalls + kWarm)) {
    comm::ThreadFabric::Options options;
    options.workers.assign(ranks_, 1);
    auto fabric = comm::ThreadFabric::Create(options);
    WEFT_CHECK(fabric.ok(), "{}", fabric.status().message());
    fabric_ = std::move(fabric).value();
    std::vector<int> all(ranks_);
    for (int r = 0; r < ranks_; ++r) all[r] = r;
    group_ = fabric_->AddGroup(all).value();
  }

  // All methods at one shape, in turn until the time is up.
  std::vector<Case> Measure(Shape shape, double seconds) {
    Buffers buffers(shape, ranks_);
    std::vector<Case> cases = CasesOf(buffers);
    const int64_t until = SteadyNowNs() + static_cast<int64_t>(seconds * 1e9);
    for (int round = 0; round < 3 || SteadyNowNs() < until; ++round) {
      for (Case& c : cases) {
        Time([&](int rank,
                 int call) { c.write(rank, call % kSets), c.exchange(rank, call % kSets); },
             &c.ns);
        Time([&](int rank, int) { c.write(rank, kAlone); }, &c.alone_ns);
      }
    }
    return cases;
  }

 private:
  template <typename Args, typename Make, typename Write>
  void Add(std::span<const comm::Method<Args>* const> methods, const Make& make, const Write& write,
           std::vector<Case>* cases) {
    for (const comm::Method<Args>* method : methods) {
      Case c;
      c.collective = NameOf(method->kind);
      c.method = method->name;
      bool refused = false;
      for (int r = 0; r < ranks_; ++r) {
        const Args args = make(r, 0);
        refused = refused || !method->refuse(args).empty();
        if (refused) break;
        c.bytes = std::max(c.bytes, method->bytes(args));
        c.phases = method->phases(args);
      }
      if (refused) continue;
      c.write = write;
      c.exchange = [this, method, make](int rank, int set) {
        (void)comm::RunCollective(*fabric_, {group_, rank, 0}, *method, make(rank, set), {});
      };
      cases->push_back(std::move(c));
    }
  }

  std::vector<Case> CasesOf(Buffers& buffers) {
    std::vector<Case> cases;
    parts_.assign(ranks_, std::vector<comm::Part>(ranks_));
    const auto roots = [&](int rank, int set) { buffers.WriteRoots(rank, set); };
    const auto shard = [&](int rank, int set) { buffers.WriteShard(rank, set); };
    const auto reduce = [&](int rank, int set) { return buffers.Reduce(rank, set); };
    Add(comm::AllReduceMethods(), reduce, roots, &cases);
    Add(comm::ReduceScatterMethods(), reduce, roots, &cases);
    Add(
        comm::AllGatherMethods(),
        [&](int rank, int set) { return buffers.Gather(rank, set, parts_[rank]); }, shard, &cases);
    Add(
        comm::AllToAllMethods(),
        [&](int rank, int set) { return buffers.Exchange(rank, set, parts_[rank]); }, shard,
        &cases);
    Add(
        comm::PairMaxMethods(), [&](int rank, int set) { return buffers.Pairs(rank, set); },
        [&](int rank, int set) { buffers.WritePairs(rank, set); }, &cases);
    return cases;
  }

  // Each call begins when all have come; it took as long as the slowest rank.
  template <typename Call>
  void Time(const Call& call, std::vector<double>* out) {
    auto job = [&](int rank) {
      for (int i = 0; i < kCalls + kWarm; ++i) {
        (void)bench_.barrier().Wait(rank);
        const int64_t start = SteadyNowNs();
        call(rank, i);
        took_[i * ranks_ + rank] = SteadyNowNs() - start;
      }
    };
    bench_.team().RunEach(job);
    for (int i = kWarm; i < kCalls + kWarm; ++i) {
      const auto begin = took_.begin() + i * ranks_;
      out->push_back(static_cast<double>(*std::max_element(begin, begin + ranks_)));
    }
  }

  MachineBench& bench_;
  int ranks_;
  std::unique_ptr<comm::ThreadFabric> fabric_;
  int group_ = 0;
  std::vector<std::vector<comm::Part>> parts_;  // [ranks]
  std::vector<int64_t> took_;                   // [calls][ranks]
};

// The smallest with q = 0, the median with 0.5.
double Quantile(std::vector<double> values, double q) {
  const auto at = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// A tenth of a nanosecond is enough for a table that people read; a limit is above zero.
double Rounded(double ns) { return std::max(0.1, std::round(ns * 10) / 10); }

}  // namespace

ExchangeFit FitExchange(std::span<const ExchangePoint> points) {
  double pp = 0, pk = 0, kk = 0, p1 = 0, k1 = 0;
  for (const ExchangePoint& point : points) {
    const double p = point.phases / point.ns, k = point.kib / point.ns;
    pp += p * p, pk += p * k, kk += k * k, p1 += p, k1 += k;
  }
  const double det = pp * kk - pk * pk;
  ExchangeFit fit{(p1 * kk - k1 * pk) / det, (k1 * pp - p1 * pk) / det};
  // Where large sizes fall out of a cache the line may cut the axis below zero: then only one of
  // both.
  if (!(fit.phase_ns >= 0)) fit = {0, k1 / kk};
  if (!(fit.kib_ns >= 0)) fit = {p1 / pp, 0};
  return fit;
}

std::vector<Limit> MeasureExchanges(MachineBench& bench) {
  ExchangeBench exchanges(bench);
  struct Line {
    std::string collective, method;
    std::vector<ExchangePoint> best, median;
  };
  std::vector<Line> lines;
  for (const Shape& shape : kShapes) {
    const std::vector<Case> cases = exchanges.Measure(shape, 2 * bench.seconds());
    lines.resize(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      lines[i].collective = c.collective, lines[i].method = c.method;
      const auto point = [&](double q) {
        return ExchangePoint{c.phases, static_cast<double>(c.bytes) / 1024,
                             std::max(1.0, Quantile(c.ns, q) - Quantile(c.alone_ns, q))};
      };
      lines[i].best.push_back(point(0));
      lines[i].median.push_back(point(0.5));
    }
  }
  std::vector<Limit> limits;
  for (const Line& line : lines) {
    const ExchangeFit best = FitExchange(line.best), median = FitExchange(line.median);
    const int n = bench.threads();
    limits.push_back({line.collective + "_phase", n, 0, Rounded(best.phase_ns),
                      Rounded(median.phase_ns), "ns", line.method});
    limits.push_back({line.collective + "_kib", n, 0, Rounded(best.kib_ns), Rounded(median.kib_ns),
                      "ns/KiB", line.method});
  }
  return limits;
}

}  // namespace weft::cli
