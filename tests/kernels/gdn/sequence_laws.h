// What holds for every kernel that carries a state from row to row of a sequence, whatever its
// state is: cuts, companions, garbage in the slot and rows that were taken back leave no trace in
// the bits.
//
// A row is the number of its token: the inputs are a function of it, so rows that speculation took
// back and rows that came in their place differ.
//
// A World is a kernel, a shape and a pool of slots:
//   Matrix Step(const std::vector<TokenRows>&, uint32_t slices = 0)   y of the rows, in their order
//   std::string Settled(int slot)   the bytes of the state after the settled rows, without the log
//   int log_max()
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernels/variants.h"
#include "tensor/rows.h"

namespace weft::kernels::testing {

struct TokenRows {
  int slot = 0;
  int position = 0;
  std::vector<int> tokens;
  int replay = 0;
  int logged = 0;
};

// The segments of a step, whose rows stand one after the other.
inline std::vector<Segment> SegmentsOf(const std::vector<TokenRows>& step) {
  std::vector<Segment> out;
  int32_t row = 0;
  for (const TokenRows& rows : step) {
    const auto count = static_cast<int32_t>(rows.tokens.size());
    out.push_back({.row_begin = row,
                   .rows = count,
                   .position_begin = rows.position,
                   .state = rows.slot,
                   .replay = rows.replay,
                   .logged = rows.logged});
    row += count;
  }
  return out;
}

inline std::vector<int> TokensOf(const std::vector<TokenRows>& step) {
  std::vector<int> out;
  for (const TokenRows& rows : step) out.insert(out.end(), rows.tokens.begin(), rows.tokens.end());
  return out;
}

// About normal, a function of the token, the column and what it is for.
inline float TokenValue(int token, int64_t column, uint64_t stream) {
  uint64_t x = (static_cast<uint64_t>(token) << 40) ^ (static_cast<uint64_t>(column) << 8) ^ stream;
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    x = (x + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    x ^= x >> 31;
    sum += static_cast<float>(x >> 40) / 16777216.0f - 0.5f;
  }
  return sum * 1.7f;
}

inline const Matrix& FillByToken(const Matrix& m, const std::vector<int>& tokens, int64_t cols,
                                 uint64_t stream) {
  for (int64_t r = 0; r < std::ssize(tokens); ++r) {
    for (int64_t c = 0; c < cols; ++c) m.Set(r, c, TokenValue(tokens[r], c, stream));
  }
  return m;
}

inline std::string RowBytes(const Matrix& m, int64_t row) {
  const View v = m.view();
  const int64_t bytes = FactsOf(v.dtype).block_bytes;
  return {static_cast<const char*>(v.data) + row * v.stride * bytes,
          static_cast<size_t>(v.cols * bytes)};
}

inline std::vector<int> Tokens(int first, int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

// A step of every kind: starts, continuations, decodes, verification, with and without replay.
template <typename World>
std::vector<Matrix> MixedSteps(World& world, uint32_t slices) {
  const int log = world.log_max();
  const int accepted = log < 2 ? log : 2;
  std::vector<Matrix> out;
  const auto step = [&](const std::vector<TokenRows>& rows) {
    out.push_back(world.Step(rows, slices));
  };
  step({{.slot = 3, .tokens = Tokens(100, 5)},
        {.slot = 0, .tokens = Tokens(200, 1)},
        {.slot = 1, .tokens = Tokens(300, 67)}});
  step({{.slot = 1, .position = 67, .tokens = Tokens(400, 1 + log), .logged = log},
        {.slot = 0, .position = 1, .tokens = Tokens(500, 1)},
        {.slot = 2, .tokens = Tokens(600, log), .logged = log},
        {.slot = 3, .position = 5, .tokens = Tokens(700, 70 + log), .logged = log}});
  step({{.slot = 3,
         .position = 75 + accepted,
         .tokens = Tokens(800, 2 + log),
         .replay = accepted,
         .logged = log},
        {.slot = 1, .position = 68 + log, .tokens = Tokens(900, 1), .replay = log},
        {.slot = 2, .position = accepted, .tokens = Tokens(950, 66), .replay = accepted}});
  return out;
}

// make(): a fresh World.
template <typename Make>
void ExpectEqualSteps(const Make& contract, const Make& other, uint32_t slices) {
  auto expected = contract();
  auto got = other();
  const std::vector<Matrix> a = MixedSteps(expected, 0);
  const std::vector<Matrix> b = MixedSteps(got, slices);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(b[i].buffer(), a[i].buffer()) << "step " << i;
  EXPECT_EQ(got.pool(), expected.pool());
}

template <typename Make>
void ExpectCutsLeaveNoTrace(const Make& make, int count) {
  auto whole = make();
  const Matrix expected = whole.Step({{.tokens = Tokens(0, count)}});
  for (int cut = 1; cut < count; ++cut) {
    auto world = make();
    const Matrix head = world.Step({{.tokens = Tokens(0, cut)}});
    const Matrix tail = world.Step({{.position = cut, .tokens = Tokens(cut, count - cut)}});
    for (int r = 0; r < count; ++r) {
      EXPECT_EQ(r < cut ? RowBytes(head, r) : RowBytes(tail, r - cut), RowBytes(expected, r))
          << "cut at " << cut << ", row " << r;
    }
    EXPECT_EQ(world.Settled(0), whole.Settled(0)) << "cut at " << cut;
  }
}

// A verification of `drafts` rows of which `accepted` were right, then `after` more rows.
template <typename Make>
void ExpectRejectionLeavesNoTrace(const Make& make, int prompt) {
  constexpr int kAfter = 3;
  const int log = make().log_max();
  for (int drafts = 1; drafts <= log; ++drafts) {
    for (int accepted = 0; accepted <= drafts; ++accepted) {
      for (const bool verify_again : {false, true}) {
        // The truth: prompt, one row, the accepted rows, what follows; one by one from the prompt
        // on.
        auto plain = make();
        plain.Step({{.tokens = Tokens(0, prompt)}});
        std::vector<std::string> expected;
        const int count = 1 + accepted + kAfter;
        for (int i = 0; i < count; ++i) {
          const int at = prompt + i;
          expected.push_back(RowBytes(plain.Step({{.position = at, .tokens = {at}}}), 0));
        }

        auto world = make();
        world.Step({{.tokens = Tokens(0, prompt)}});
        std::vector<int> window = Tokens(prompt, 1 + drafts);
        for (int i = 1 + accepted; i <= drafts; ++i) window[i] += 5000;  // wrong
        const Matrix verified =
            world.Step({{.position = prompt, .tokens = window, .logged = drafts}});
        const int next = prompt + 1 + accepted;
        const int logged = verify_again ? std::min(log, kAfter - 1) : 0;
        const Matrix rest = world.Step({{.position = next,
                                         .tokens = Tokens(next, kAfter),
                                         .replay = accepted,
                                         .logged = logged}});
        if (logged > 0) {
          world.Step({{.position = next + kAfter, .tokens = {}, .replay = logged}});
        }
        for (int i = 0; i < count; ++i) {
          EXPECT_EQ(i <= accepted ? RowBytes(verified, i) : RowBytes(rest, i - 1 - accepted),
                    expected[i])
              << drafts << " drafts, " << accepted << " accepted, row " << i;
        }
        EXPECT_EQ(world.Settled(0), plain.Settled(0)) << drafts << " drafts, " << accepted;
      }
    }
  }
}

template <typename Make>
void ExpectCompanionsLeaveNoTrace(const Make& make) {
  const std::vector<TokenRows> starts{{.slot = 2, .tokens = Tokens(0, 3)},
                                      {.slot = 0, .tokens = Tokens(50, 1)},
                                      {.slot = 1, .tokens = Tokens(90, 20)}};
  std::vector<TokenRows> goes_on = starts;
  for (TokenRows& rows : goes_on) {
    rows.position = static_cast<int>(rows.tokens.size());
    for (int& token : rows.tokens) token += 1000;
  }
  auto together = make();
  const Matrix first = together.Step(starts);
  const Matrix second = together.Step(goes_on);
  int64_t row = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    auto alone = make();
    const Matrix a = alone.Step({starts[i]});
    const Matrix b = alone.Step({goes_on[i]});
    for (int64_t r = 0; r < std::ssize(starts[i].tokens); ++r, ++row) {
      EXPECT_EQ(RowBytes(first, row), RowBytes(a, r)) << "segment " << i;
      EXPECT_EQ(RowBytes(second, row), RowBytes(b, r)) << "segment " << i;
    }
    EXPECT_EQ(together.Settled(starts[i].slot), alone.Settled(starts[i].slot)) << "segment " << i;
  }
}

// garbage: a World whose pool holds NaN.
template <typename Make>
void ExpectGarbageLeavesNoTrace(const Make& make, const Make& garbage) {
  auto clean = make();
  auto dirty = garbage();
  for (const int tokens : {1, 2, 9}) {
    const std::vector<TokenRows> start{{.slot = 1, .tokens = Tokens(7, tokens)}};
    EXPECT_EQ(dirty.Step(start).buffer(), clean.Step(start).buffer()) << tokens;
    EXPECT_EQ(dirty.Settled(1), clean.Settled(1)) << tokens;
    const std::vector<TokenRows> next{{.slot = 1, .position = tokens, .tokens = {1, 2}}};
    EXPECT_EQ(dirty.Step(next).buffer(), clean.Step(next).buffer()) << tokens;
  }
}

}  // namespace weft::kernels::testing
