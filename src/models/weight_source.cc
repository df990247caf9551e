#include "models/weight_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/quant_format.h"

namespace weft::models {
namespace {

float Changed(float w, ValueChange change) {
  switch (change) {
    case ValueChange::kNone: break;
    case ValueChange::kPlusOne: return w + 1.0f;
    case ValueChange::kMinusExp: return static_cast<float>(-std::exp(static_cast<double>(w)));
  }
  return w;
}

}  // namespace

int64_t HeadOrder::At(int64_t i) const {
  const int64_t head = i / width, r = i % width;
  switch (kind) {
    case Kind::kAsIs: break;
    case Kind::kRopePairs: return head * width + r % (width / 2) * 2 + r / (width / 2);
    case Kind::kTiled: return (head % per_group * groups + head / per_group) * width + r;
  }
  return i;
}

const std::byte* WeightSource::Row(int64_t expert, int64_t i) const {
  if (tensors.size() > 1)
    return tensors[static_cast<size_t>(expert)]->data + FileRow(i) * row_bytes();
  return tensor().data + (expert * expert_rows + FileRow(i)) * row_bytes();
}

void WeightSource::ReadRow(int64_t expert, int64_t i, std::byte* to) const {
  const std::byte* row = Row(expert, i);
  if (columns_in_order()) {
    std::memcpy(to, row, static_cast<size_t>(row_bytes()));
    return;
  }
  const int64_t bytes = BytesOf(dtype(), columns.width);
  for (int64_t at = 0; at < shape.back(); at += columns.width, to += bytes) {
    std::memcpy(to, row + BytesOf(dtype(), columns.At(at)), static_cast<size_t>(bytes));
  }
}

std::span<const std::byte> WeightSource::Extent(int64_t expert, int64_t begin,
                                                int64_t count) const {
  if (count == 0) return {};
  const std::byte *first = Row(expert, begin), *last = first;
  for (int64_t i = begin + 1; i < begin + count; ++i) {
    const std::byte* row = Row(expert, i);
    first = std::min(first, row);
    last = std::max(last, row);
  }
  return {first, static_cast<size_t>(last - first + row_bytes())};
}

std::vector<float> WeightSource::Values() const {
  std::vector<float> values;
  if (shape.size() == 1) {
    std::vector<float> stored(static_cast<size_t>(tensor().shape[0]));
    DequantiseRow(dtype(), tensor().data, tensor().shape[0], stored.data());
    for (int64_t i = 0; i < shape[0]; ++i)
      values.push_back(stored[static_cast<size_t>(FileRow(i))]);
  } else {
    const int64_t n = shape[shape.size() - 2], k = shape.back();
    std::vector<std::byte> row(static_cast<size_t>(row_bytes()));
    values.resize(static_cast<size_t>(experts() * n * k));
    float* to = values.data();
    for (int64_t expert = 0; expert < experts(); ++expert) {
      for (int64_t i = 0; i < n; ++i, to += k) {
        ReadRow(expert, i, row.data());
        DequantiseRow(dtype(), row.data(), k, to);
      }
    }
  }
  for (float& w : values) w = Changed(w, change);
  return values;
}

}  // namespace weft::models
