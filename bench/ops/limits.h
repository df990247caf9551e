// What one core of this machine can do at best, measured where the kernels are measured: the
// denominator of every fraction that a bench prints.
#pragma once

#include <immintrin.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace weft::bench {

// This thread's time on a core: on a shared machine the time that others ran does not count, though
// what they did to caches, memory and clock does.
inline double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// The best of as many runs as fit into `seconds`, at least 3: what other processes take away shows
// in the mean, not here.
template <typename F>
double BestSeconds(double seconds, const F& f) {
  double best = 1e30;
  const double until = Now() + seconds;
  for (int i = 0; i < 3 || Now() < until; ++i) {
    const double start = Now();
    f();
    const double took = Now() - start;
    best = took < best ? took : best;
  }
  return best;
}

// The middle of the turns: the best would be the luckiest cache, the mean the unluckiest neighbour.
inline double Median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + std::ssize(x) / 2, x.end());
  return x[x.size() / 2];
}

// Memory in huge pages where the system grants them, written once.
class Pages {
 public:
  explicit Pages(int64_t bytes) : bytes_((bytes + (2 << 20)) & ~int64_t{(2 << 20) - 1}) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(2 << 20, static_cast<size_t>(bytes_)));
    madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
    for (int64_t i = 0; i < bytes_; i += 4096) data_[i] = std::byte{1};
  }
  ~Pages() { std::free(data_); }
  Pages(const Pages&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
  std::byte* data_;
};

inline void Use(__m256i v) { asm volatile("" : : "x"(v)); }

// Bytes per second of reading `pages`, front to end again and again.
inline double ReadBandwidth(const Pages& pages, double seconds) {
  const int64_t bytes = int64_t{32} << 20;  // short runs, each where the last one ended
  int64_t at = 0;
  const double best = BestSeconds(seconds, [&] {
    __m256i sum[8] = {};
    if (at + bytes > pages.bytes()) at = 0;
    const int64_t end = at + bytes;
    for (int64_t i = at; i < end; i += 256) {
      const auto* p = reinterpret_cast<const __m256i*>(pages.data() + i);
      _mm_prefetch(reinterpret_cast<const char*>(p) + 4096, _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(p) + 4160, _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(p) + 4224, _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(p) + 4288, _MM_HINT_T0);
      for (int j = 0; j < 8; ++j) sum[j] = _mm256_xor_si256(sum[j], _mm256_load_si256(p + j));
    }
    at = end;
    for (int j = 0; j < 8; ++j) Use(sum[j]);
  });
  return static_cast<double>(bytes) / best;
}

// fp32 operations per second of FMAs in registers, 12 chains of 8 lanes.
inline double FmaPeak(double seconds) {
  constexpr int kRounds = 20000;
  const double best = BestSeconds(seconds, [&] {
    __m256 acc[12];
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_ps(static_cast<float>(i));
    const __m256 a = _mm256_set1_ps(1.0f);
    const __m256 b = _mm256_set1_ps(0.0f);
    for (int r = 0; r < kRounds; ++r) {
#pragma GCC unroll 12
      for (int i = 0; i < 12; ++i) {
        acc[i] = _mm256_fmadd_ps(acc[i], a, b);
        asm volatile("" : "+x"(acc[i]));
      }
    }
    for (int i = 0; i < 12; ++i) Use(_mm256_castps_si256(acc[i]));
  });
  return 12.0 * 8 * 2 * kRounds / best;
}

// int8 operations per second of vpmaddubsw and the add that follows it (4 bits), or of vpsignb,
// vpmaddubsw, vpmaddwd and add (8 bits): the least that AVX2 needs for 32 products.
inline double Int8Peak(bool eight_bits, double seconds) {
  constexpr int kRounds = 20000;
  const double best = BestSeconds(seconds, [&] {
    __m256i acc[8] = {};
    __m256i w = _mm256_set1_epi8(3);
    __m256i x = _mm256_set1_epi8(5);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int r = 0; r < kRounds; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        __m256i xv = x;
        asm volatile("" : "+x"(xv));
        if (eight_bits) xv = _mm256_sign_epi8(xv, w);
        __m256i p = _mm256_maddubs_epi16(w, xv);
        if (eight_bits) p = _mm256_madd_epi16(p, ones);
        acc[i] = eight_bits ? _mm256_add_epi32(acc[i], p) : _mm256_add_epi16(acc[i], p);
        asm volatile("" : "+x"(acc[i]));
      }
    }
    for (int i = 0; i < 8; ++i) Use(acc[i]);
  });
  return 8.0 * 32 * 2 * kRounds / best;
}

}  // namespace weft::bench
