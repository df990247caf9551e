// Rows to be quantised, and random ones with every extreme in them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "kernels/float_env.h"
#include "kernels/matmul/test_matrix.h"
#include "kernels/memory.h"
#include "kernels/quant/quantised_rows.h"

namespace weft::kernels::testing {

struct QuantiseCase {
  QuantiseCase(DType dtype, int64_t rows, int64_t k) : x(rows * (k + 3) * 4) {
    args.x = {x.data(), rows, k, k + 3, dtype};
    this->rows = rows;
    this->k = k;
  }
  void Set(int64_t row, int64_t col, float value) {
    if (args.x.dtype == DType::kF32) {
      args.x.row<float>(row)[col] = value;
    } else {
      args.x.row<Bf16>(row)[col] = ToBf16(value);
    }
  }
  // The buffer has room for two rows more than are live: a guard.
  Buffer Run(const Kernel<QuantiseRowsArgs>& kernel, const std::vector<Slice>& slices) {
    const ScopedFlushDenormals environment;
    Buffer out(QuantisedRows::Bytes(rows + 2, k));
    args.out = QuantisedRows::In(out.data(), rows + 2, rows, k);
    RunSlices(kernel, args, slices);
    return out;
  }
  Buffer x;
  QuantiseRowsArgs args;
  int64_t rows;
  int64_t k;
};

// visit(case) for both dtypes and odd shapes; the case holds random rows.
template <typename Visit>
void ForEachQuantiseCase(std::mt19937& random, const Visit& visit) {
  const float extremes[] = {0.0f,
                            -0.0f,
                            1e-40f,
                            1.4e-36f,
                            1.6e-36f,
                            1e-38f,
                            3e38f,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t rows : {1, 2, 7, 40}) {
      for (const int64_t k : {32, 96, 608, 1024, 2080}) {
        QuantiseCase c(dtype, rows, k);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < k; ++i) {
            const float scale = std::ldexp(1.0f, static_cast<int>(i / 32 % 40) * 6 - 125);
            c.Set(row, i, RandomFloat(random) * scale);
          }
          c.Set(row, static_cast<int64_t>(random() % static_cast<uint64_t>(k)),
                extremes[random() % 9]);
        }
        visit(c);
      }
    }
  }
}

}  // namespace weft::kernels::testing
