// The row-wise kernels on one core, every variant of a family in turns inside one run: nanoseconds
// of a row, and how much faster than the AVX2 variant. What others do to the machine meets all of
// them.
//   rows_bench [--family rms_norm] [--seconds 0.3]
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "kernels/activation/sigmoid_mul.h"
#include "kernels/activation/silu_mul.h"
#include "kernels/float_env.h"
#include "kernels/gdn/causal_conv.h"
#include "kernels/quant/quantised_rows.h"
#include "kernels/reduce/finish.h"
#include "kernels/rms_norm/gated_rms_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/sample/argmax.h"
#include "ops/limits.h"
#include "tensor/leaf_table.h"

namespace weft::bench {
namespace {

using kernels::Kernel;

struct Options {
  std::string family;
  double seconds = 0.3;
};

constexpr int64_t kRows[] = {1, 64};
constexpr int64_t kWidthMax = 151936;

// Rows in fp32 or bf16, small and finite.
class Rows {
 public:
  explicit Rows(int64_t elements) : pages_(elements * 4) {
    std::mt19937 random(1);
    for (int64_t i = 0; i < elements; ++i)
      floats()[i] = static_cast<float>(random() % 2001) / 1000 - 1;
  }
  float* floats() const { return reinterpret_cast<float*>(pages_.data()); }
  // The same bytes as bf16: a float's halves are finite bf16 numbers too, once their exponents are.
  View At(DType dtype, int64_t rows, int64_t cols) const {
    return {.data = pages_.data(), .rows = rows, .cols = cols, .stride = cols, .dtype = dtype};
  }
  void MakeBf16(int64_t elements) const {
    auto* out = reinterpret_cast<Bf16*>(pages_.data());
    for (int64_t i = 0; i < elements; ++i)
      out[i] = ToBf16(static_cast<float>(i * 37 % 2001) / 1000 - 1);
  }

 private:
  Pages pages_;
};

template <typename Args>
void Compare(const Options& options, const char* family, const std::string& shape,
             std::span<const Kernel<Args>* const> list, const Args& args) {
  if (!options.family.empty() && options.family != family) return;
  struct Line {
    const Kernel<Args>* kernel;
    std::vector<std::byte> scratch;
    double best = 1e30;
  };
  std::vector<Line> lines;
  for (const auto* kernel : list) {
    if (kernel->isa > kernels::DetectIsa() || kernel->isa == kernels::Isa::kPortable) continue;
    if (!kernel->refuse(args).empty()) continue;
    lines.push_back({kernel, {}});
    if (kernel->scratch_bytes != nullptr) lines.back().scratch.resize(kernel->scratch_bytes(args));
  }
  const auto run = [&](Line& line, int64_t calls) {
    const double start = Now();
    for (int64_t i = 0; i < calls; ++i) {
      line.kernel->run(args, {0, line.kernel->units(args)}, line.scratch.data());
    }
    return (Now() - start) / static_cast<double>(calls);
  };
  double avx2 = 0;
  const double until = Now() + options.seconds;
  for (int round = 0; round < 5 || Now() < until; ++round) {
    for (Line& line : lines) {
      const auto calls = static_cast<int64_t>(200e-6 / (line.best < 1 ? line.best : 200e-6)) + 1;
      const double s = run(line, calls);
      line.best = s < line.best ? s : line.best;
    }
  }
  for (const Line& line : lines) {
    if (line.kernel->isa == kernels::Isa::kAvx2) avx2 = line.best;
  }
  const auto rows = static_cast<double>(lines.empty() ? 1 : lines[0].kernel->units(args));
  for (const Line& line : lines) {
    std::printf("%-13s %-22s %-8s %9.1f ns a row  %5.2f x\n", family, shape.c_str(),
                std::string(line.kernel->name).c_str(), line.best / rows * 1e9, avx2 / line.best);
  }
  std::fflush(stdout);
}

std::string Name(DType dtype, int64_t rows, int64_t width) {
  return std::string(dtype == DType::kBF16 ? "bf16 " : "fp32 ") + std::to_string(rows) + " x " +
         std::to_string(width);
}

void Norms(const Options& options, const Rows& x, const Rows& r, const Rows& y) {
  const std::vector<float> gain(8192, 1.0f);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t rows : kRows) {
      for (const auto& [groups, width] :
           {std::pair<int, int64_t>{1, 576}, {1, 1024}, {1, 4096}, {16, 128}}) {
        for (const bool residual : {false, true}) {
          if (residual && groups > 1) continue;
          const LeafTable leaves = LeafTable::Make(width, groups > 1 ? width : 32);
          kernels::RmsNormArgs a;
          a.x = x.At(dtype, rows, groups * width);
          if (residual) a.residual = r.At(dtype, rows, groups * width);
          a.y = y.At(dtype, rows, groups * width);
          a.gain = gain.data();
          a.eps = 1e-6f;
          a.groups = groups;
          a.width = width;
          a.leaf_begin = leaves.starts().data();
          a.leaves = leaves.count();
          Compare(options, "rms_norm",
                  Name(dtype, rows, groups * width) + (residual     ? " + r"
                                                       : groups > 1 ? " heads"
                                                                    : ""),
                  kernels::RmsNormKernels(), a);
        }
      }
    }
  }
}

