// The contract of group_routes, and its only kernel: counted once, placed once. A step of a single
// token is bounded by begin[], 256 additions for 256 experts.
#include <fmt/format.h>

#include <string>

#include "kernels/moe/group_routes.h"

namespace weft::kernels {
namespace {

std::string Refuse(const GroupRoutesArgs& a) {
  if (a.count < 0 || a.first < 0) return fmt::format("{} experts from {}", a.count, a.first);
  if (a.top_k < 1) return fmt::format("top {}", a.top_k);
  return "";
}

int64_t Units(const GroupRoutesArgs&) { return 1; }

bool IsHere(const GroupRoutesArgs& a, int32_t id) {
  return id >= a.first && id < a.first + a.count;
}

void Run(const GroupRoutesArgs& a, Slice slice, std::byte*) {
  if (slice.begin >= slice.end) return;
  const int64_t routes = a.rows * a.top_k;
  for (int e = 0; e <= a.count; ++e) a.begin[e] = 0;
  for (int64_t i = 0; i < routes; ++i) {
    if (IsHere(a, a.ids[i])) ++a.begin[a.ids[i] - a.first];
  }
  for (int e = 1; e <= a.count; ++e) a.begin[e] += a.begin[e - 1];
  // begin[e] is now where e ends. Taken from the back, routes move it to where e begins.
  for (int64_t i = routes - 1; i >= 0; --i) {
    a.place[i] = -1;
    if (!IsHere(a, a.ids[i])) continue;
    const int32_t j = --a.begin[a.ids[i] - a.first];
    a.place[i] = j;
    a.token[j] = static_cast<int32_t>(i / a.top_k);
  }
}

}  // namespace

extern const Kernel<GroupRoutesArgs> kGroupRoutesRef;
const Kernel<GroupRoutesArgs> kGroupRoutesRef{
    .name = "ref", .isa = Isa::kPortable, .refuse = Refuse, .units = Units, .run = Run};

}  // namespace weft::kernels
