#include "device/memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace weft::device {
namespace {

// From linux/mempolicy.h. Called directly: libnuma would be a dependency for one system call, and
// hwloc needs a loaded topology for it.
constexpr int kMpolBind = 2;
constexpr int kNodesMax = 1024;

std::string BindToNode(void* data, int64_t bytes, int node) {
  if (node < 0 || node >= kNodesMax) return fmt::format("node {} is out of range", node);
  unsigned long mask[kNodesMax / (8 * sizeof(unsigned long))] = {};
  mask[node / (8 * sizeof mask[0])] = 1ul << (node % (8 * sizeof mask[0]));
  // The kernel reads one bit less than it is told.
  if (syscall(SYS_mbind, data, bytes, kMpolBind, mask, kNodesMax + 1, 0) == 0) return {};
  return fmt::format("not bound to node {}: {}", node, std::strerror(errno));
}

bool HasSecondNode() { return access("/sys/devices/system/node/node1", F_OK) == 0; }

}  // namespace

Result<Memory> Memory::Allocate(int64_t bytes, int node, std::string_view name) {
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() / 2) {
    return Status::Invalid("memory for {}: {} bytes is no size", name, bytes);
  }
  Memory memory;
  memory.name_ = name;
  if (bytes == 0) return memory;

  const int64_t mapped = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  // One huge page more than needed, whose ends are cut off again: mmap alone aligns to 4 KiB.
  const int64_t reserved = mapped + kHugePageBytes;
  void* const base =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return Status::Exhausted("memory for {}: {} refused by the system: {}", name,
                             FormatBytes(bytes), std::strerror(errno));
  }
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const uintptr_t aligned = (begin + kHugePageBytes - 1) & ~uintptr_t{kHugePageBytes - 1};
  if (aligned > begin) munmap(base, aligned - begin);
  if (const uintptr_t end = begin + reserved; end > aligned + mapped) {
    munmap(reinterpret_cast<void*>(aligned + mapped), end - (aligned + mapped));
  }

  memory.data_ = reinterpret_cast<std::byte*>(aligned);
  memory.bytes_ = bytes;
  memory.mapped_bytes_ = mapped;
  memory.huge_ = madvise(memory.data_, mapped, MADV_HUGEPAGE) == 0;
  if (!memory.huge_) memory.note_ = fmt::format("no huge pages: {}", std::strerror(errno));
  if (node != kAnyNode) {
    std::string refused = HasSecondNode() ? BindToNode(memory.data_, mapped, node)
                          : node == 0     ? std::string()
                                          : fmt::format("node {} does not exist", node);
    if (refused.empty()) {
      memory.node_ = node;
    } else {
      memory.note_ += (memory.note_.empty() ? "" : "; ") + refused;
    }
  }
  return memory;
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, mapped_bytes_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
    node_ = std::exchange(other.node_, kAnyNode);
    huge_ = std::exchange(other.huge_, false);
    name_ = std::exchange(other.name_, {});
    note_ = std::exchange(other.note_, {});
  }
  return *this;
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

void Memory::Drop(int64_t begin, int64_t end) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  begin = (std::max<int64_t>(begin, 0) + page - 1) / page * page;
  // The tail of the last page belongs to the region: dropping all of it drops that page too.
  end = end >= bytes_ ? mapped_bytes_ : end / page * page;
  if (begin < end) madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

std::string Memory::Describe() const {
  std::string out = fmt::format("{}: {}", name_, FormatBytes(bytes_));
  if (huge_) out += ", huge pages";
  if (node_ != kAnyNode) out += fmt::format(", node {}", node_);
  if (!note_.empty()) out += fmt::format(" ({})", note_);
  return out;
}

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace weft::device
