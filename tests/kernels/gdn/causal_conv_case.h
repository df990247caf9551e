// A pool of convolution states and the steps that a kernel takes over it (sequence_laws.h).
#pragma once

#include <cmath>

#include "kernels/gdn/causal_conv.h"
#include "kernels/gdn/sequence_laws.h"

namespace weft::kernels::testing {

struct ConvShape {
  DType dtype = DType::kBF16;
  int64_t channels = 200;
  int taps = 4;
  int log_max = 3;
  bool in_place = false;
};

inline std::vector<ConvShape> ConvShapes() {
  std::vector<ConvShape> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (bool in_place : {false, true}) {
      out.push_back({dtype, 64, 4, 3, in_place});
      out.push_back({dtype, 200, 4, 3, in_place});
      out.push_back({dtype, 77, 2, 0, in_place});
      out.push_back({dtype, 1, 3, 1, in_place});
      out.push_back({dtype, 130, 8, 5, in_place});
    }
  }
  return out;
}

class ConvWorld {
 public:
  static constexpr int kSlots = 4;
  static constexpr int64_t kApart = 3;  // between rows of w and of a slot

  ConvWorld(const Kernel<CausalConvArgs>& kernel, const ConvShape& shape, int fill = 0xa5)
      : kernel_(kernel),
        shape_(shape),
        w_(shape.taps * (shape.channels + kApart)),
        pool_(kSlots * SlotElements() * Bytes()) {
    std::memset(pool_.data(), fill, static_cast<size_t>(pool_.bytes()));
    for (int64_t i = 0; i < std::ssize(w_); ++i) w_[i] = TokenValue(1, i, 9);
  }

  Matrix Step(const std::vector<TokenRows>& step, uint32_t slices = 0) {
    ScopedFlushDenormals flush;
    const std::vector<int> tokens = TokensOf(step);
    const std::vector<Segment> segments = SegmentsOf(step);
    const Matrix x(shape_.dtype, std::ssize(tokens), shape_.channels);
    FillByToken(x, tokens, shape_.channels, 1);
    Matrix y(shape_.dtype, std::ssize(tokens), shape_.channels);
    CausalConvArgs a = ArgsOver(0, shape_.channels);
    a.x = x.view();
    a.y = y.view();
    a.segments = segments.data();
    a.segment_count = static_cast<int>(segments.size());
    if (shape_.in_place) {
      FillByToken(y, tokens, shape_.channels, 1);
      a.x = a.y;
    }
    EXPECT_EQ(kernel_.refuse(a), "");
    std::mt19937 random(slices);
    slices == 0 ? RunWhole(kernel_, a)
                : RunSlices(kernel_, a, RandomSlices(kernel_.units(a), random));
    return y;
  }

  // What does not depend on the rows.
  CausalConvArgs ArgsOver(int64_t begin, int64_t channels) const {
    CausalConvArgs a;
    a.x = a.y = {.cols = channels, .dtype = shape_.dtype};
    a.w = w_.data() + begin;
    a.w_stride = shape_.channels + kApart;
    a.taps = shape_.taps;
    a.state = pool_.data() + begin * Bytes();
    a.state_stride = SlotElements();
    a.state_row_stride = shape_.channels + kApart;
    a.log_max = shape_.log_max;
    return a;
  }

  std::string Settled(int slot) const {
    std::string out;
    for (int row = 0; row < shape_.taps - 1; ++row) {
      out.append(reinterpret_cast<const char*>(pool_.data()) +
                     (slot * SlotElements() + row * (shape_.channels + kApart)) * Bytes(),
                 static_cast<size_t>(shape_.channels * Bytes()));
    }
    return out;
  }
  const Buffer& pool() const { return pool_; }
  int log_max() const { return shape_.log_max; }
  double w(int tap, int64_t c) const { return w_[tap * (shape_.channels + kApart) + c]; }

 private:
  int64_t Bytes() const { return FactsOf(shape_.dtype).block_bytes; }
  int64_t SlotElements() const {
    return (shape_.taps - 1 + shape_.log_max) * (shape_.channels + kApart) + 11;
  }

  const Kernel<CausalConvArgs>& kernel_;
  ConvShape shape_;
  std::vector<float> w_;
  Buffer pool_;
};

}  // namespace weft::kernels::testing