void Elementwise(const Options& options, const Rows& x, const Rows& r, const Rows& y) {
  std::vector<float> cos(4096 * 64, 0.8f);
  std::vector<float> sin(4096 * 64, 0.6f);
  std::vector<int32_t> positions(64, 7);
  const int64_t strides[] = {3072, 3072};
  const uint8_t merges[] = {0, 1};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t rows : kRows) {
      for (const int64_t width : {1536, 3072}) {
        Compare(options, "silu_mul", Name(dtype, rows, width), kernels::SiluMulKernels(),
                {.gate = x.At(dtype, rows, width),
                 .up = r.At(dtype, rows, width),
                 .y = y.At(dtype, rows, width)});
      }
      Compare(options, "sigmoid_mul", Name(dtype, rows, 4096), kernels::SigmoidMulKernels(),
              {.x = x.At(dtype, rows, 4096),
               .gate = r.At(dtype, rows, 4096),
               .y = y.At(dtype, rows, 4096)});
      Compare(options, "add", Name(dtype, rows, 1024), kernels::AddKernels(),
              {.a = x.At(dtype, rows, 1024),
               .b = r.At(dtype, rows, 1024),
               .y = y.At(dtype, rows, 1024)});
      for (const int head_dim : {64, 128}) {
        Compare(options, "rope", Name(dtype, rows, 16 * head_dim), kernels::RopeKernels(),
                {.x = y.At(dtype, rows, 16 * head_dim),
                 .positions = positions.data(),
                 .cos = cos.data(),
                 .sin = sin.data(),
                 .heads = 16,
                 .head_dim = head_dim,
                 .rot = head_dim});
      }
      const float* roots[] = {x.floats(), r.floats()};
      Compare(options, "finish", Name(dtype, rows, 1024), kernels::FinishKernels(),
              {.roots = roots,
               .strides = strides,
               .count = 2,
               .merges = merges,
               .y = y.At(dtype, rows, 1024)});
    }
  }
}

// What stands around the recurrence of a layer with 32 value heads of 128.
void Recurrent(const Options& options, const Rows& x, const Rows& r, const Rows& y) {
  constexpr int64_t kChannels = 8192, kTaps = 4;
  const std::vector<float> w(kTaps * kChannels, 0.25f);
  std::vector<float> state((kTaps - 1) * kChannels);
  const LeafTable leaves = LeafTable::Make(128, 32);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t rows : kRows) {
      kernels::GatedRmsNormArgs norm;
      norm.o = x.At(dtype, rows, 32 * 128);
      norm.z = r.At(dtype, rows, 32 * 128);
      norm.y = y.At(dtype, rows, 32 * 128);
      norm.w = w.data();
      norm.eps = 1e-6f;
      norm.heads = 32;
      norm.width = 128;
      norm.leaf_begin = leaves.starts().data();
      norm.leaves = leaves.count();
      Compare(options, "gated_rms_norm", Name(dtype, rows, 32 * 128) + " heads",
              kernels::GatedRmsNormKernels(), norm);
      // A unit is a block of 64 channels: of all rows.
      const Segment segment{.rows = static_cast<int32_t>(rows), .position_begin = 1};
      kernels::CausalConvArgs conv;
      conv.x = x.At(dtype, rows, kChannels);
      conv.y = y.At(dtype, rows, kChannels);
      conv.w = w.data();
      conv.w_stride = conv.state_row_stride = kChannels;
      conv.taps = kTaps;
      conv.segments = &segment;
      conv.segment_count = 1;
      conv.state = state.data();
      Compare(options, "causal_conv", Name(dtype, rows, kChannels) + " blocks",
              kernels::CausalConvKernels(), conv);
    }
  }
}

void Others(const Options& options, const Rows& x, const Rows& y) {
  std::vector<std::byte> quantised(kernels::QuantisedRows::Bytes(64, 3072) + 64);
  for (const int64_t rows : kRows) {
    for (const int64_t width : {576, 1024, 3072}) {
      Compare(options, "quantise_rows", Name(DType::kBF16, rows, width),
              kernels::QuantiseRowsKernels(),
              {.x = x.At(DType::kBF16, rows, width),
               .out = kernels::QuantisedRows::In(quantised.data(), rows, rows, width)});
    }
  }
  kernels::ValueIndex best[1];
  for (const int64_t width : {49152, 151936}) {
    Compare(options, "argmax", Name(DType::kF32, 1, width), kernels::ArgmaxKernels(),
            {.logits = y.At(DType::kF32, 1, width), .out = best});
  }
}

int Main(const Options& options) {
  kernels::SetFloatEnvironment();
  const Rows x(64 * 8192);
  const Rows r(64 * 8192);
  const Rows y(64 * 8192);
  const Rows logits(kWidthMax);
  x.MakeBf16(64 * 16384);
  r.MakeBf16(64 * 16384);
  y.MakeBf16(64 * 16384);
  Norms(options, x, r, y);
  Elementwise(options, x, r, y);
  Recurrent(options, x, r, y);
  Others(options, x, logits);
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--family") options.family = argv[i + 1];
    if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
  }
  return weft::bench::Main(options);
}
