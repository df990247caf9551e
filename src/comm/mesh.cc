#include "comm/mesh.h"

#include <algorithm>

#include "base/check.h"

namespace weft::comm {

Result<Mesh> Mesh::Make(std::vector<Axis> axes) {
  if (axes.empty()) return Status::Invalid("a mesh needs an axis");
  Mesh mesh;
  int64_t ranks = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) return Status::Invalid("axis {} of the mesh has no name", i);
    if (axes[i].size < 1) {
      return Status::Invalid("axis {} of the mesh has size {}", axes[i].name, axes[i].size);
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[i].name == axes[j].name) {
        return Status::Invalid("the mesh has two axes {}", axes[i].name);
      }
    }
    ranks *= axes[i].size;
    if (ranks > INT32_MAX) return Status::Invalid("the mesh has more ranks than can be counted");
  }
  mesh.axes_ = std::move(axes);
  mesh.ranks_ = static_cast<int>(ranks);
  mesh.strides_.resize(mesh.axes_.size());
  int stride = 1;
  for (size_t i = mesh.axes_.size(); i-- > 0;) {
    mesh.strides_[i] = stride;
    stride *= mesh.axes_[i].size;
  }
  return mesh;
}

Mesh Mesh::Tp(int ranks) { return std::move(Make({{"tp", ranks}}).value()); }

Result<Mesh> Mesh::OtpOdp(int ranks, int otp) {
  if (otp < 1 || ranks < 1 || ranks % otp != 0) {
    return Status::Invalid("flashcomm2_parallel_size {} does not divide {} ranks", otp, ranks);
  }
  return Make({{"otp", otp}, {"odp", ranks / otp}});
}

int Mesh::AxisOf(std::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int Mesh::RankAt(std::span<const int> coordinates) const {
  WEFT_CHECK(coordinates.size() == axes_.size(), "{} coordinates in a mesh of {}",
             coordinates.size(), axes_.size());
  int rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    WEFT_CHECK(coordinates[i] >= 0 && coordinates[i] < axes_[i].size, "{} on axis {} of {}",
               coordinates[i], axes_[i].name, axes_[i].size);
    rank += coordinates[i] * strides_[i];
  }
  return rank;
}

int Mesh::PlacesOf(std::span<const int> axes) const {
  int places = 1;
  for (int axis : axes) places *= axes_[axis].size;
  return places;
}

int Mesh::PlaceOf(int rank, std::span<const int> axes) const {
  int place = 0;
  for (int axis : axes) place = place * axes_[axis].size + CoordinateOf(rank, axis);
  return place;
}

std::vector<int> Mesh::GroupOf(int rank, std::span<const int> axes) const {
  std::vector<int> group(PlacesOf(axes));
  for (size_t place = 0; place < group.size(); ++place) {
    int member = rank;
    int rest = static_cast<int>(place);
    for (size_t i = axes.size(); i-- > 0;) {
      const int size = axes_[axes[i]].size;
      member += (rest % size - CoordinateOf(rank, axes[i])) * strides_[axes[i]];
      rest /= size;
    }
    group[place] = member;
  }
  return group;
}

std::vector<std::vector<int>> Mesh::Groups(std::span<const int> axes) const {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (PlaceOf(rank, axes) == 0) groups.push_back(GroupOf(rank, axes));
  }
  return groups;
}

std::vector<int> Mesh::ChunksOf(int rank, std::span<const int> order,
                                std::span<const int> split) const {
  std::vector<int> chunks;
  const int count = PlacesOf(order);
  for (int chunk = 0; chunk < count; ++chunk) {
    bool here = true;
    int rest = chunk;
    for (size_t i = order.size(); i-- > 0;) {
      const int size = axes_[order[i]].size;
      const bool separates = std::find(split.begin(), split.end(), order[i]) != split.end();
      if (separates && rest % size != CoordinateOf(rank, order[i])) here = false;
      rest /= size;
    }
    if (here) chunks.push_back(chunk);
  }
  return chunks;
}

std::string Mesh::Describe() const {
  std::string out;
  for (const Axis& axis : axes_) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " x ", axis.name, axis.size);
  }
  return out;
}

}  // namespace weft::comm
