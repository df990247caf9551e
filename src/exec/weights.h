// The weights in memory: every leaf of every tensor packed once, in huge pages, whatever the number
// of ranks; a rank's matrix is a table of pointers to panels (kernels/matmul/packed_matrix.h).
//
// Thread: Load() at start (it starts threads of its own and joins them); immutable afterwards.
// Errors: kInvalid naming file and tensor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/memory.h"
#include "graph/graph.h"
#include "io/checkpoint.h"
#include "kernels/matmul/packed_matrix.h"
#include "models/model.h"

namespace weft::exec {

// A packed matrix with the arrays that it points to.
struct PackedTable {
  std::vector<int32_t> panel_begin, k_begin;
  std::vector<const std::byte*> data;  // [k_leaves][panels]
  kernels::PackedMatrix matrix(DType dtype, int64_t n, int64_t k) const;
};

class Weights {
 public:
  // Called with bytes done and in all, from the loading thread.
  using Progress = std::function<void(int64_t done, int64_t total)>;

  // The panels that will be used, told when all have their place and none is packed.
  using Wanted = std::function<std::vector<const std::byte*>(const Weights&)>;

  // The params of all graphs; source pages are dropped as tensors are packed. With `wanted`, leaves
  // that hold none of those panels are left out: their memory is never touched.
  static Result<std::unique_ptr<Weights>> Load(const io::Checkpoint& checkpoint,
                                               const std::vector<const graph::Graph*>& graphs,
                                               int threads, const Progress& progress,
                                               const Wanted& wanted = {});

  // A rank's part of one or several matrices over the same input, their outputs side by side.
  // `all_ranks`: everybody's leaves (the embedding reads its owner's in place). `expert`: which
  // matrix of params that have one each.
  PackedTable TableOf(const graph::Graph& g, const std::vector<graph::ValueId>& weights, int rank,
                      bool all_ranks = false, int64_t expert = 0) const;
  // A rank's part of a float32 vector (gain, bias) or of rows of filters: all of it if it is not
  // cut.
  std::vector<float> VectorOf(const graph::Graph& g, graph::ValueId param, int rank) const;

  int64_t bytes() const { return packed_bytes_; }
  const device::Memory& memory() const { return memory_; }

 private:
  struct Matrix {
    DType dtype;
    int64_t experts;               // 1 of a param without
    LeafTable n_leaves, k_leaves;  // one of them is whole
    std::vector<std::vector<const std::byte*>>
        panels;  // [(expert * n_leaves + n_leaf) * k_leaves + k_leaf][panel]
  };
  const Matrix& MatrixOf(const std::string& name) const;

  device::Memory memory_;
  int64_t packed_bytes_ = 0;
  std::map<std::string, Matrix, std::less<>> matrices_;
  std::map<std::string, std::vector<float>, std::less<>> vectors_;
};

}  // namespace weft::exec
