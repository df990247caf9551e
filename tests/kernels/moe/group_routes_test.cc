#include "kernels/moe/group_routes.h"

#include <algorithm>

#include "kernels/moe/routes.h"
#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Buffer;

struct Grouped {
  Buffer begin, token, place;
};

Grouped Group(const std::vector<int32_t>& ids, int64_t rows, int top_k, int32_t first, int count,
              bool idle_slices) {
  // An element more than is written: a guard.
  Grouped out{Buffer((count + 2) * 4), Buffer((rows * top_k + 1) * 4),
              Buffer((rows * top_k + 1) * 4)};
  const GroupRoutesArgs a{.ids = ids.data(),
                          .rows = rows,
                          .top_k = top_k,
                          .first = first,
                          .count = count,
                          .begin = out.begin.as<int32_t>(),
                          .token = out.token.as<int32_t>(),
                          .place = out.place.as<int32_t>()};
  const Kernel<GroupRoutesArgs>& kernel = *GroupRoutesKernels().back();
  EXPECT_EQ(kernel.refuse(a), "");
  EXPECT_EQ(kernel.units(a), 1);
  kernel.run(a, {0, 1}, nullptr);
  if (idle_slices) kernel.run(a, {1, 1}, nullptr);
  return out;
}

// The definition once more: routes sorted by (expert, token) stably.
TEST(GroupRoutes, OrderIsByExpertThenToken) {
  std::mt19937 random(4);
  for (const int64_t rows : {0, 1, 2, 7, 64}) {
    for (const int experts : {1, 8, 60, 256}) {
      for (const int top_k : {1, 2, 8}) {
        if (top_k > experts) continue;
        for (int cut = 0; cut < 4; ++cut) {
          const int32_t first =
              cut == 0 ? 0 : static_cast<int32_t>(random() % static_cast<uint32_t>(experts));
          const int count =
              cut == 0 ? experts
                       : static_cast<int>(random() % static_cast<uint32_t>(experts - first + 1));
          const std::vector<int32_t> ids = testing::RandomIds(rows, experts, top_k, random);
          std::vector<int64_t> order;
          for (int64_t i = 0; i < rows * top_k; ++i) {
            if (ids[i] >= first && ids[i] < first + count) order.push_back(i);
          }
          std::stable_sort(order.begin(), order.end(),
                           [&](int64_t x, int64_t y) { return ids[x] < ids[y]; });
          Grouped expected{Buffer((count + 2) * 4), Buffer((rows * top_k + 1) * 4),
                           Buffer((rows * top_k + 1) * 4)};
          for (int e = 0; e <= count; ++e) {
            expected.begin.as<int32_t>()[e] = static_cast<int32_t>(std::count_if(
                order.begin(), order.end(), [&](int64_t i) { return ids[i] < first + e; }));
          }
          for (int64_t i = 0; i < rows * top_k; ++i) expected.place.as<int32_t>()[i] = -1;
          for (size_t j = 0; j < order.size(); ++j) {
            expected.token.as<int32_t>()[j] = static_cast<int32_t>(order[j] / top_k);
            expected.place.as<int32_t>()[order[j]] = static_cast<int32_t>(j);
          }
          const Grouped got = Group(ids, rows, top_k, first, count, cut % 2 == 0);
          ASSERT_EQ(got.begin, expected.begin)
              << rows << " rows, " << experts << " experts, " << first << " + " << count;
          ASSERT_EQ(got.token, expected.token)
              << rows << " rows, " << experts << " experts, " << first << " + " << count;
          ASSERT_EQ(got.place, expected.place)
              << rows << " rows, " << experts << " experts, " << first << " + " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernels
