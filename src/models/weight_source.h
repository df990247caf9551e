// Where a param's bits lie. A param is [n], [n, k] or [experts, n, k] with its rows in our order; a
// file may hold it as a section of a larger tensor, with its heads in another order, or as one
// tensor an expert. What exec packs it asks for row by row: nothing is copied but the rows of a
// matrix whose columns are in another order too. Thread: plain data that looks into a Checkpoint,
// which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/tensor.h"

namespace weft::models {

// In which order a file has rows, or columns, told as where our number i lies.
struct HeadOrder {
  enum class Kind : uint8_t {
    kAsIs,
    kRopePairs,  // GGUF's llama: per head [width/2][2] in the file, [2][width/2] here
    kTiled,      // GGUF's qwen35: heads [per_group][groups] in the file, [groups][per_group] here
  };
  Kind kind = Kind::kAsIs;
  int64_t width = 1;      // rows of a head
  int64_t groups = 1;     // with kTiled: key heads
  int64_t per_group = 1;  // with kTiled: value heads of one key head

  int64_t At(int64_t i) const;
};

// Which rows of a tensor belong to the param: `count` from `begin` on in every `period`. Without a
// period, all.
struct Section {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t period = 0;

  int64_t At(int64_t i) const { return period == 0 ? i : i / count * period + begin + i % count; }
};

// What a value becomes once it is read as float32.
enum class ValueChange : uint8_t {
  kNone,
  kPlusOne,   // w -> w + 1, in float32: a gain that is stored around zero
  kMinusExp,  // w -> -exp(w), in double and rounded once: a decay that is stored as a logarithm
};

struct WeightSource {
  std::vector<const io::Tensor*> tensors;  // one, or one an expert; all of one format and shape
  std::vector<int64_t> shape;              // of the param
  HeadOrder order;                         // of its rows
  HeadOrder columns;                       // `width` is whole blocks of the format
  Section section;                         // of the rows of a tensor, or of an expert in it
  int64_t expert_rows = 0;                 // with one tensor for all experts: its rows of one
  ValueChange change = ValueChange::kNone;

  // For messages, and for what is the same in all.
  const io::Tensor& tensor() const { return *tensors.front(); }
  DType dtype() const { return tensor().dtype; }
  int64_t experts() const { return shape.size() == 3 ? shape[0] : 1; }
  // Bytes of one row of a matrix.
  int64_t row_bytes() const { return BytesOf(dtype(), shape.back()); }
  bool columns_in_order() const { return columns.kind == HeadOrder::Kind::kAsIs; }

  // The row that holds our row i (of a vector: element), inside its tensor or expert.
  int64_t FileRow(int64_t i) const { return section.At(order.At(i)); }
  // Our row i of an expert (0 without experts) as the file has it. REQUIRES: a matrix.
  const std::byte* Row(int64_t expert, int64_t i) const;
  // The same with the columns in our order. `to`: row_bytes().
  void ReadRow(int64_t expert, int64_t i, std::byte* to) const;
  // The bytes from the first to the last of `count` of our rows, with whatever lies between them.
  std::span<const std::byte> Extent(int64_t expert, int64_t begin, int64_t count) const;
  // The whole param as float32, row-major, with the change applied: vectors and small matrices.
  std::vector<float> Values() const;
};

}  // namespace weft::models
