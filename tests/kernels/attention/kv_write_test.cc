#include <numeric>

#include "kernels/attention/attention.h"
#include "kernels/variants.h"

namespace weft::kernels {
namespace {

using testing::Buffer;
using testing::Matrix;

TEST(KvLayout, EveryElementHasItsOwnPlaceInsideThePage) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const KvLayout kv{.dtype = dtype, .kv_heads = 1, .head_dim = 6, .page_tokens = 32};
    std::vector<int> keys(32 * 6), values(32 * 6);
    for (int p = 0; p < 32; ++p) {
      for (int d = 0; d < 6; ++d) {
        ++keys.at(kv.key_index(p, d));
        ++values.at(kv.value_index(p, d));
      }
    }
    EXPECT_EQ(keys, std::vector<int>(32 * 6, 1));
    EXPECT_EQ(values, std::vector<int>(32 * 6, 1));
  }
}

TEST(KvWrite, WritesItsSlotsAndKeepsTheNeighbours) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int head_dim : {2, 16, 64, 80, 128}) {
      for (int page_tokens : {16, 48}) {
        KvLayout kv{
            .dtype = dtype, .kv_heads = 3, .head_dim = head_dim, .page_tokens = page_tokens};
        Matrix k(dtype, 5, 3 * head_dim), v(dtype, 5, 3 * head_dim);
        k.Fill(1);
        v.Fill(2);
        const std::vector<int64_t> slots{page_tokens + 3, -1, 2 * page_tokens + 15, page_tokens + 2,
                                         3 * page_tokens - 1};
        // By the layout's definition alone, element for element.
        Buffer expected(4 * kv.page_bytes());
        kv.base = expected.data();
        for (int t : {0, 2, 3, 4}) {
          for (int h = 0; h < 3; ++h) {
            for (int d = 0; d < head_dim; ++d) {
              const int64_t page = slots[t] / page_tokens, offset = slots[t] % page_tokens;
              const auto put = [&](std::byte* base, int64_t index, float x) {
                dtype == DType::kBF16 ? void(reinterpret_cast<Bf16*>(base)[index] = ToBf16(x))
                                      : void(reinterpret_cast<float*>(base)[index] = x);
              };
              put(kv.keys(page, h), kv.key_index(offset, d), k.Get(t, h * head_dim + d));
              put(kv.values(page, h), kv.value_index(offset, d), v.Get(t, h * head_dim + d));
            }
          }
        }
        for (const auto* kernel : testing::Runnable(KvWriteKernels())) {
          Buffer pool(4 * kv.page_bytes());
          kv.base = pool.data();
          const KvWriteArgs a{.k = k.view(), .v = v.view(), .kv = kv, .slots = slots.data()};
          EXPECT_EQ(kernel->refuse(a), "");
          std::mt19937 random(1);
          testing::RunSlices(*kernel, a, testing::RandomSlices(kernel->units(a), random));
          EXPECT_EQ(pool, expected) << kernel->name << " D " << head_dim;

          // The same by two runs of heads, as two workers would.
          Buffer shared(4 * kv.page_bytes());
          kv.base = shared.data();
          for (const auto& [first, count] : {std::pair{0, 1}, std::pair{1, 2}}) {
            KvWriteArgs part{
                .k = k.view(), .v = v.view(), .kv = kv, .first_head = first, .slots = slots.data()};
            for (View* view : {&part.k, &part.v}) {
              view->data = static_cast<std::byte*>(view->data) +
                           int64_t{first} * head_dim * FactsOf(dtype).block_bytes;
              view->cols = int64_t{count} * head_dim;
            }
            ASSERT_EQ(kernel->refuse(part), "");
            kernel->run(part, {0, kernel->units(part)}, nullptr);
            ++part.first_head;
            EXPECT_EQ(kernel->refuse(part) != "", first + 1 + count > 3) << first;
          }
          EXPECT_EQ(shared, expected) << kernel->name << " D " << head_dim;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernels
