// A pool of recurrent states and the steps that a kernel takes over it (sequence_laws.h).
#pragma once

#include <cmath>

#include "kernels/gdn/gated_delta.h"
#include "kernels/gdn/sequence_laws.h"

namespace weft::kernels::testing {

struct DeltaShape {
  DType dtype = DType::kBF16;
  int key_heads = 2;
  int ratio = 2;  // value heads per key head
  int key_dim = 16;
  int value_dim = 16;
  int log_max = 3;

  int value_heads() const { return key_heads * ratio; }
};

inline std::vector<DeltaShape> DeltaShapes() {
  std::vector<DeltaShape> out;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    out.push_back({dtype, 2, 1, 16, 16, 3});
    out.push_back({dtype, 1, 2, 32, 17, 5});
    out.push_back({dtype, 2, 3, 20, 32, 1});
    out.push_back({dtype, 1, 3, 64, 40, 0});
    out.push_back({dtype, 1, 1, 3, 1, 2});
    out.push_back({dtype, 1, 2, 17, 33, 2});
  }
  out.push_back({DType::kBF16, 1, 2, 128, 128, 4});
  return out;
}

inline void PrintTo(const DeltaShape& s, std::ostream* os) {
  *os << NameOf(s.dtype) << " " << s.key_heads << "x" << s.ratio << " heads of " << s.key_dim
      << " by " << s.value_dim << ", log " << s.log_max;
}

class DeltaWorld {
 public:
  static constexpr int kSlots = 4;
  static constexpr int kGap = 2;  // columns of a and b beyond the heads

  DeltaWorld(const Kernel<GatedDeltaArgs>& kernel, const DeltaShape& shape, int fill = 0xa5)
      : kernel_(kernel),
        shape_(shape),
        layout_{shape.value_heads(), shape.key_dim, shape.value_dim, shape.log_max},
        pool_(kSlots * Stride() * 4) {
    std::memset(pool_.data(), fill, static_cast<size_t>(pool_.bytes()));
    for (int h = 0; h < shape.value_heads(); ++h) {
      neg_exp_a_.push_back(-0.05f - 0.3f * static_cast<float>(h % 5));
      dt_bias_.push_back(TokenValue(2, h, 5));
      key_of_head_.push_back(h / shape.ratio);
    }
  }

  struct Inputs {
    Matrix q, k, v, a, b;
  };
  Inputs InputsOf(const std::vector<int>& tokens) const {
    const auto rows = std::ssize(tokens);
    const int64_t keys = int64_t{shape_.key_heads} * shape_.key_dim;
    const int64_t values = int64_t{shape_.value_heads()} * shape_.value_dim;
    const int64_t gates = shape_.value_heads() + kGap;
    Inputs in{Matrix(shape_.dtype, rows, keys), Matrix(shape_.dtype, rows, keys),
              Matrix(shape_.dtype, rows, values), Matrix(shape_.dtype, rows, gates),
              Matrix(shape_.dtype, rows, gates)};
    FillByToken(in.q, tokens, keys, 1);
    FillByToken(in.k, tokens, keys, 2);
    FillByToken(in.v, tokens, values, 3);
    FillByToken(in.a, tokens, gates, 4);
    FillByToken(in.b, tokens, gates, 6);
    return in;
  }

  GatedDeltaArgs ArgsOver(const Inputs& in, const View& y) const {
    GatedDeltaArgs a;
    a.q = in.q.view();
    a.k = in.k.view();
    a.v = in.v.view();
    a.a = in.a.view();
    a.b = in.b.view();
    a.y = y;
    a.neg_exp_a = neg_exp_a_.data();
    a.dt_bias = dt_bias_.data();
    a.key_of_head = key_of_head_.data();
    a.key_heads = shape_.key_heads;
    a.value_heads = shape_.value_heads();
    a.key_dim = shape_.key_dim;
    a.value_dim = shape_.value_dim;
    a.state = pool_.as<float>();
    a.state_stride = Stride();
    a.log_max = shape_.log_max;
    return a;
  }

  Matrix Step(const std::vector<TokenRows>& step, uint32_t slices = 0) {
    ScopedFlushDenormals flush;
    const std::vector<int> tokens = TokensOf(step);
    const std::vector<Segment> segments = SegmentsOf(step);
    const Inputs in = InputsOf(tokens);
    Matrix y(shape_.dtype, std::ssize(tokens), int64_t{shape_.value_heads()} * shape_.value_dim);
    GatedDeltaArgs a = ArgsOver(in, y.view());
    a.segments = segments.data();
    a.segment_count = static_cast<int>(segments.size());
    EXPECT_EQ(kernel_.refuse(a), "");
    std::mt19937 random(slices);
    slices == 0 ? RunWhole(kernel_, a)
                : RunSlices(kernel_, a, RandomSlices(kernel_.units(a), random));
    return y;
  }

  std::string Settled(int slot) const {
    return {reinterpret_cast<const char*>(pool_.as<float>() + slot * Stride()),
            static_cast<size_t>(layout_.state_floats() * 4)};
  }
  const Buffer& pool() const { return pool_; }
  int log_max() const { return shape_.log_max; }
  const DeltaStateLayout& layout() const { return layout_; }
  float neg_exp_a(int head) const { return neg_exp_a_[head]; }
  float dt_bias(int head) const { return dt_bias_[head]; }

 private:
  int64_t Stride() const { return layout_.slot_floats() + 32; }

  const Kernel<GatedDeltaArgs>& kernel_;
  DeltaShape shape_;
  DeltaStateLayout layout_;
  Buffer pool_;
  std::vector<float> neg_exp_a_, dt_bias_;
  std::vector<int32_t> key_of_head_;
};

}  // namespace weft::kernels::testing
