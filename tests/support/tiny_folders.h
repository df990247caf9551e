// The tiny checkpoints of tests/models/data.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace weft::support {

// Folders that hold a golden.safetensors, by name.
inline std::vector<std::string> TinyFolders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_TESTS_DIR "/models/data")) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace weft::support
