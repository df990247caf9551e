// The gated delta rule on one thread, every variant in turns inside one run. One row: the state
// comes from memory, GB/s of it read and written, beside what a plain read of the same memory gets.
// Many rows: nanoseconds per row and value head, and the share of the peak of fp32 FMAs, where a
// row is 4 operations per element of the state (docs/numerics.md 11).
//   gdn_bench [--impl avx2] [--model 35b] [--rows 512] [--pool-mib 1024] [--seconds 0.5]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "kernels/float_env.h"
#include "kernels/gdn/gated_delta.h"
#include "kernels/peak/peak.h"
#include "ops/limits.h"

namespace weft::bench {
namespace {

using kernels::GatedDeltaArgs;
using kernels::Kernel;

struct Options {
  std::string impl;
  std::string model;
  int rows = 0;
  int64_t pool_mib = 1024;  // no cache holds it
  double seconds = 0.5;
};

struct Model {
  const char* name;
  int key_heads, value_heads, dim;
};
constexpr Model kModels[] = {{"35b 16/32x128", 16, 32, 128}, {"27b 16/48x128", 16, 48, 128}};

struct RowsCase {
  int rows, replay, logged;
};
constexpr RowsCase kRows[] = {{1, 0, 0}, {5, 0, 4}, {5, 2, 4}, {64, 0, 0}, {512, 0, 0}};

// A segment over as many slots as the pool holds: a step finds the next one cold, as a step of a
// model with as many layers would.
class Case {
 public:
  Case(const Pages& pool, const Model& model, const RowsCase& rows) : pool_(pool) {
    const int64_t keys = int64_t{model.key_heads} * model.dim;
    const int64_t values = int64_t{model.value_heads} * model.dim;
    for (int64_t i = 0; i < rows.rows * (2 * keys + values + 2 * model.value_heads); ++i) {
      in_.push_back(ToBf16(static_cast<float>(i * 37 % 2001) / 1000 - 1));
    }
    y_.resize(rows.rows * values);
    Bf16* at = in_.data();
    const auto next = [&](int64_t cols) {
      View out{.data = at, .rows = rows.rows, .cols = cols, .stride = cols, .dtype = DType::kBF16};
      at += rows.rows * cols;
      return out;
    };
    args_.q = next(keys);
    args_.k = next(keys);
    args_.v = next(values);
    args_.a = next(model.value_heads);
    args_.b = next(model.value_heads);
    args_.y = args_.v;
    args_.y.data = y_.data();
    rates_.assign(model.value_heads, -0.1f);
    for (int h = 0; h < model.value_heads; ++h) {
      key_of_head_.push_back(h * model.key_heads / model.value_heads);
    }
    args_.neg_exp_a = rates_.data();
    args_.dt_bias = rates_.data();
    args_.key_of_head = key_of_head_.data();
    args_.key_heads = model.key_heads;
    args_.value_heads = model.value_heads;
    args_.key_dim = args_.value_dim = model.dim;
    args_.log_max = 4;
    args_.state = reinterpret_cast<float*>(pool.data());
    args_.state_stride = args_.layout().slot_floats();
    args_.segments = &segment_;
    args_.segment_count = 1;
    segment_ = {
        .rows = rows.rows, .position_begin = 1000, .replay = rows.replay, .logged = rows.logged};
  }
  Case(const Case&) = delete;

  double state_bytes() const { return 4.0 * static_cast<double>(args_.layout().state_floats()); }
  double Run(const Kernel<GatedDeltaArgs>& kernel) {
    scratch_.resize(kernel.scratch_bytes(args_) + 64);
    segment_.state = Next();
    auto* scratch =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64);
    const double start = Now();
    kernel.run(args_, {0, kernel.units(args_)}, scratch);
    return Now() - start;
  }
  double Read(const kernels::Peak& read) {
    const std::byte* from = pool_.data() + Next() * args_.state_stride * 4;
    const double start = Now();
    asm volatile("" : : "r"(read.run(from, static_cast<int64_t>(state_bytes()) / 256 * 256)));
    return Now() - start;
  }

 private:
  int32_t Next() {
    at_ = (at_ + 2) * args_.state_stride * 4 > pool_.bytes() ? 0 : at_ + 1;
    return at_;
  }

  const Pages& pool_;
  int32_t at_ = 0;
  std::vector<Bf16> in_, y_;
  std::vector<float> rates_;
  std::vector<int32_t> key_of_head_;
  Segment segment_{};
  GatedDeltaArgs args_;
  std::vector<std::byte> scratch_;
};

void Compare(const Options& options, const Pages& pool, const Model& model, const RowsCase& rows) {
  const kernels::Peak* fma = ChoosePeak(kernels::PeakKind::kFloat32, kernels::DetectIsa());
  const kernels::Peak* read = ChoosePeak(kernels::PeakKind::kRead, kernels::DetectIsa());
  constexpr int64_t kPeakRounds = 10'000;
  Case test(pool, model, rows);
  struct Line {
    const Kernel<GatedDeltaArgs>* kernel;
    std::vector<double> seconds;
  };
  std::vector<Line> lines;
  for (const auto* kernel : kernels::GatedDeltaKernels()) {
    if (kernel->isa > kernels::DetectIsa()) continue;
    if (options.impl.empty() ? kernel->isa != kernels::Isa::kPortable
                             : kernel->name == options.impl) {
      lines.push_back({kernel, {}});
    }
  }
  std::vector<double> peaks, reads;
  const double until = Now() + options.seconds;
  for (int round = 0; round < 5 || Now() < until; ++round) {
    for (Line& line : lines) line.seconds.push_back(test.Run(*line.kernel));
    const double start = Now();
    asm volatile("" : : "r"(fma->run(nullptr, kPeakRounds)));
    peaks.push_back(Now() - start);
    reads.push_back(test.Read(*read));
  }
  const double peak = static_cast<double>(fma->products * kPeakRounds) / Median(peaks);
  std::printf("%-14s %3d rows, %d replayed, %d logged  read %5.1f GB/s  FMA %5.1f G/s ", model.name,
              rows.rows, rows.replay, rows.logged, test.state_bytes() / Median(reads) / 1e9,
              peak / 1e9);
  for (const Line& line : lines) {
    const double s = Median(line.seconds);
    const double row_heads = 1.0 * model.value_heads * rows.rows;
    std::printf("  %s %7.0f ns a row and head (%3.0f%%), %5.1f GB/s",
                std::string(line.kernel->name).c_str(), s / row_heads * 1e9,
                100 * row_heads * 4 * model.dim * model.dim / s / peak,
                2 * test.state_bytes() / s / 1e9);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int Main(const Options& options) {
  kernels::SetFloatEnvironment();
  const Pages pool(options.pool_mib << 20);
  std::memset(pool.data(), 0, static_cast<size_t>(pool.bytes()));
  for (const Model& model : kModels) {
    if (!options.model.empty() && std::strstr(model.name, options.model.c_str()) == nullptr)
      continue;
    for (const RowsCase& rows : kRows) {
      if (options.rows == 0 || options.rows == rows.rows) Compare(options, pool, model, rows);
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
    if (name == "--impl") options.impl = argv[i + 1];
    if (name == "--model") options.model = argv[i + 1];
    if (name == "--rows") options.rows = std::atoi(argv[i + 1]);
    if (name == "--pool-mib") options.pool_mib = std::atoll(argv[i + 1]);
    if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
  }
  return weft::bench::Main(options);
}
