#include "kernels/gdn/gated_delta_case.h"

namespace weft::kernels {
namespace {

using testing::DeltaShape;
using testing::DeltaWorld;
using testing::Matrix;
using testing::Tokens;
using MakeDelta = std::function<DeltaWorld()>;

const Kernel<GatedDeltaArgs>& GatedDeltaContract() { return *GatedDeltaKernels().back(); }

MakeDelta Of(const Kernel<GatedDeltaArgs>& kernel, const DeltaShape& shape, int fill = 0xa5) {
  return [&kernel, shape, fill] { return DeltaWorld(kernel, shape, fill); };
}

TEST(GatedDelta, EveryVariantAndPartitionEqualsTheContract) {
  for (const DeltaShape& shape : testing::DeltaShapes()) {
    for (const auto* kernel : testing::Runnable(GatedDeltaKernels())) {
      for (uint32_t slices : {0u, 5u}) {
        SCOPED_TRACE(std::string(kernel->name) + " " + ::testing::PrintToString(shape));
        testing::ExpectEqualSteps(Of(GatedDeltaContract(), shape), Of(*kernel, shape), slices);
      }
    }
  }
}

TEST(GatedDelta, NeitherCutsNorCompanionsNorGarbageNorRejectionLeaveATrace) {
  for (const DeltaShape& shape : testing::DeltaShapes()) {
    if (shape.key_dim > 64) continue;
    SCOPED_TRACE(::testing::PrintToString(shape));
    const MakeDelta make = Of(GatedDeltaContract(), shape);
    testing::ExpectCutsLeaveNoTrace(make, 8);
    testing::ExpectCompanionsLeaveNoTrace(make);
    testing::ExpectGarbageLeavesNoTrace(make, Of(GatedDeltaContract(), shape, 0xff));
    testing::ExpectRejectionLeavesNoTrace(make, 2);
  }
}

// Rows are walked in blocks of 64: cuts and logs on both sides of their ends.
TEST(GatedDelta, BlocksOfRowsLeaveNoTrace) {
  const DeltaShape shape{.dtype = DType::kF32, .key_dim = 32, .value_dim = 32, .log_max = 64};
  for (const auto* kernel : testing::Runnable(GatedDeltaKernels())) {
    for (const int rows : {63, 64, 65, 128, 130}) {
      DeltaWorld plain(GatedDeltaContract(), shape);
      const Matrix expected = plain.Step({{.tokens = Tokens(0, rows)}});
      for (const int logged : {1, 2, 63, 64}) {
        if (logged > rows) continue;
        DeltaWorld world(*kernel, shape);
        const Matrix got = world.Step({{.tokens = Tokens(0, rows), .logged = logged}});
        EXPECT_EQ(got.buffer(), expected.buffer()) << kernel->name << " " << rows << " " << logged;
        world.Step({{.position = rows, .tokens = {}, .replay = logged}});
        EXPECT_EQ(world.Settled(0), plain.Settled(0)) << kernel->name << " " << rows;
      }
    }
  }
}

// Negative control: an accepted count off by one, and a stale state, are seen.
TEST(GatedDelta, AnotherAcceptedCountIsSeenInTheBits) {
  const auto after = [](int replay) {
    DeltaWorld world(GatedDeltaContract(), {});
    world.Step({{.tokens = Tokens(0, 5)}});
    world.Step({{.position = 5, .tokens = Tokens(5, 3), .logged = 2}});
    return testing::RowBytes(
        world.Step({{.position = 6 + replay, .tokens = {77}, .replay = replay}}), 0);
  };
  EXPECT_NE(after(0), after(1));
  EXPECT_NE(after(1), after(2));
}

TEST(GatedDelta, ColumnsBeyondTheHeadStayZero) {
  const DeltaShape shape{.value_dim = 17};
  DeltaWorld world(GatedDeltaContract(), shape, 0xff);
  world.Step({{.slot = 2, .tokens = Tokens(0, 9)}});
  const DeltaStateLayout& layout = world.layout();
  const float* slot = world.pool().as<float>() + 2 * (layout.slot_floats() + 32);
  for (int head = 0; head < shape.value_heads(); ++head) {
    for (int i = 0; i < shape.key_dim; ++i) {
      for (int j = 17; j < 32; ++j) {
        uint32_t bits;
        std::memcpy(&bits, slot + layout.element_offset(head, i, j), 4);
        ASSERT_EQ(bits, 0u);
      }
    }
  }
}

// One head in double, and how far fp32 can be off, e = 2^-24. With |k| = 1 and 0 <= beta <= 1 a row
// is S <- gamma (I - beta k k^T) S + beta k v^T, which shortens what a column S_j is off by: in the
// 2-norm, off_j <- gamma off_j + what this row's own roundings add. Those, relatively:
//   k, q    a sum of squares of one sign in 16 lanes and a tree: (Dk/16 + 5) e, half of it behind the
//           root; root, quotient and products: (Dk/32 + 6) e, 3 e more for q.
//   gamma   the argument x of softplus is rounded once, softplus off by 2 ulp, g by a product, exp by
//           an ulp: |neg_exp_a| (|x| + 5 softplus) e + 2 e.   beta: 4 e.
//   sums    of Dk/4 terms a chain: (Dk/4 + 3) e of the sum of magnitudes, at most |k| |S_j|.
class DeltaInDouble {
 public:
  DeltaInDouble(int key_dim, int value_dim)
      : dk_(key_dim), dv_(value_dim), state_(key_dim * value_dim), off_(value_dim) {}

