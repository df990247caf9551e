// A mixture-of-experts block on one core, step by step, in the shapes of Qwen3.5-35B-A3B: 256
// experts, top 8, hidden 2048, width 512. Microseconds of each step; for the two grouped matmuls
// also GB/s of the weights of the experts that were met, as a fraction of what the same program
// measures as the machine's bandwidth, and GFLOP/s.
//   moe_bench [--weights Q8_0] [--tokens 8] [--leaves N] [--seconds 0.5]
// --leaves 1 beside the default tells what a tree over the width costs the down projections.
// Routes are uniform, several sets of them in turns, and experts lie in far more memory than caches
// hold: weights are cold. Experts e and e + 128 share their bytes, which no step meets again soon
// enough to profit from.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "kernels/activation/silu_mul.h"
#include "kernels/copy/gather_rows.h"
#include "kernels/float_env.h"
#include "kernels/matmul/pack.h"
#include "kernels/moe/combine.h"
#include "kernels/moe/group_routes.h"
#include "kernels/moe/grouped_matmul.h"
#include "kernels/moe/route.h"
#include "ops/limits.h"
#include "tensor/leaf_table.h"

namespace weft::bench {
namespace {

using kernels::Kernel;
using kernels::PackedMatrix;
using kernels::QuantisedRows;

constexpr int kExperts = 256;
constexpr int kTopK = 8;
constexpr int64_t kHidden = 2048;
constexpr int64_t kWidth = 512;
constexpr int kDistinct = 128;
constexpr int64_t kTokens[] = {1, 8, 32, 512};
constexpr int64_t kTokensMax = 512;
constexpr int64_t kRoutesMax = kTokensMax * kTopK;

struct Options {
  std::string weights;
  int64_t tokens = 0;
  int leaves = kLeavesMax;
  double seconds = 0.5;
};

// kExperts matrices [n, k] over kDistinct that are there.
class Experts {
 public:
  Experts(DType dtype, int64_t n, int64_t k, int leaves)
      : leaves_(LeafTable::Make(k, std::max(32, FactsOf(dtype).block_elements), leaves)),
        merges_(TreeMerges(leaves_.count(), {0, leaves_.count()})),
        bytes_(PackedBytes(dtype, n)),
        pages_(bytes_ * kDistinct) {
    const int panels = static_cast<int>(n / kernels::kPanelOutputs);
    for (int p = 0; p <= panels; ++p) panel_begin_.push_back(p * kernels::kPanelOutputs);
    for (int l = 0; l <= leaves_.count(); ++l)
      k_begin_.push_back(static_cast<int32_t>(leaves_.start(l)));
    // Small halves, whatever the field means: nothing here overflows or is denormal.
    std::mt19937 random(1);
    std::vector<std::byte> row(static_cast<size_t>(BytesOf(dtype, k)));
    for (std::byte& b : row) b = static_cast<std::byte>(0x20 | (random() & 15));
    const std::vector<const std::byte*> rows(kernels::kPanelOutputs, row.data());
    std::byte* to = pages_.data();
    for (int d = 0; d < kDistinct; ++d) {
      data_.emplace_back();
      for (int l = 0; l < leaves_.count(); ++l) {
        for (int p = 0; p < panels; ++p) {
          kernels::PackPanel(dtype, rows.data(), kernels::kPanelOutputs, leaves_.start(l),
                             leaves_.width(l), to);
          data_.back().push_back(to);
          to += kernels::PanelBytes(dtype, leaves_.width(l));
        }
      }
    }
    for (int e = 0; e < kExperts; ++e) {
      matrices_.push_back({dtype, n, k, panels, leaves_.count(), panel_begin_.data(),
                           k_begin_.data(), data_[e % kDistinct].data()});
    }
  }
  const PackedMatrix* matrices() const { return matrices_.data(); }
  const uint8_t* merges() const { return merges_.data(); }
  int64_t bytes() const { return bytes_; }
  const Pages& pages() const { return pages_; }

 private:
  int64_t PackedBytes(DType dtype, int64_t n) const {
    int64_t bytes = 0;
    for (int l = 0; l < leaves_.count(); ++l)
      bytes += n / kernels::kPanelOutputs * kernels::PanelBytes(dtype, leaves_.width(l));
    return bytes;
  }

