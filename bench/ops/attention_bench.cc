// Attention on one thread, every variant in turns inside one run. Decode and verify at depth: GB/s
// of K and V read, beside what a plain read of the same memory gets in the same turn. Prefill:
// GFLOP/s of the scores and values that are visible, beside the peak of fp32 FMAs.
//   attention_bench [--impl avx512] [--model qwen] [--rows 1] [--keys 4096] [--pool-mib 1024]
//   [--seconds 0.5]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "kernels/attention/attention.h"
#include "kernels/float_env.h"
#include "kernels/peak/peak.h"
#include "ops/limits.h"

namespace weft::bench {
namespace {

using kernels::AttentionArgs;
using kernels::Kernel;

struct Options {
  std::string impl;
  std::string model;
  int rows = 0;
  int keys = 0;
  int64_t pool_mib =
      1024;  // no cache holds it; less: what the kernel does when memory waits for it
  double seconds = 0.5;
};

struct Model {
  const char* name;
  int heads, kv_heads, head_dim;
};
constexpr Model kModels[] = {{"smol135 9/3x64", 9, 3, 64},
                             {"qwen06 16/8x128", 16, 8, 128},
                             {"llama8b 32/8x128", 32, 8, 128}};
constexpr int kPageTokens = 16;  // the most scattered

// One segment of `rows` rows that end at `depth`, over as many caches as the pool holds: a step
// finds the next one cold, as a step of a model with as many layers would.
class Case {
 public:
  Case(const Pages& pool, const Model& model, int depth, int rows) : pool_(pool) {
    const int pages = (depth + kPageTokens - 1) / kPageTokens;
    args_.kv = {.base = nullptr,
                .dtype = DType::kBF16,
                .kv_heads = model.kv_heads,
                .head_dim = model.head_dim,
                .page_tokens = kPageTokens};
    layer_bytes_ = (pages + 1) * args_.kv.page_bytes();
    for (int i = 0; i < pages; ++i) table_.push_back(i + 1);
    for (int h = 0; h < model.heads; ++h) kv_of_head_.push_back(h * model.kv_heads / model.heads);
    const int64_t width = int64_t{model.heads} * model.head_dim;
    q_.assign(rows * width, ToBf16(0.25f));
    y_.resize(rows * width);
    segment_ = {.row_begin = 0,
                .rows = rows,
                .position_begin = depth - rows,
                .page_count = pages,
                .pages = table_.data()};
    args_.q = {
        .data = q_.data(), .rows = rows, .cols = width, .stride = width, .dtype = DType::kBF16};
    args_.y = {
        .data = y_.data(), .rows = rows, .cols = width, .stride = width, .dtype = DType::kBF16};
    args_.heads = model.heads;
    args_.kv_of_head = kv_of_head_.data();
    args_.scale = 0.1f;
    args_.segments = &segment_;
    args_.segment_count = 1;
    args_.rows = rows;
    bytes_ = 4.0 * depth * model.kv_heads * model.head_dim;
    const double seen = 0.5 * rows * (2.0 * depth - rows + 1);
    flops_ = 4.0 * seen * model.heads * model.head_dim;
  }
  Case(const Case&) = delete;

  double bytes() const { return bytes_; }
  double flops() const { return flops_; }
  // Seconds of one step over the next cache.
  double Run(const Kernel<AttentionArgs>& kernel) {
    scratch_.resize(kernel.scratch_bytes(args_));
    args_.kv.base = Next();
    const double start = Now();
    kernel.run(args_, {0, kernel.units(args_)}, scratch_.data());
    return Now() - start;
  }
  double Read(const kernels::Peak& read) {
    const std::byte* from = Next();
    const int64_t bytes = static_cast<int64_t>(bytes_) / 256 * 256;
    const double start = Now();
    asm volatile("" : : "r"(read.run(from, bytes)));
    return Now() - start;
  }

 private:
  std::byte* Next() {
    at_ = at_ + 2 * layer_bytes_ > pool_.bytes() ? 0 : at_ + layer_bytes_;
    return pool_.data() + at_;
  }

