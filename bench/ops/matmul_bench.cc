// Matmul on one core, for the shapes of SmolLM2-135M and Qwen3-0.6B: GB/s of weights and GFLOP/s,
// each also as a fraction of what the same program measures as the machine's limit, and the time as
// a multiple of one row's.
//   matmul_bench [--weights Q8_0] [--shape down] [--rows 8] [--impl NAME] [--leaves N] [--seconds 0.2]
// --leaves 1 beside the default tells what the fixed tree over K costs.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "kernels/float_env.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/pack.h"
#include "ops/limits.h"
#include "tensor/leaf_table.h"

namespace weft::bench {
namespace {

using kernels::Isa;
using kernels::Kernel;
using kernels::MatmulArgs;

struct Shape {
  const char* name;
  int64_t n;
  int64_t k;
  int leaves;
};
constexpr Shape kShapes[] = {
    {"smol.qkv", 960, 576, 1},      {"smol.o", 576, 576, 9},         {"smol.gate_up", 3072, 576, 1},
    {"smol.down", 576, 1536, 16},   {"smol.head", 49152, 576, 1},    {"qwen.qkv", 4096, 1024, 1},
    {"qwen.o", 1024, 2048, 16},     {"qwen.gate_up", 6144, 1024, 1}, {"qwen.down", 1024, 3072, 16},
    {"qwen.head", 151936, 1024, 1},
};
constexpr DType kWeights[] = {DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                              DType::kQ4_K, DType::kQ6_K, DType::kF16,  DType::kF32};
constexpr int64_t kRows[] = {1, 2, 4, 8, 12, 64, 512};
constexpr int64_t kRowsMax = 512;
constexpr int64_t kInputsMax = 3072;

struct Options {
  std::string weights;
  std::string shape;
  std::string impl;
  int64_t rows = 0;
  int leaves = 0;  // 0: the shape's own
  double seconds = 0.2;
};

struct Limits {
  double bandwidth = 0.0;
  double fma = 0.0;
  double int8 = 0.0;
  double int4 = 0.0;
};

// As many copies of one matrix as fit, so that a pass over all of them finds none in a cache.
class Matrices {
 public:
  Matrices(const Pages& pages, DType dtype, const Shape& shape) {
    const int64_t block = FactsOf(dtype).block_elements;
    const LeafTable leaves = LeafTable::Make(shape.k, block > 32 ? block : 32, shape.leaves);
    const int panels = static_cast<int>(shape.n / 16);
    std::mt19937 random(1);
    std::vector<std::vector<std::byte>> rows(16);
    for (auto& row : rows) {
      row.resize(static_cast<size_t>(BytesOf(dtype, shape.k)));
      // Small halves, whatever the field means: nothing here overflows or is denormal.
      for (std::byte& b : row) b = static_cast<std::byte>(0x20 | (random() & 15));
    }
    const std::byte* pointers[16];
    for (int i = 0; i < 16; ++i) pointers[i] = rows[i].data();
    for (int l = 0; l <= leaves.count(); ++l) {
      k_begin_.push_back(static_cast<int32_t>(leaves.start(l)));
      if (l == leaves.count()) break;
      bytes_ += panels * kernels::PanelBytes(dtype, leaves.width(l));
    }
    merges_ = TreeMerges(leaves.count(), {0, leaves.count()});
    for (int p = 0; p <= panels; ++p) panel_begin_.push_back(p * 16);
    const int64_t copies = pages.bytes() / bytes_;
    std::byte* to = pages.data();
    for (int64_t c = 0; c < copies; ++c) {
      data_.emplace_back();
      for (int l = 0; l < leaves.count(); ++l) {
        const int64_t panel_bytes = kernels::PanelBytes(dtype, leaves.width(l));
        const std::byte* first = to;
        for (int p = 0; p < panels; ++p, to += panel_bytes) {
          if (p == 0) {
            kernels::PackPanel(dtype, pointers, 16, leaves.start(l), leaves.width(l), to);
          } else {
            std::memcpy(to, first, static_cast<size_t>(panel_bytes));
          }
          data_.back().push_back(to);
        }
      }
    }
    matrix_.dtype = dtype;
    matrix_.n = shape.n;
    matrix_.k = shape.k;
    matrix_.panels = panels;
    matrix_.k_leaves = leaves.count();
    matrix_.panel_begin = panel_begin_.data();
    matrix_.k_begin = k_begin_.data();
  }
  int64_t copies() const { return static_cast<int64_t>(data_.size()); }
  int64_t bytes() const { return bytes_; }
  const uint8_t* merges() const { return merges_.data(); }
  kernels::PackedMatrix at(int64_t copy) const {
    kernels::PackedMatrix m = matrix_;
    m.data = data_[static_cast<size_t>(copy)].data();
    return m;
  }