  LeafTable leaves_;
  std::vector<uint8_t> merges_;
  int64_t bytes_;
  Pages pages_;
  std::vector<int32_t> panel_begin_, k_begin_;
  std::vector<std::vector<const std::byte*>> data_;
  std::vector<PackedMatrix> matrices_;
};

// One set of routes, from its logits on.
struct Routes {
  explicit Routes(int64_t tokens, uint32_t seed)
      : logits(tokens * kExperts),
        ids(tokens * kTopK),
        token(ids.size()),
        place(ids.size()),
        weights(ids.size()),
        begin(kExperts + 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (float& x : logits) x = normal(random);
  }
  std::vector<float> logits;
  std::vector<int32_t> ids, token, place;
  std::vector<float> weights;
  std::vector<int32_t> begin;
};

class Block {
 public:
  Block(DType weights, const Options& options)
      : seconds_(options.seconds),
        int8_(IsQuantised(weights)),
        gate_up_(weights, 2 * kWidth, kHidden, 1),
        down_(weights, kHidden, kWidth, options.leaves),
        x_(kTokensMax * kHidden * 2),
        grouped_(kRoutesMax * kHidden * 2),
        gates_(kRoutesMax * 2 * kWidth * 2),
        act_(kRoutesMax * kWidth * 2),
        out_(kRoutesMax * kHidden * 2),
        partials_(kTokensMax * kHidden * 4),
        xq_(QuantisedRows::Bytes(kTokensMax, kHidden)),
        gq_(QuantisedRows::Bytes(kRoutesMax, kHidden)),
        aq_(QuantisedRows::Bytes(kRoutesMax, kWidth)),
        weights_(weights) {
    std::mt19937 random(2);
    auto* x = reinterpret_cast<Bf16*>(x_.data());
    for (int64_t i = 0; i < kTokensMax * kHidden; ++i)
      x[i] = ToBf16(static_cast<float>(random() % 2001) / 1000 - 1);
  }

  void Measure(int64_t tokens) {
    tokens_ = tokens;
    sets_.clear();
    for (int64_t i = 0; i < (tokens < 8 ? 16 : tokens < 100 ? 4 : 1); ++i)
      sets_.emplace_back(tokens, static_cast<uint32_t>(tokens * 100 + i));
    for (Routes& r : sets_) Route(r), Group(r);
    double experts = 0;
    for (const Routes& r : sets_) {
      for (int e = 0; e < kExperts; ++e) experts += r.begin[e + 1] > r.begin[e] ? 1 : 0;
    }
    experts /= static_cast<double>(sets_.size());
    const double bandwidth = ReadBandwidth(gate_up_.pages(), seconds_);
    std::printf("%s, %ld tokens: %.1f experts met, read %.1f GB/s\n", NameOf(weights_).data(),
                tokens, experts, bandwidth / 1e9);
    double total = 0;
    total += Time("route", [&](Routes& r) { Route(r); });
    total += Time("group", [&](Routes& r) { Group(r); });
    total +=
        Time(int8_ ? "dispatch (quantise, gather)" : "dispatch", [&](Routes& r) { Dispatch(r); });
    const double gate_up = Time("gate_up", [&](Routes& r) { GateUp(r); });
    Rates(gate_up, experts * static_cast<double>(gate_up_.bytes()), bandwidth,
          2.0 * 2 * kWidth * kHidden);
    total += Time(int8_ ? "silu (and quantise)" : "silu", [&](Routes& r) { Silu(r); });
    const double down = Time("down", [&](Routes& r) { Down(r); });
    Rates(down, experts * static_cast<double>(down_.bytes()), bandwidth, 2.0 * kWidth * kHidden);
    total += Time("combine", [&](Routes& r) { Combine(r); });
    std::printf("  %-28s %11.1f us, of which grouped matmuls %.1f %%\n", "all",
                (total + gate_up + down) * 1e6, 100 * (gate_up + down) / (total + gate_up + down));
    std::fflush(stdout);
  }

