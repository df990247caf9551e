#include "kernels/kernel.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "kernels/float_env.h"

namespace weft::kernels {
namespace {

struct Args {
  int n = 0;
};

std::string RefuseOdd(const Args& a) { return a.n % 2 != 0 ? "odd" : ""; }

constexpr Kernel<Args> kWide{.name = "wide", .isa = Isa::kAvx512};
constexpr Kernel<Args> kEven{.name = "even", .isa = Isa::kAvx2, .refuse = RefuseOdd};
constexpr Kernel<Args> kAny{.name = "ref"};
constexpr std::array<const Kernel<Args>*, 3> kList{&kWide, &kEven, &kAny};

TEST(Kernel, TheFirstThatCanIsChosen) {
  EXPECT_EQ(Choose<Args>(kList, {2}, Isa::kAvx512)->name, "wide");
  EXPECT_EQ(Choose<Args>(kList, {2}, Isa::kAvx2)->name, "even");
  EXPECT_EQ(Choose<Args>(kList, {3}, Isa::kAvx2)->name, "ref");
  EXPECT_EQ(Choose<Args>(kList, {2}, Isa::kAvx2, "ref")->name, "ref");
  EXPECT_EQ(Choose<Args>(kList, {2}, Isa::kAvx2, "wide"), nullptr);
  EXPECT_EQ(Choose<Args>(kList, {3}, Isa::kAvx2, "even"), nullptr);
}

TEST(Kernel, SlicesTileTheUnits) {
  for (const int64_t units : {0, 1, 5, 64}) {
    int64_t end = 0;
    for (int worker = 0; worker < 3; ++worker) {
      const Slice slice = SliceOf(units, worker, 3);
      EXPECT_EQ(slice.begin, end);
      EXPECT_LE(slice.end - slice.begin, (units + 2) / 3);
      end = slice.end;
    }
    EXPECT_EQ(end, units);
  }
}

TEST(Kernel, ThisCpuHasTheFloorThatTheTestsWereBuiltFor) {
  EXPECT_GE(DetectIsa(), Isa::kAvx2);
  EXPECT_EQ(NameOf(Isa::kAvx512Vnni), "avx512vnni");
}

TEST(FloatEnvironment, FlushesAndIsPutBack) {
  volatile float tiny = std::numeric_limits<float>::min();
  volatile float denormal = 1e-40f;
  const bool before = FloatEnvironmentIsSet();
  {
    const ScopedFlushDenormals environment;
    EXPECT_TRUE(FloatEnvironmentIsSet());
    EXPECT_EQ(tiny * 0.5f, 0.0f);
    EXPECT_EQ(denormal * 1e30f, 0.0f);
  }
  EXPECT_EQ(FloatEnvironmentIsSet(), before);
}

}  // namespace
}  // namespace weft::kernels
