// argmax with AVX2: per lane the first strictly largest value and where it was; then over the lanes
// the largest value and of those the lowest id. A lane that saw nothing above -inf holds no index.
#include <string>

#include "kernels/sample/argmax.h"
#include "kernels/simd/vec.h"

namespace weft::kernels {

extern const Kernel<ArgmaxArgs> kArgmaxRef;

namespace {

ValueIndex ArgmaxRow(const float* x, int64_t count) {
  const __m256i step = _mm256_set1_epi32(16);
  __m256i at[2] = {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                   _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  __m256 best[2] = {_mm256_set1_ps(-__builtin_inff()), _mm256_set1_ps(-__builtin_inff())};
  __m256i index[2] = {_mm256_set1_epi32(-1), _mm256_set1_epi32(-1)};
  __m256 nan = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int j = 0; j < 2; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + j * 8);
      const __m256 larger = _mm256_cmp_ps(v, best[j], _CMP_GT_OQ);
      best[j] = _mm256_blendv_ps(best[j], v, larger);
      index[j] = _mm256_blendv_epi8(index[j], at[j], _mm256_castps_si256(larger));
      nan = _mm256_or_ps(nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
      at[j] = _mm256_add_epi32(at[j], step);
    }
  }
  float values[16];
  int32_t ids[16];
  for (int j = 0; j < 2; ++j) {
    _mm256_storeu_ps(values + j * 8, best[j]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(ids + j * 8), index[j]);
  }
  ValueIndex out;
  for (int lane = 0; lane < 16; ++lane) out = Better(out, {values[lane], ids[lane], 0});
  out.has_nan = _mm256_movemask_ps(nan) != 0 ? 1 : 0;
  for (; i < count; ++i) {
    if (x[i] != x[i]) {
      out.has_nan = 1;
    } else if (x[i] > (out.index < 0 ? -__builtin_inff() : out.value)) {
      out.value = x[i];
      out.index = static_cast<int32_t>(i);
    }
  }
  if (out.index < 0) {  // nothing above -inf: the first -inf, if there is one
    for (i = 0; i < count; ++i) {
      if (x[i] == x[i]) {
        out.value = x[i];
        out.index = static_cast<int32_t>(i);
        break;
      }
    }
  }
  return out;
}

std::string Refuse(const ArgmaxArgs& a) { return kArgmaxRef.refuse(a); }

int64_t Units(const ArgmaxArgs& a) { return a.logits.rows; }

void Run(const ArgmaxArgs& a, Slice slice, std::byte*) {
  for (int64_t r = slice.begin; r < slice.end; ++r) {
    a.out[r] = ArgmaxRow(a.logits.row<const float>(r), a.logits.cols);
    if (a.out[r].index >= 0) a.out[r].index += a.first_id;
  }
}

}  // namespace

extern const Kernel<ArgmaxArgs> kArgmaxAvx2{
    .name = "avx2", .isa = Isa::kAvx2, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
