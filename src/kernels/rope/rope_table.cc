// Rope's tables: angles in double, position * inv_freq rounded once, cos and sin rounded once to
// fp32. At position 2^20 the angle's own rounding is below 2^-33: less than 2^-9 ulp of fp32 at 1.
#include "kernels/rope/rope.h"
#include "kernels/simd/math.h"

namespace weft::kernels {

void FillRopeTable(std::span<const double> inv_freq, int64_t positions, float* cos, float* sin) {
  const auto half = static_cast<int64_t>(inv_freq.size());
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const SinCos at = SinCosDouble(static_cast<double>(p) * inv_freq[i]);
      cos[p * half + i] = static_cast<float>(at.cos);
      sin[p * half + i] = static_cast<float>(at.sin);
    }
  }
}

std::vector<double> RopeInverseFrequencies(double theta, int rot) {
  std::vector<double> out(rot / 2);
  for (int i = 0; i < rot / 2; ++i) {
    out[i] = i == 0 ? 1.0 : PowDouble(theta, -2.0 * i / rot);
  }
  return out;
}

}  // namespace weft::kernels
