// libFuzzer: any bytes as a safetensors file. What Parse accepts tiles the buffer exactly.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using weft::io::Safetensors;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const weft::Result<Safetensors> file = Safetensors::Parse({begin, size}, "fuzz");
  if (!file.ok()) return 0;
  const std::byte* end = nullptr;
  for (const weft::io::Tensor& tensor : file.value().tensors()) {
    if (end != nullptr && tensor.data != end) std::abort();
    if (tensor.data < begin) std::abort();
    end = tensor.data + tensor.bytes;
  }
  if (end != nullptr && end != begin + size) std::abort();
  return 0;
}
