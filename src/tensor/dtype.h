// Element types of tensors, plain and block-quantised, and what each costs.
// Block layouts and formulas: docs/numerics.md 8; the GGUF file format of llama.cpp.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

enum class DType : uint8_t {
  kF32,
  kBF16,
  kF16,
  kI32,
  kI64,
  kI8,
  kU8,
  kBool,
  // Block formats of GGUF. A row of a matrix is a whole number of blocks.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

struct DTypeFacts {
  std::string_view name;  // as vLLM and PyTorch print it, or GGUF's name
  int block_elements;     // 1 for plain types
  int block_bytes;
  bool has_min;        // x = q*d + m (or q*d - m) rather than q*d
  int scale_elements;  // elements that share one scale inside a block (32 or 16)
};

const DTypeFacts& FactsOf(DType dtype);

inline bool IsQuantised(DType dtype) { return dtype >= DType::kQ4_0; }
inline std::string_view NameOf(DType dtype) { return FactsOf(dtype).name; }

// Bytes of `elements` in a row. REQUIRES: elements is a multiple of the block.
inline int64_t BytesOf(DType dtype, int64_t elements) {
  const DTypeFacts& facts = FactsOf(dtype);
  return elements / facts.block_elements * facts.block_bytes;
}

}  // namespace weft