 private:
  template <typename Args>
  void Run(std::span<const Kernel<Args>* const> list, const Args& args) {
    const Kernel<Args>* kernel = Choose(list, args, isa_);
    if (kernel == nullptr) std::abort();
    if (kernel->scratch_bytes != nullptr) Reserve(kernel->scratch_bytes(args));
    kernel->run(args, {0, kernel->units(args)}, scratch());
  }
  void Reserve(int64_t bytes) {
    if (static_cast<int64_t>(scratch_.size()) < bytes + 64)
      scratch_.resize(static_cast<size_t>(bytes) + 64);
  }
  std::byte* scratch() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) &
                                        ~uintptr_t{63});
  }

  // Seconds of the step for one set.
  double Time(const char* name, const std::function<void(Routes&)>& step) {
    const double seconds = BestSeconds(seconds_,
                                       [&] {
                                         for (Routes& r : sets_) step(r);
                                       }) /
                           static_cast<double>(sets_.size());
    std::printf("  %-28s %11.1f us", name, seconds * 1e6);
    if (std::strcmp(name, "gate_up") != 0 && std::strcmp(name, "down") != 0) std::printf("\n");
    return seconds;
  }
  void Rates(double seconds, double bytes, double bandwidth, double flops) const {
    std::printf("  %6.1f GB/s (%3.0f%%)  %7.1f GF/s\n", bytes / seconds / 1e9,
                100 * bytes / seconds / bandwidth,
                flops * static_cast<double>(tokens_ * kTopK) / seconds / 1e9);
  }

  static View Bf16Rows(const Pages& pages, int64_t rows, int64_t cols) {
    return {pages.data(), rows, cols, cols, DType::kBF16};
  }
  int64_t routes() const { return tokens_ * kTopK; }

  void Route(Routes& r) {
    Run(kernels::RouteKernels(),
        {.logits = {r.logits.data(), tokens_, kExperts, kExperts, DType::kF32},
         .ids = r.ids.data(),
         .weights = r.weights.data(),
         .top_k = kTopK,
         .renormalise = true});
  }
  void Group(Routes& r) {
    Run(kernels::GroupRoutesKernels(), {.ids = r.ids.data(),
                                        .rows = tokens_,
                                        .top_k = kTopK,
                                        .count = kExperts,
                                        .begin = r.begin.data(),
                                        .token = r.token.data(),
                                        .place = r.place.data()});
  }
  void Dispatch(Routes& r) {
    kernels::GatherRowsArgs a{.rows = r.token.data(), .int8_rows = int8_};
    if (int8_) {
      a.xq = QuantisedRows::In(xq_.data(), tokens_, tokens_, kHidden);
      a.yq = QuantisedRows::In(gq_.data(), routes(), routes(), kHidden);
      Run(kernels::QuantiseRowsKernels(), {.x = Bf16Rows(x_, tokens_, kHidden), .out = a.xq});
    } else {
      a.x = Bf16Rows(x_, tokens_, kHidden);
      a.y = Bf16Rows(grouped_, routes(), kHidden);
    }
    Run(kernels::GatherRowsKernels(), a);
  }
  void Multiply(const Routes& r, const Experts& experts, const Pages& x, const Pages& xq,
                const Pages& y) {
    kernels::GroupedMatmulArgs a{.rows_max = tokens_,
                                 .count = kExperts,
                                 .experts = experts.matrices(),
                                 .begin = r.begin.data()};
    a.matmul.w = experts.matrices()[0];
    a.matmul.rows = routes();
    a.matmul.int8_activations = int8_;
    a.matmul.x = Bf16Rows(x, routes(), a.matmul.w.k);
    if (int8_) a.matmul.xq = QuantisedRows::In(xq.data(), routes(), routes(), a.matmul.w.k);
    a.matmul.y = Bf16Rows(y, routes(), a.matmul.w.n);
    a.matmul.merges = experts.merges();
    a.kernel = kernels::ChooseForExperts(a.matmul, isa_);
    Run(kernels::GroupedMatmulKernels(), a);
  }
  void GateUp(const Routes& r) { Multiply(r, gate_up_, grouped_, gq_, gates_); }
  void Down(const Routes& r) { Multiply(r, down_, act_, aq_, out_); }
  void Silu(Routes&) {
    const View both = Bf16Rows(gates_, routes(), 2 * kWidth);
    kernels::SiluMulArgs a{.gate = both, .up = both, .y = Bf16Rows(act_, routes(), kWidth)};
    a.gate.cols = a.up.cols = kWidth;
    a.up.data = both.row<Bf16>(0) + kWidth;
    Run(kernels::SiluMulKernels(), a);
    if (int8_)
      Run(kernels::QuantiseRowsKernels(),
          {.x = a.y, .out = QuantisedRows::In(aq_.data(), routes(), routes(), kWidth)});
  }
  void Combine(Routes& r) {
    static const LeafTable table = LeafTable::Make(kExperts, 1);
    static const std::vector<uint8_t> merges = TreeMerges(table.count(), {0, table.count()});
    int32_t leaf_begin[kLeavesMax + 1];
    for (int l = 0; l <= table.count(); ++l) leaf_begin[l] = static_cast<int32_t>(table.start(l));
    Run(kernels::CombineKernels(), {.rows = Bf16Rows(out_, routes(), kHidden),
                                    .tokens = tokens_,
                                    .top_k = kTopK,
                                    .ids = r.ids.data(),
                                    .place = r.place.data(),
                                    .weights = r.weights.data(),
                                    .leaf_begin = leaf_begin,
                                    .leaves = table.count(),
                                    .merges = merges.data(),
                                    .partials = reinterpret_cast<float*>(partials_.data())});
  }

  const kernels::Isa isa_ =
      kernels::DetectIsa();  // microseconds in a virtual machine: not once a step
  double seconds_;
  bool int8_;
  Experts gate_up_, down_;
  Pages x_, grouped_, gates_, act_, out_, partials_, xq_, gq_, aq_;
  DType weights_;
  int64_t tokens_ = 0;
  std::vector<Routes> sets_;
  std::vector<std::byte> scratch_;
};

int Main(const Options& options) {
  kernels::SetFloatEnvironment();
  for (const DType dtype : {DType::kBF16, DType::kQ8_0, DType::kQ4_K}) {
    if (options.weights.empty() ? dtype == DType::kQ4_K : NameOf(dtype) != options.weights)
      continue;
    Block block(dtype, options);
    for (const int64_t tokens : kTokens) {
      if (options.tokens == 0 || options.tokens == tokens) block.Measure(tokens);
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--weights") options.weights = argv[i + 1];
    if (name == "--tokens") options.tokens = std::atoll(argv[i + 1]);
    if (name == "--leaves") options.leaves = std::atoi(argv[i + 1]);
    if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
  }
  return weft::bench::Main(options);
}
