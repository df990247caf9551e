#include "io/gguf_types.h"

#include <array>
#include <optional>
#include <string_view>

namespace weft::io {
namespace {

struct GgmlType {
  std::string_view name;  // empty: never given out, or given up
  std::optional<DType> dtype;
};

constexpr std::array<GgmlType, 43> kGgmlTypes{{
    {"F32", DType::kF32},
    {"F16", DType::kF16},
    {"Q4_0", DType::kQ4_0},
    {"Q4_1", DType::kQ4_1},
    {},
    {},
    {"Q5_0", DType::kQ5_0},
    {"Q5_1", DType::kQ5_1},
    {"Q8_0", DType::kQ8_0},
    {"Q8_1", {}},
    {"Q2_K", {}},
    {"Q3_K", {}},
    {"Q4_K", DType::kQ4_K},
    {"Q5_K", DType::kQ5_K},
    {"Q6_K", DType::kQ6_K},
    {"Q8_K", {}},
    {"IQ2_XXS", {}},
    {"IQ2_XS", {}},
    {"IQ3_XXS", {}},
    {"IQ1_S", {}},
    {"IQ4_NL", {}},
    {"IQ3_S", {}},
    {"IQ2_S", {}},
    {"IQ4_XS", {}},
    {"I8", DType::kI8},
    {"I16", {}},
    {"I32", DType::kI32},
    {"I64", DType::kI64},
    {"F64", {}},
    {"IQ1_M", {}},
    {"BF16", DType::kBF16},
    {},
    {},
    {},
    {"TQ1_0", {}},
    {"TQ2_0", {}},
    {},
    {},
    {},
    {"MXFP4", {}},
    {"NVFP4", {}},
    {"Q1_0", {}},
    {"Q2_0", {}},
}};

}  // namespace

Result<DType> DTypeOfGguf(uint32_t type) {
  if (type >= kGgmlTypes.size()) return Status::Unsupported("unknown tensor type {}", type);
  const GgmlType& facts = kGgmlTypes[type];
  if (facts.name.empty()) {
    return Status::Unsupported("tensor type {} was removed from the format", type);
  }
  if (!facts.dtype) {
    return Status::Unsupported(
        "tensor type {} ({}) is not supported; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, "
        "Q5_K and Q6_K are",
        facts.name, type);
  }
  return *facts.dtype;
}

uint32_t GgufTypeOf(DType dtype) {
  for (uint32_t type = 0; type < kGgmlTypes.size(); ++type) {
    if (kGgmlTypes[type].dtype == dtype) return type;
  }
  WEFT_CHECK(false, "GGUF has no type for {}", NameOf(dtype));
}

}  // namespace weft::io
