// A value or the Status that says why there is none.
#pragma once

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace weft {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    WEFT_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & {
    WEFT_CHECK(ok(), "{}", status_.message());
    return *value_;
  }
  const T& value() const& {
    WEFT_CHECK(ok(), "{}", status_.message());
    return *value_;
  }
  T&& value() && {
    WEFT_CHECK(ok(), "{}", status_.message());
    return std::move(*value_);
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace weft

#define WEFT_CONCAT_INNER_(a, b) a##b
#define WEFT_CONCAT_(a, b) WEFT_CONCAT_INNER_(a, b)
// WEFT_ASSIGN_OR_RETURN(auto x, MakeX()); leaves the function with the error if there is one.
#define WEFT_ASSIGN_OR_RETURN(declaration, expr)          \
  auto WEFT_CONCAT_(weft_result_, __LINE__) = (expr);     \
  if (!WEFT_CONCAT_(weft_result_, __LINE__).ok())         \
    return WEFT_CONCAT_(weft_result_, __LINE__).status(); \
  declaration = std::move(WEFT_CONCAT_(weft_result_, __LINE__)).value()
