// The ranks as a grid with named axes, and who holds what when an axis cuts a tensor.
//
// Axes are listed major to minor: for tp = otp x odp, rank = otp * |odp| + odp. A tensor that is
// Sharded(dim) by an order of axes is cut into as many chunks as those axes have places; the chunk
// of a rank is its place in that order. Source: docs/design (placements), FlashComm2's groups.
// Thread: start-up; immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::comm {

struct Axis {
  std::string name;
  int size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

// Rows (or any elements) that place `i` of `n` owns: begin floor(i*rows/n). Uneven, maybe empty.
inline int64_t OwnedBegin(int64_t rows, int i, int n) { return rows * i / n; }

class Mesh {
 public:
  // Errors: no axis, a size below 1, a name twice or empty.
  static Result<Mesh> Make(std::vector<Axis> axes);
  // One axis "tp". REQUIRES: ranks >= 1.
  static Mesh Tp(int ranks);
  // FlashComm2: axes "otp" and "odp" with otp * odp = ranks. Errors: otp does not divide ranks.
  static Result<Mesh> OtpOdp(int ranks, int otp);

  int ranks() const { return ranks_; }
  std::span<const Axis> axes() const { return axes_; }
  int AxisOf(std::string_view name) const;  // -1: no such axis

  int CoordinateOf(int rank, int axis) const { return rank / strides_[axis] % axes_[axis].size; }
  int RankAt(std::span<const int> coordinates) const;

  // `axes` below: indexes of axes, major to minor, each at most once.
  int PlacesOf(std::span<const int> axes) const;
  // The rank's place along these axes: what is Sharded by them in this order has its chunk here.
  int PlaceOf(int rank, std::span<const int> axes) const;
  // The ranks that differ from `rank` along these axes only, in order of place.
  std::vector<int> GroupOf(int rank, std::span<const int> axes) const;
  // All such groups, by their lowest rank.
  std::vector<std::vector<int>> Groups(std::span<const int> axes) const;
  // A tensor is cut into PlacesOf(order) chunks, but only the axes in `split` (a subset of `order`)
  // separate ranks yet: the chunks that `rank` then holds, ascending. After FC2's all-to-all the
  // tokens are cut by (otp, odp) and split over odp alone.
  std::vector<int> ChunksOf(int rank, std::span<const int> order, std::span<const int> split) const;

  // "otp=2 x odp=4"
  std::string Describe() const;

 private:
  std::vector<Axis> axes_;
  std::vector<int> strides_;
  int ranks_ = 1;
};

}  // namespace weft::comm
