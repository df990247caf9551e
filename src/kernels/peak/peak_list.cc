#include "kernels/peak/peak.h"

namespace weft::kernels {

extern const Peak kPeakFloat32Ref, kPeakBf16Ref, kPeakInt8Ref, kPeakInt4Ref, kPeakReadRef;
extern const Peak kPeakFloat32Avx2, kPeakBf16Avx2, kPeakInt8Avx2, kPeakInt4Avx2, kPeakReadAvx2;
extern const Peak kPeakFloat32Avx512, kPeakBf16Avx512, kPeakInt8Avx512, kPeakReadAvx512;

std::string_view NameOf(PeakKind kind) {
  switch (kind) {
    case PeakKind::kFloat32: return "fp32";
    case PeakKind::kBf16: return "bf16";
    case PeakKind::kInt8: return "int8";
    case PeakKind::kInt4: return "int4";
    case PeakKind::kRead: return "read";
  }
  return "unknown";
}

std::span<const Peak* const> Peaks() {
  static constexpr const Peak* kList[] = {
      &kPeakBf16Avx512, &kPeakInt8Avx512, &kPeakFloat32Avx512, &kPeakReadAvx512, &kPeakFloat32Avx2,
      &kPeakBf16Avx2,   &kPeakInt8Avx2,   &kPeakInt4Avx2,      &kPeakReadAvx2,   &kPeakFloat32Ref,
      &kPeakBf16Ref,    &kPeakInt8Ref,    &kPeakInt4Ref,       &kPeakReadRef};
  return kList;
}

const Peak* ChoosePeak(PeakKind kind, Isa isa) {
  for (const Peak* peak : Peaks()) {
    if (peak->kind == kind && peak->isa <= isa) return peak;
  }
  return nullptr;
}

}  // namespace weft::kernels
