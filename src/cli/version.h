// What --version prints.
#pragma once

#include <string>

namespace weft::cli {

inline constexpr const char* kVersion = "0.1.0";
// "weft 0.1.0 (numerics 1, avx2)"
std::string VersionLine();

}  // namespace weft::cli
