// Lets Debian 12's clang 14 (clang-tidy, libFuzzer) read GCC 12's <coroutine>: that compiler has
// coroutines, but says so under the name of the technical specification. To go with clang 14.
// Included before anything else in a file with coroutines.
#pragma once

#if defined(__clang__) && __clang_major__ < 15
#pragma clang diagnostic ignored "-Wdeprecated-experimental-coroutine"
#pragma clang diagnostic ignored "-Wbuiltin-macro-redefined"
#define __cpp_impl_coroutine 201902L
#include <coroutine>
namespace std::experimental {  // NOLINT(cert-dcl58-cpp)
using std::coroutine_handle;
using std::coroutine_traits;
using std::suspend_always;
using std::suspend_never;
}  // namespace std::experimental
#endif