  struct Row {
    std::vector<double> q, k, v;
    double x, neg_exp_a, b;
  };
  // y and its bound before the rounding, for every column.
  std::vector<std::pair<double, double>> Step(Row r) {
    const double chain = (dk_ / 4.0 + 3) * kE;
    const double off_k = (dk_ / 32.0 + 6) * kE;
    const double off_q = off_k + 3 * kE;
    Normalise(r.k, 1);
    Normalise(r.q, 1 / std::sqrt(double(dk_)));
    const double softplus = std::log1p(std::exp(r.x));
    const double gamma = std::exp(r.neg_exp_a * softplus);
    const double off_gamma = -r.neg_exp_a * (std::abs(r.x) + 5 * softplus) * kE + 2 * kE;
    const double beta = 1 / (1 + std::exp(-r.b));
    std::vector<std::pair<double, double>> out;
    for (int j = 0; j < dv_; ++j) {
      double dot = 0, before = 0, after = 0, o = 0;
      for (int i = 0; i < dk_; ++i) {
        dot += r.k[i] * S(i, j);
        before += S(i, j) * S(i, j);
      }
      before = std::sqrt(before);
      const double d = r.v[j] - gamma * dot;
      const double e = beta * d;
      for (int i = 0; i < dk_; ++i) {
        S(i, j) = gamma * S(i, j) + r.k[i] * e;
        after += S(i, j) * S(i, j);
        o += r.q[i] * S(i, j);
      }
      after = std::sqrt(after);
      const double off_d = gamma * before * (off_k + chain) +
                           std::abs(gamma * dot) * (off_gamma + kE) + std::abs(d) * kE;
      const double off_e = beta * off_d + std::abs(e) * 5 * kE;
      off_[j] = gamma * off_[j] + gamma * before * (off_gamma + kE) + std::abs(e) * off_k + off_e +
                after * kE;
      const double off_o = (off_[j] + after * (off_q + chain)) / std::sqrt(double(dk_));
      out.push_back({o, 1.01 * off_o});  // 1 %: products of two errors
    }
    return out;
  }

 private:
  static constexpr double kE = 0x1p-24;
  double& S(int i, int j) { return state_[i * dv_ + j]; }
  static void Normalise(std::vector<double>& x, double gain) {
    double sum = double{1e-6f};
    for (double value : x) sum += value * value;
    for (double& value : x) value = value / std::sqrt(sum) * gain;
  }

  int dk_, dv_;
  std::vector<double> state_, off_;
};

TEST(GatedDelta, ContractIsWithinItsBoundOfDouble) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const DeltaShape shape{
        .dtype = dtype, .key_heads = 2, .ratio = 2, .key_dim = 64, .value_dim = 32};
    constexpr int kTokens = 200;
    DeltaWorld world(GatedDeltaContract(), shape);
    const Matrix y = world.Step({{.tokens = Tokens(0, kTokens)}});
    const DeltaWorld::Inputs in = world.InputsOf(Tokens(0, kTokens));
    const double u = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24;
    double worst_bound = 0;
    for (int head = 0; head < shape.value_heads(); ++head) {
      DeltaInDouble exact(shape.key_dim, shape.value_dim);
      for (int t = 0; t < kTokens; ++t) {
        DeltaInDouble::Row row{.x = double{in.a.Get(t, head)} + world.dt_bias(head),
                               .neg_exp_a = world.neg_exp_a(head),
                               .b = in.b.Get(t, head)};
        for (int i = 0; i < shape.key_dim; ++i) {
          row.q.push_back(in.q.Get(t, head / 2 * shape.key_dim + i));
          row.k.push_back(in.k.Get(t, head / 2 * shape.key_dim + i));
        }
        for (int j = 0; j < shape.value_dim; ++j) {
          row.v.push_back(in.v.Get(t, head * shape.value_dim + j));
        }
        const auto expected = exact.Step(row);
        for (int j = 0; j < shape.value_dim; ++j) {
          const auto [o, bound] = expected[j];
          worst_bound = std::max(worst_bound, bound);
          ASSERT_LE(std::abs(y.Get(t, head * shape.value_dim + j) - o),
                    bound + u * (std::abs(o) + bound))
              << "head " << head << " row " << t << " column " << j;
        }
      }
    }
    EXPECT_LT(worst_bound, 1e-4);  // it does not grow with the rows: gamma takes it back
  }
}

TEST(GatedDelta, RefusesWithTheNumber) {
  const DeltaShape shape{.dtype = DType::kF32};
  const DeltaWorld world(GatedDeltaContract(), shape);
  const DeltaWorld::Inputs in = world.InputsOf({});
  const Matrix y(shape.dtype, 0, shape.value_heads() * shape.value_dim);
  for (const auto* kernel : GatedDeltaKernels()) {
    const GatedDeltaArgs good = world.ArgsOver(in, y.view());
    EXPECT_EQ(kernel->refuse(good), "");
    EXPECT_EQ(kernel->units(good), 0);  // no segments
    GatedDeltaArgs a = good;
    a.log_max = 65;
    EXPECT_EQ(kernel->refuse(a), "a log of 65 rows, not 0..64");
    a = good;
    a.b.dtype = DType::kBF16;
    EXPECT_NE(kernel->refuse(a), "");
    a = good;
    a.value_dim = 17;
    EXPECT_EQ(kernel->refuse(a), "v or y is not 68 wide");
    a = good;
    a.state_stride -= 48;
    EXPECT_NE(kernel->refuse(a), "");
  }
}

}  // namespace
}  // namespace weft::kernels
