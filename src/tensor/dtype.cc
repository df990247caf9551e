#include "tensor/dtype.h"

#include <array>

namespace weft {
namespace {

constexpr std::array<DTypeFacts, 16> kFacts{{
    {"float32", 1, 4, false, 1},
    {"bfloat16", 1, 2, false, 1},
    {"float16", 1, 2, false, 1},
    {"int32", 1, 4, false, 1},
    {"int64", 1, 8, false, 1},
    {"int8", 1, 1, false, 1},
    {"uint8", 1, 1, false, 1},
    {"bool", 1, 1, false, 1},
    {"Q4_0", 32, 18, false, 32},
    {"Q4_1", 32, 20, true, 32},
    {"Q5_0", 32, 22, false, 32},
    {"Q5_1", 32, 24, true, 32},
    {"Q8_0", 32, 34, false, 32},
    {"Q4_K", 256, 144, true, 32},
    {"Q5_K", 256, 176, true, 32},
    {"Q6_K", 256, 210, false, 16},
}};

}  // namespace

const DTypeFacts& FactsOf(DType dtype) { return kFacts[static_cast<size_t>(dtype)]; }

}  // namespace weft
