// libFuzzer: any bytes as a GGUF file. Whatever Parse accepts must lie inside the bytes, and its
// configuration must be read or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "io/gguf.h"
#include "io/gguf_config.h"
#include "tensor/quant_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using weft::io::Gguf;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const weft::Result<Gguf> gguf = Gguf::Parse({begin, size}, "fuzz");
  if (!gguf.ok()) return 0;
  for (const weft::io::Tensor& tensor : gguf.value().tensors()) {
    if (tensor.bytes < 0 || tensor.data < begin || tensor.data + tensor.bytes > begin + size)
      std::abort();
    const weft::DTypeFacts& facts = weft::FactsOf(tensor.dtype);
    const bool floats = tensor.dtype <= weft::DType::kF16 || weft::IsQuantised(tensor.dtype);
    if (!floats || tensor.bytes == 0) continue;
    std::vector<float> block(static_cast<size_t>(facts.block_elements));
    weft::DequantiseRow(tensor.dtype, tensor.data + tensor.bytes - facts.block_bytes,
                        facts.block_elements, block.data());
  }
  (void)weft::io::ParseGgufConfig(gguf.value(), gguf.value().tensors()).ok();
  return 0;
}