 private:
  int64_t bytes_ = 0;
  std::vector<int32_t> k_begin_;
  std::vector<int32_t> panel_begin_;
  std::vector<uint8_t> merges_;
  std::vector<std::vector<const std::byte*>> data_;
  kernels::PackedMatrix matrix_;
};

struct Rows {
  Rows()
      : x(kRowsMax * kInputsMax * 2),
        q(kernels::QuantisedRows::Bytes(kRowsMax, kInputsMax)),
        y(kRowsMax * 151936 * 4) {
    std::mt19937 random(2);
    auto* bits = reinterpret_cast<Bf16*>(x.data());
    for (int64_t i = 0; i < kRowsMax * kInputsMax; ++i) {
      bits[i] = ToBf16(static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
    }
  }
  Pages x;
  Pages q;
  Pages y;
};

double MeasureOne(const Options& options, const Limits& limits, const Matrices& matrices,
                  const Shape& shape, DType dtype, int64_t m, const Rows& rows, double one_row) {
  MatmulArgs args;
  args.rows = m;
  args.w = matrices.at(0);
  args.merges = matrices.merges();
  args.x = {rows.x.data(), m, shape.k, shape.k, DType::kBF16};
  args.y = {rows.y.data(), m, shape.n, shape.n, DType::kF32};
  if (IsQuantised(dtype)) {
    args.int8_activations = true;
    args.xq = kernels::QuantisedRows::In(rows.q.data(), m, m, shape.k);
    for (int64_t i = 0; i < m * shape.k; ++i)
      args.xq.q[i] = static_cast<int8_t>(i * 37 % 255 - 127);
    for (int64_t i = 0; i < m * shape.k / 32; ++i) {
      args.xq.d[i] = 0.01f;
      args.xq.sum[i] = 3;
    }
  }
  const Kernel<MatmulArgs>* kernel =
      Choose(kernels::MatmulKernels(), args, kernels::DetectIsa(), options.impl);
  if (kernel == nullptr) return 0.0;
  std::vector<std::byte> scratch(
      static_cast<size_t>(kernel->scratch_bytes ? kernel->scratch_bytes(args) : 0) + 64);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) &
                                               ~uintptr_t{63});
  // Enough copies for 2 ms; a run begins where the last one ended, so the weights are cold.
  const double flops = 2.0 * static_cast<double>(m * shape.n * shape.k);
  int64_t count = static_cast<int64_t>(0.002 / (static_cast<double>(matrices.bytes()) / 20e9));
  if (m >= 32) count = static_cast<int64_t>(0.002 * 100e9 / flops);
  count = count < 1 ? 1 : count;
  int64_t next = 0;
  const double seconds = BestSeconds(options.seconds,
                                     [&] {
                                       for (int64_t i = 0; i < count; ++i) {
                                         args.w = matrices.at(next++ % matrices.copies());
                                         kernel->run(args, {0, kernel->units(args)}, aligned);
                                       }
                                     }) /
                         static_cast<double>(count);
  const double rate = static_cast<double>(matrices.bytes()) / seconds;
  const double peak = !IsQuantised(dtype)     ? limits.fma
                      : dtype == DType::kQ8_0 ? limits.int8
                                              : limits.int4;
  std::printf(
      "%-9s %-13s M %3ld %-11s %9.1f us %6.1f GB/s (%3.0f%%) %7.1f GF/s (%3.0f%%) %5.2f x\n",
      NameOf(dtype).data(), shape.name, m, kernel->name.data(), seconds * 1e6, rate / 1e9,
      100.0 * rate / limits.bandwidth, flops / seconds / 1e9, 100.0 * flops / seconds / peak,
      one_row > 0.0 ? seconds / one_row : 1.0);
  std::fflush(stdout);
  return seconds;
}

Limits MeasureLimits(const Pages& pages, double seconds) {
  const Limits limits{ReadBandwidth(pages, seconds), FmaPeak(seconds), Int8Peak(true, seconds),
                      Int8Peak(false, seconds)};
  std::printf(
      "limits of one core: read %.1f GB/s, fp32 FMA %.1f GF/s, int8 by 4 operations %.1f, "
      "int4 by 2 %.1f GOP/s\n",
      limits.bandwidth / 1e9, limits.fma / 1e9, limits.int8 / 1e9, limits.int4 / 1e9);
  return limits;
}

int Main(const Options& options) {
  kernels::SetFloatEnvironment();
  const Pages pages(int64_t{384} << 20);
  const Limits limits = MeasureLimits(pages, options.seconds);
  const Rows rows;
  for (const DType dtype : kWeights) {
    if (!options.weights.empty() && NameOf(dtype) != options.weights) continue;
    for (const Shape& shape : kShapes) {
      if (!options.shape.empty() && std::strstr(shape.name, options.shape.c_str()) == nullptr)
        continue;
      if (shape.k % FactsOf(dtype).block_elements != 0) continue;
      if (BytesOf(dtype, shape.n * shape.k) > pages.bytes()) continue;
      Shape cut = shape;
      if (options.leaves > 0) cut.leaves = options.leaves;
      const Matrices matrices(pages, dtype, cut);
      double one_row = 0.0;
      for (const int64_t m : kRows) {
        if (options.rows != 0 && m != options.rows) continue;
        if (m > 12 && shape.n > 10000) continue;
        const double seconds =
            MeasureOne(options, limits, matrices, shape, dtype, m, rows, one_row);
        if (m == 1) one_row = seconds;
      }
    }
  }
  MeasureLimits(pages, options.seconds);
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  weft::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--weights") options.weights = argv[i + 1];
    if (name == "--shape") options.shape = argv[i + 1];
    if (name == "--impl") options.impl = argv[i + 1];
    if (name == "--leaves") options.leaves = std::atoi(argv[i + 1]);
    if (name == "--rows") options.rows = std::atoll(argv[i + 1]);
    if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
  }
  return weft::bench::Main(options);
}
