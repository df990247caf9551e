// Attention on one thread: decode at depth (GB/s of K and V read) and prefill (GFLOP/s).
//   attention_bench [kernel-name]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

#include "base/bf16.h"
#include "kernels/attention/attention.h"
#include "kernels/float_env.h"

namespace {

using namespace weft;
using namespace weft::kernels;

// Of this thread: what other programs do on the core does not count (their use of caches and memory
// does).
double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Model {
  const char* name;
  int heads, kv_heads, head_dim;
};

// Seconds of one step: one segment of `rows` rows that end at `depth`, over `layers` caches in turn,
// so that the cache of a decode step comes from memory and not from L3.
double Measure(const Kernel<AttentionArgs>& kernel, const Model& model, int depth, int rows,
               int page_tokens, int layers, int repeats) {
  const int pages = (depth + page_tokens - 1) / page_tokens;
  KvLayout kv{.base = nullptr, .dtype = DType::kBF16, .kv_heads = model.kv_heads,
              .head_dim = model.head_dim, .page_tokens = page_tokens};
  const int64_t layer_bytes = (pages + 1) * kv.page_bytes();
  auto* pool = static_cast<std::byte*>(
      std::aligned_alloc(1 << 21, (layers * layer_bytes + (1 << 21)) >> 21 << 21));
  auto* halves = reinterpret_cast<Bf16*>(pool);
  for (int64_t i = 0; i < layers * layer_bytes / 2; ++i) {
    halves[i] = ToBf16(static_cast<float>(i * 2654435761u % 1024) / 512.0f - 1.0f);
  }
  std::vector<int32_t> table(pages);
  for (int i = 0; i < pages; ++i) table[i] = i + 1;
  const int64_t width = int64_t{model.heads} * model.head_dim;
  std::vector<Bf16> q(rows * width, ToBf16(0.25f)), y(rows * width);
  std::vector<int32_t> kv_of_head(model.heads);
  for (int h = 0; h < model.heads; ++h) kv_of_head[h] = h * model.kv_heads / model.heads;
  Segment segment{.row_begin = 0, .rows = rows, .position_begin = depth - rows,
                  .page_count = pages, .pages = table.data()};
  AttentionArgs a;
  a.q = {.data = q.data(), .rows = rows, .cols = width, .stride = width, .dtype = DType::kBF16};
  a.y = {.data = y.data(), .rows = rows, .cols = width, .stride = width, .dtype = DType::kBF16};
  a.kv = kv;
  a.heads = model.heads;
  a.kv_of_head = kv_of_head.data();
  a.scale = 0.1f;
  a.segments = &segment;
  a.segment_count = 1;
  a.rows = rows;
  std::vector<std::byte> scratch(kernel.scratch_bytes(a));
  double best = 1e9;
  for (int r = 0; r < repeats; ++r) {
    const double start = CpuSeconds();
    for (int layer = 0; layer < layers; ++layer) {
      a.kv.base = pool + layer * layer_bytes;
      kernel.run(a, {0, kernel.units(a)}, scratch.data());
    }
    const double s = (CpuSeconds() - start) / layers;
    best = s < best ? s : best;
  }
  std::free(pool);
  return best;
}

double ReadBandwidth() {
  const int64_t bytes = 256 << 20;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(1 << 21, bytes));
  std::memset(memory, 1, bytes);
  double best = 1e9;
  for (int r = 0; r < 5; ++r) {
    const double start = CpuSeconds();
    __m256i sum[4] = {};
    for (int64_t i = 0; i < bytes; i += 128) {
      for (int j = 0; j < 4; ++j) {
        sum[j] = _mm256_add_epi32(
            sum[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(memory + i + j * 32)));
      }
    }
    const double s = CpuSeconds() - start;
    best = s < best ? s : best;
    for (__m256i& x : sum) asm volatile("" ::"x"(x));
  }
  std::free(memory);
  return static_cast<double>(bytes) / best / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  AttentionArgs shape;
  shape.q.dtype = shape.y.dtype = DType::kBF16;
  shape.kv.head_dim = 64;
  shape.kv.page_tokens = 16;
  const auto* kernel = Choose(AttentionKernels(), shape, DetectIsa(), name);
  if (kernel == nullptr) {
    std::fprintf(stderr, "no kernel named %s runs here\n", argv[1]);
    return 1;
  }
  SetFloatEnvironment();
  std::printf("kernel %.*s; memory read %.1f GB/s\n", static_cast<int>(kernel->name.size()),
              kernel->name.data(), ReadBandwidth());
  const Model models[] = {{"smol135 9/3x64", 9, 3, 64}, {"qwen06 16/8x128", 16, 8, 128},
                          {"llama8b 32/8x128", 32, 8, 128}};
  for (const Model& model : models) {
    for (int page_tokens : {16, 64}) {
      std::printf("%-18s page %3d  decode", model.name, page_tokens);
      for (int depth : {1024, 4096, 16384}) {
        const double bytes = 4.0 * depth * model.kv_heads * model.head_dim;
        const int layers = 1 + static_cast<int>(96e6 / bytes);
        const double s = Measure(*kernel, model, depth, 1, page_tokens, layers, 4);
        std::printf("  %dk %6.1f GB/s", depth / 1024, bytes / s / 1e9);
      }
      const double flops = 4.0 * 512 * 513 / 2 * model.heads * model.head_dim;
      const double s = Measure(*kernel, model, 512, 512, page_tokens, 1, 5);
      std::printf("  prefill 512 %6.1f GFLOP/s\n", flops / s / 1e9);
    }
  }
  return 0;
}
