#include <array>

#include "kernels/matmul/matmul.h"

namespace weft::kernels {

extern const Kernel<MatmulArgs> kMatmulInt8Amx;
extern const Kernel<MatmulArgs> kMatmulBf16Avx512;
extern const Kernel<MatmulArgs> kMatmulInt8Avx512;
extern const Kernel<MatmulArgs> kMatmulAvx512;
extern const Kernel<MatmulArgs> kMatmulAvx2;
extern const Kernel<MatmulArgs> kMatmulInt8Avx2;
extern const Kernel<MatmulArgs> kMatmulBlocksAvx2;
extern const Kernel<MatmulArgs> kMatmulRef;

namespace {

// Entries of one instruction set refuse each other's arguments, so their order among themselves is
// free.
constexpr std::array<const Kernel<MatmulArgs>*, 8> kMatmulKernels{
    &kMatmulInt8Amx, &kMatmulBf16Avx512, &kMatmulInt8Avx512, &kMatmulAvx512,
    &kMatmulAvx2,    &kMatmulInt8Avx2,   &kMatmulBlocksAvx2, &kMatmulRef};

View RowsOf(View view, int64_t begin, int64_t end) {
  view.data = static_cast<std::byte*>(view.data) + BytesOf(view.dtype, begin * view.stride);
  view.rows = end - begin;
  return view;
}

}  // namespace

std::span<const Kernel<MatmulArgs>* const> MatmulKernels() { return kMatmulKernels; }

MatmulArgs OfRows(MatmulArgs a, int64_t begin, int64_t end) {
  a.rows = end - begin;
  if (a.int8_activations) {
    a.xq = a.xq.Rows(begin, end);
  } else {
    a.x = RowsOf(a.x, begin, end);
  }
  if (a.finish) {
    a.y = RowsOf(a.y, begin, end);
  } else {
    a.partials += begin * a.w.n;
  }
  return a;
}

}  // namespace weft::kernels
