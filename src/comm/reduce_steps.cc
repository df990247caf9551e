#include "comm/reduce_steps.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"
#include "comm/mesh.h"
#include "tensor/leaf_table.h"

namespace weft::comm {
namespace {

int64_t RowBegin(const ReduceArgs& a, int i) {
  return a.starts != nullptr ? a.starts[i] : OwnedBegin(a.rows, i, a.ranks);
}

View Window(const View& y, const Rectangle& part, int64_t first_row) {
  const int64_t bytes = BytesOf(y.dtype, (part.row_begin - first_row) * y.stride + part.col_begin);
  return {.data = static_cast<std::byte*>(y.data) + bytes,
          .rows = part.row_end - part.row_begin,
          .cols = part.col_end - part.col_begin,
          .stride = y.stride,
          .dtype = y.dtype};
}

void RunFinish(const ReduceArgs& a, const kernels::FinishArgs& finish) {
  a.finish->run(finish, {0, a.finish->units(finish)}, nullptr);
}

// First row of the member's y in the whole matrix.
int64_t FirstRow(const ReduceArgs& a, Collective kind) {
  return kind == Collective::kReduceScatter ? RowBegin(a, a.rank) : 0;
}

// Calls visit for `part` of a float matrix that member `from` holds.
void ReadFloats(int from, const float* base, int64_t stride, const Rectangle& part,
                ReadVisit visit) {
  constexpr int64_t kSize = sizeof(float);
  visit(
      {.from = from,
       .rows = part.row_end - part.row_begin,
       .bytes = (part.col_end - part.col_begin) * kSize,
       .data = reinterpret_cast<const std::byte*>(base + part.row_begin * stride + part.col_begin),
       .stride = stride * kSize});
}

// Shares that this member still keeps after `step`: those whose low bits are its own.
struct KeptShares {
  int begin, stride;
};
KeptShares Kept(const ReduceArgs& a, int step) {
  const int stride = 2 << step;
  return {a.rank % stride, stride};
}

}  // namespace

Slice OwnedUnits(const ReduceArgs& a, Collective kind, int i) {
  if (kind != Collective::kReduceScatter) return kernels::SliceOf(ReduceUnits(a), i, a.ranks);
  const int64_t blocks = BlocksOf(a.cols, kReduceBlock);
  return {RowBegin(a, i) * blocks, RowBegin(a, i + 1) * blocks};
}

int64_t ElementsOf(const ReduceArgs& a, Slice units) {
  int64_t elements = 0;
  ForRectangles(a.cols, kReduceBlock, units,
                [&](const Rectangle& part) { elements += part.elements(); });
  return elements;
}

int64_t RootsOfPeers(const ReduceArgs& a) {
  int64_t count = 0;
  for (int i = 0; i < a.root_count; ++i) count += a.root_ranks[i] != a.rank;
  return count;
}

std::string RefuseReduce(const ReduceArgs& a) {
  if (a.root_count < 1 || a.root_count > kLeavesMax) {
    return fmt::format("{} roots, 1 to {} can be added", a.root_count, kLeavesMax);
  }
  if (a.dtype != DType::kBF16 && a.dtype != DType::kF32) {
    return fmt::format("no result in {}", NameOf(a.dtype));
  }
  return {};
}

void ReadRoots(const ReduceArgs& a, Slice units, ReadVisit visit) {
  for (int i = 0; i < a.root_count; ++i) {
    if (a.root_ranks[i] == a.rank) continue;
    ForRectangles(a.cols, kReduceBlock, units, [&](const Rectangle& part) {
      ReadFloats(a.root_ranks[i], a.roots[i], a.strides[i], part, visit);
    });
  }
}

int64_t FinishUnits(const ReduceArgs& a, Slice units, const View& y, int64_t first_row) {
  int64_t elements = 0;
  ForRectangles(a.cols, kReduceBlock, units, [&](const Rectangle& part) {
    const float* roots[kLeavesMax];
    for (int i = 0; i < a.root_count; ++i) {
      roots[i] = a.roots[i] + part.row_begin * a.strides[i] + part.col_begin;
    }
    RunFinish(a, {.roots = roots,
                  .strides = a.strides,
                  .count = a.root_count,
                  .merges = a.merges,
                  .bias = a.bias != nullptr ? a.bias + part.col_begin : nullptr,
                  .y = Window(y, part, first_row)});
    elements += part.elements();
  });
  return elements * RootsOfPeers(a) * static_cast<int64_t>(sizeof(float));
}

int64_t GatherShares(const ReduceArgs& a, Slice units) {
  const Slice own = OwnedUnits(a, Collective::kAllReduce, a.rank);
  const auto whole = [&](int64_t unit) {
    return unit < own.begin ? unit : unit + (own.end - own.begin);
  };
  int64_t bytes = 0;
  for (int peer = 0; peer < a.ranks && units.begin < units.end; ++peer) {
    if (peer == a.rank) continue;
    const Slice share = OwnedUnits(a, Collective::kAllReduce, peer);
    const Slice mine{std::max(share.begin, whole(units.begin)),
                     std::min(share.end, whole(units.end - 1) + 1)};
    ForRectangles(a.cols, kReduceBlock, mine, [&](const Rectangle& part) {
      const View from = Window(a.y[peer], part, 0);
      const View to = Window(a.y[a.rank], part, 0);
      const int64_t row_bytes = BytesOf(from.dtype, from.cols);
      for (int64_t row = 0; row < from.rows; ++row) {
        std::memcpy(static_cast<std::byte*>(to.data) + BytesOf(to.dtype, row * to.stride),
                    static_cast<std::byte*>(from.data) + BytesOf(from.dtype, row * from.stride),
                    row_bytes);
      }
      bytes += from.rows * row_bytes;
    });
  }
  return bytes;
}

void ReadShares(const ReduceArgs& a, ReadVisit visit) {
  for (int peer = 0; peer < a.ranks; ++peer) {
    if (peer == a.rank) continue;
    ForRectangles(a.cols, kReduceBlock, OwnedUnits(a, Collective::kAllReduce, peer),
                  [&](const Rectangle& part) {
                    const View from = Window(a.y[peer], part, 0);
                    visit({.from = peer,
                           .rows = from.rows,
                           .bytes = BytesOf(from.dtype, from.cols),
                           .data = static_cast<const std::byte*>(from.data),
                           .stride = BytesOf(from.dtype, from.stride)});
                  });
  }
}

int64_t GatherShareBytes(const ReduceArgs& a) {
  const Slice own = OwnedUnits(a, Collective::kAllReduce, a.rank);
  return BytesOf(a.dtype, a.rows * a.cols - ElementsOf(a, own));
}

std::string RefuseHalving(const ReduceArgs& a) {
  if (std::string why = RefuseReduce(a); !why.empty()) return why;
  if (a.ranks < 2 || !std::has_single_bit(static_cast<unsigned>(a.ranks))) {
    return fmt::format("{} ranks are no power of two above 1", a.ranks);
  }
  if (a.root_count != a.ranks) {
    return fmt::format("{} roots on {} ranks, one each can be halved", a.root_count, a.ranks);
  }
  for (int i = 0; i < a.root_count; ++i) {
    if (a.root_ranks[i] != i) return fmt::format("rank {} holds no root", i);
    // In a full binary tree root i is followed by one addition for each of its low one bits.
    if (a.merges[i] != std::countr_one(static_cast<unsigned>(i))) {
      return fmt::format("the tree over the ranks is not full at root {}", i);
    }
  }
  return {};
}

int HalvingSteps(const ReduceArgs& a) { return std::countr_zero(static_cast<unsigned>(a.ranks)); }

int64_t HalvingUnits(const ReduceArgs& a, Collective kind, int step) {
  int64_t units = 0;
  const KeptShares kept = Kept(a, step);
  for (int i = kept.begin; i < a.ranks; i += kept.stride) {
    const Slice share = OwnedUnits(a, kind, i);
    units += share.end - share.begin;
  }
  return units;
}

int64_t HalvingBytes(const ReduceArgs& a, Collective kind) {
  int64_t elements = 0;
  for (int step = 0; step < HalvingSteps(a); ++step) {
    const KeptShares kept = Kept(a, step);
    for (int i = kept.begin; i < a.ranks; i += kept.stride) {
      elements += ElementsOf(a, OwnedUnits(a, kind, i));
    }
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

void ReadHalving(const ReduceArgs& a, Collective kind, int step, ReadVisit visit) {
  const int peer = a.rank ^ (1 << step);
  const KeptShares kept = Kept(a, step);
  for (int i = kept.begin; i < a.ranks; i += kept.stride) {
    ForRectangles(a.cols, kReduceBlock, OwnedUnits(a, kind, i), [&](const Rectangle& part) {
      ReadFloats(peer, a.roots[peer], a.strides[peer], part, visit);
    });
  }
}

int64_t RunHalving(const ReduceArgs& a, Collective kind, int step, Slice units) {
  static constexpr uint8_t kPairMerges[2] = {0, 1};
  const int peer = a.rank ^ (1 << step);
  const int left = std::min(a.rank, peer);
  const int right = std::max(a.rank, peer);
  const bool last = step + 1 == HalvingSteps(a);
  const View sums{.data = a.roots[a.rank],
                  .rows = a.rows,
                  .cols = a.cols,
                  .stride = a.strides[a.rank],
                  .dtype = DType::kF32};
  const View& to = last ? a.y[a.rank] : sums;
  const int64_t first_row = last ? FirstRow(a, kind) : 0;
  const int64_t strides[2] = {a.strides[left], a.strides[right]};
  int64_t elements = 0;
  int64_t before = 0;  // units of the shares passed so far
  const KeptShares kept = Kept(a, step);
  for (int i = kept.begin; i < a.ranks; i += kept.stride) {
    const Slice share = OwnedUnits(a, kind, i);
    const int64_t size = share.end - share.begin;
    const Slice mine{share.begin + std::clamp<int64_t>(units.begin - before, 0, size),
                     share.begin + std::clamp<int64_t>(units.end - before, 0, size)};
    before += size;
    ForRectangles(a.cols, kReduceBlock, mine, [&](const Rectangle& part) {
      const float* const roots[2] = {a.roots[left] + part.row_begin * strides[0] + part.col_begin,
                                     a.roots[right] + part.row_begin * strides[1] + part.col_begin};
      RunFinish(a, {.roots = roots,
                    .strides = strides,
                    .count = 2,
                    .merges = kPairMerges,
                    .bias = last && a.bias != nullptr ? a.bias + part.col_begin : nullptr,
                    .y = Window(to, part, first_row)});
      elements += part.elements();
    });
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

}  // namespace weft::comm
