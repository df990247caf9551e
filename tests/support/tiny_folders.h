// The tiny checkpoints of tests/models/data.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/checkpoint.h"

namespace weft::support {

// Folders that hold a golden.safetensors, by name.
inline std::vector<std::string> TinyFolders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_TESTS_DIR "/models/data")) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors"))
      folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// One of them. REQUIRES: it opens.
inline std::unique_ptr<io::Checkpoint> OpenTiny(const std::string& name) {
  auto opened = io::Checkpoint::Open(WEFT_TESTS_DIR "/models/data/" + name);
  WEFT_CHECK(opened.ok(), "{}", opened.status().message());
  return std::move(opened).value();
}

}  // namespace weft::support
