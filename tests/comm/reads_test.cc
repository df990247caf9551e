// Method::reads says exactly what Method::run takes from peers: with mirrors of the peers' windows
// that hold nothing else, every method gives the contract's bits.
#include <gtest/gtest.h>

#include <cstring>

#include "window_case.h"

namespace weft::comm {
namespace {

// A NaN in every float type, and no result of any case.
constexpr std::byte kPoison{0xFF};

// What a case did with mirrors that were filled from its reads, or from some of them.
struct Outcome {
  bool same_bits = true;
  bool one_owner = true;  // no byte was read twice
  int64_t read = 0, reads = 0;
};

// `skip`: the number of a read that is left out, for the negative control.
Outcome RunOverMirrors(WindowCase& test, Rng* rng, int64_t skip = -1) {
  const int n = test.members();
  // windows[viewer][holder]: a member's own window, and its mirrors of the others.
  std::vector<std::vector<std::vector<std::byte>>> windows(n);
  std::vector<std::vector<std::byte*>> seen(n);
  for (int viewer = 0; viewer < n; ++viewer) {
    for (int holder = 0; holder < n; ++holder) {
      auto& window = windows[viewer].emplace_back(test.WindowBytes(holder), kPoison);
      if (holder == viewer) test.Fill(holder, window.data());
      seen[viewer].push_back(window.data());
    }
  }
  test.See(seen[0]);
  Outcome out;
  const int phases = test.phases();
  for (int phase = 0; phase < phases; ++phase) {
    // As over a wire: a member's reads are told by each side from its own picture, and must be the
    // same distances into the holder's window with the same sizes.
    struct At {
      int64_t begin, rows, bytes, stride;
      bool operator==(const At&) const = default;
    };
    std::vector<std::vector<std::vector<At>>> reads(n,
                                                    std::vector<std::vector<At>>(n));  // [teller]
    for (int teller = 0; teller < n; ++teller) {
      test.See(seen[teller]);
      for (int reader = 0; reader < n; ++reader) {
        test.Reads(reader, phase, [&](const Read& r) {
          ASSERT_NE(r.from, reader);
          ASSERT_GT(r.rows * r.bytes, 0);
          const At at{r.data - seen[teller][r.from], r.rows, r.bytes, r.stride};
          ASSERT_GE(at.begin, 0);
          ASSERT_LE(at.begin + (r.rows - 1) * r.stride + r.bytes, test.WindowBytes(r.from));
          reads[teller][reader].push_back(at);
        });
      }
      EXPECT_EQ(reads[teller], reads[0]);
    }
    std::vector<std::vector<std::byte>> before(n);
    for (int m = 0; m < n; ++m) before[m] = windows[m][m];
    for (int reader = 0; reader < n; ++reader) {
      test.See(seen[reader]);
      // Only this phase's reads are there, not what an earlier one has left.
      for (int holder = 0; holder < n; ++holder) {
        if (holder != reader) std::ranges::fill(windows[reader][holder], kPoison);
      }
      std::vector<std::vector<bool>> taken(n);
      for (int m = 0; m < n; ++m) taken[m].resize(test.WindowBytes(m));
      test.Reads(reader, phase, [&](const Read& r) {
        out.read += r.rows * r.bytes;
        if (out.reads++ == skip) return;
        const int64_t begin = r.data - seen[reader][r.from];
        for (int64_t row = 0; row < r.rows; ++row) {
          const int64_t at = begin + row * r.stride;
          for (int64_t b = at; b < at + r.bytes; ++b) {
            out.one_owner = out.one_owner && !taken[r.from][b];
            taken[r.from][b] = true;
          }
          std::memcpy(windows[reader][r.from].data() + at, before[r.from].data() + at, r.bytes);
        }
      });
    }
    for (int m = 0; m < n; ++m) {
      test.See(seen[m]);
      const int64_t units = test.Units(m, phase);
      const int64_t cut = units == 0 ? 0 : static_cast<int64_t>(rng->Below(units + 1));
      test.Run(m, phase, {cut, units});
      test.Run(m, phase, {0, cut});
    }
  }
  for (int m = 0; m < n; ++m) {
    const Region result = test.ResultOf(m);
    const std::vector<std::byte> expected = test.Expected(m);
    out.same_bits =
        out.same_bits &&
        (expected.empty() ||
         std::memcmp(expected.data(), windows[m][m].data() + result.begin, expected.size()) == 0);
  }
  return out;
}

TEST(Reads, AreAllThatAMethodTakesFromItsPeers) {
  const kernels::ScopedFlushDenormals flush;
  Rng rng(41);
  for (int members : {1, 2, 3, 4, 5, 8}) {
    for (const auto& test : WindowCases(members, 100 + static_cast<uint64_t>(members), false)) {
      const Outcome outcome = RunOverMirrors(*test, &rng);
      EXPECT_TRUE(outcome.same_bits) << test->Name();
      EXPECT_TRUE(outcome.one_owner) << test->Name();
      int64_t bytes = 0;
      for (int m = 0; m < members; ++m) bytes += test->Bytes(m);
      EXPECT_EQ(outcome.read, bytes) << test->Name();
    }
  }
}

// Negative control: any read that does not arrive shows in the bits.
TEST(Reads, NoneCanBeLeftOut) {
  const kernels::ScopedFlushDenormals flush;
  Rng rng(42);
  int tried = 0, shown = 0;
  for (int members : {2, 3, 4}) {
    for (const auto& test : WindowCases(members, 200 + static_cast<uint64_t>(members), false)) {
      // A pair that loses to another shows nothing when it is missing.
      if (test->kind() == Collective::kPairMax) continue;
      const int64_t reads = RunOverMirrors(*test, &rng).reads;
      for (int64_t skip = 0; skip < reads; skip += 1 + reads / 5) {
        ++tried;
        shown += !RunOverMirrors(*test, &rng, skip).same_bits;
      }
    }
  }
  EXPECT_GT(tried, 500);
  EXPECT_EQ(shown, tried);
}

}  // namespace
}  // namespace weft::comm
