#include "models/blocks/tables.h"

#include <numeric>

namespace weft::models {

int64_t QuantBlockOf(DType weight, bool int8_activations) {
  if (!IsQuantised(weight)) return 2;
  const int64_t block = FactsOf(weight).block_elements;
  return int8_activations ? std::lcm<int64_t>(32, block) : block;
}

int64_t HeadAtom(int64_t head_dim, int64_t block) {
  return block / std::gcd(block, head_dim) * head_dim;
}

int64_t WidthAtom(int64_t block) { return std::lcm<int64_t>(32, block); }

}  // namespace weft::models
