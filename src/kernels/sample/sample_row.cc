#include "kernels/sample/sample_row.h"

namespace weft::kernels {

float UniformDraw(uint64_t seed, uint32_t choice, uint32_t position, uint32_t kind) {
  return static_cast<float>(DrawWords(seed, choice, position, kind)[0] >> 8) * 0x1p-24f;
}

void EditLogits(const SampleRow& row, int64_t vocab, float* x) {
  const float never = -__builtin_inff();
  const auto inside = [&](int32_t id) { return id >= 0 && id < vocab; };
  if (row.allowed != nullptr) {
    for (int64_t word = 0; word * 32 < vocab; ++word) {
      if (row.allowed[word] == 0xffffffffu) continue;
      for (int64_t id = word * 32; id < vocab && id < word * 32 + 32; ++id) {
        if (((row.allowed[word] >> (id % 32)) & 1u) == 0) x[id] = never;
      }
    }
  }
  for (int32_t i = 0; i < row.banned_count; ++i) {
    if (inside(row.banned[i])) x[row.banned[i]] = never;
  }
  for (int32_t i = 0; i < row.biases; ++i) {
    if (inside(row.bias_ids[i])) x[row.bias_ids[i]] = x[row.bias_ids[i]] + row.bias[i];
  }
  for (int32_t i = 0; i < row.seen; ++i) {
    const int32_t id = row.seen_ids[i];
    if (!inside(id)) continue;
    float value = x[id];
    if (row.repetition_penalty != 1.0f) {
      value = value > 0.0f ? value / row.repetition_penalty : value * row.repetition_penalty;
    }
    if (row.seen_counts[i] > 0) {
      value = __builtin_fmaf(-row.frequency_penalty, static_cast<float>(row.seen_counts[i]), value);
      value = value - row.presence_penalty;
    }
    x[id] = value;
  }
}

}  // namespace weft::kernels