  const Pages& pool_;
  int64_t layer_bytes_ = 0;
  int64_t at_ = 0;
  double bytes_ = 0;
  double flops_ = 0;
  std::vector<int32_t> table_;
  std::vector<int32_t> kv_of_head_;
  std::vector<Bf16> q_, y_;
  Segment segment_{};
  AttentionArgs args_;
  std::vector<std::byte> scratch_;
};

std::vector<const Kernel<AttentionArgs>*> Variants(const Options& options) {
  std::vector<const Kernel<AttentionArgs>*> out;
  for (const auto* kernel : kernels::AttentionKernels()) {
    if (kernel->isa > kernels::DetectIsa() || kernel->isa == kernels::Isa::kPortable) continue;
    if (options.impl.empty() || kernel->name == options.impl) out.push_back(kernel);
  }
  return out;
}

void Compare(const Options& options, const Pages& pool, const Model& model, int depth, int rows) {
  if (options.rows != 0 && options.rows != rows) return;
  if (options.keys != 0 && options.keys != depth) return;
  if (int64_t{4} * (depth + kPageTokens) * model.kv_heads * model.head_dim > pool.bytes()) return;
  const auto variants = Variants(options);
  const kernels::Peak* read = ChoosePeak(kernels::PeakKind::kRead, kernels::DetectIsa());
  Case test(pool, model, depth, rows);
  const kernels::Peak* fma = ChoosePeak(kernels::PeakKind::kFloat32, kernels::DetectIsa());
  constexpr int64_t kPeakRounds = 10'000;
  std::vector<std::vector<double>> seconds(variants.size() + 2);
  const double until = Now() + options.seconds;
  for (int round = 0; round < 5 || Now() < until; ++round) {
    for (size_t i = 0; i < variants.size(); ++i) seconds[i].push_back(test.Run(*variants[i]));
    const double start = Now();
    asm volatile("" : : "r"(fma->run(nullptr, kPeakRounds)));
    seconds[variants.size()].push_back(Now() - start);
    seconds.back().push_back(test.Read(*read));
  }
  const double limit = test.bytes() / Median(seconds.back());
  const double peak =
      2.0 * static_cast<double>(fma->products * kPeakRounds) / Median(seconds[variants.size()]);
  std::printf("%-17s %5d keys %4d rows  read %5.1f GB/s  FMA %5.1f GF/s ", model.name, depth, rows,
              limit / 1e9, peak / 1e9);
  for (size_t i = 0; i < variants.size(); ++i) {
    const double s = Median(seconds[i]);
    std::printf("  %s", std::string(variants[i]->name).c_str());
    if (rows < 64)
      std::printf(" %5.1f GB/s (%3.0f%%)", test.bytes() / s / 1e9, 100 * test.bytes() / s / limit);
    if (rows >= 64)
      std::printf(" %6.1f GF/s (%3.0f%%)", test.flops() / s / 1e9, 100 * test.flops() / s / peak);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int Main(const Options& options) {
  kernels::SetFloatEnvironment();
  const Pages pool(options.pool_mib << 20);
  auto* halves = reinterpret_cast<Bf16*>(pool.data());
  for (int64_t i = 0; i < pool.bytes() / 2; ++i) {
    halves[i] = ToBf16(static_cast<float>(i * 2654435761u % 1024) / 512.0f - 1.0f);
  }
  for (const Model& model : kModels) {
    if (!options.model.empty() && std::strstr(model.name, options.model.c_str()) == nullptr)
      continue;
    for (const int depth : {1024, 4096, 16384, 32768}) Compare(options, pool, model, depth, 1);
    Compare(options, pool, model, 4096, 5);
    for (const int depth : {512, 4096}) Compare(options, pool, model, depth, 512);
  }
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--impl") options.impl = argv[i + 1];
    if (name == "--model") options.model = argv[i + 1];
    if (name == "--rows") options.rows = std::atoi(argv[i + 1]);
    if (name == "--keys") options.keys = std::atoi(argv[i + 1]);
    if (name == "--pool-mib") options.pool_mib = std::atoll(argv[i + 1]);
    if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
  }
  return weft::bench::Main(options);
}
