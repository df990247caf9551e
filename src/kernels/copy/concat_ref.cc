// The contract of concat, and its only kernel: memcpy is as good as a loop of ours can be.
#include <cstring>
#include <string>

#include "kernels/copy/concat.h"

namespace weft::kernels {
namespace {

std::string Refuse(const ConcatArgs& a) {
  if (a.a.dtype != a.y.dtype || a.b.dtype != a.y.dtype) return "a, b and y differ in dtype";
  if (a.a.cols + a.b.cols != a.y.cols) return "y has not the columns of a and b";
  return "";
}

int64_t Units(const ConcatArgs& a) { return a.y.rows; }

void Run(const ConcatArgs& a, Slice slice, std::byte*) {
  const DType dtype = a.y.dtype;
  const auto row = [&](const View& v, int64_t i) {
    return static_cast<std::byte*>(v.data) + BytesOf(dtype, i * v.stride);
  };
  const int64_t left = BytesOf(dtype, a.a.cols), right = BytesOf(dtype, a.b.cols);
  for (int64_t i = slice.begin; i < slice.end; ++i) {
    std::memcpy(row(a.y, i), row(a.a, i), static_cast<size_t>(left));
    std::memcpy(row(a.y, i) + left, row(a.b, i), static_cast<size_t>(right));
  }
}

}  // namespace

extern const Kernel<ConcatArgs> kConcatRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
