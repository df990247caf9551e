#include "io/locate_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "io/mapping.h"
#include "io/printable.h"

namespace weft::io {
namespace {

namespace fs = std::filesystem;

bool IsWordLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// One part of a repository's name, or a revision. Two dots in a row are never part of one.
bool IsWord(std::string_view word) {
  return !word.empty() && word.size() <= 96 && word.front() != '.' && word.front() != '-' &&
         word.back() != '.' && word.find("..") == std::string_view::npos &&
         std::all_of(word.begin(), word.end(), IsWordLetter);
}

// "org/name" or "name" as the cache's directory name; empty if it is neither.
std::string CacheDirectory(std::string_view model) {
  const size_t slash = model.find('/');
  if (slash == std::string_view::npos) {
    return IsWord(model) ? fmt::format("models--{}", model) : std::string();
  }
  const std::string_view org = model.substr(0, slash);
  const std::string_view name = model.substr(slash + 1);
  if (!IsWord(org) || !IsWord(name)) return {};
  return fmt::format("models--{}--{}", org, name);
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The parts behind the first are found from the first.
bool IsLaterPart(std::string_view file) {
  const size_t of = file.rfind("-of-");
  return of != std::string_view::npos && of >= 6 && file.substr(of - 6, 6) != "-00001";
}

// What a directory offers: itself if it has config.json, else its one GGUF model.
Result<std::string> InDirectory(const fs::path& directory) {
  if (Exists(directory / "config.json")) return directory.string();
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (at->path().extension() == ".gguf" && !IsLaterPart(name)) found.push_back(name);
  }
  if (found.size() == 1) return (directory / found[0]).string();
  if (found.empty()) {
    return Status::NotFound("{}: has neither config.json nor a .gguf file", directory.string());
  }
  std::sort(found.begin(), found.end());
  return Status::Invalid("{}: has {} .gguf files ({}, {}, ...); name one of them",
                         directory.string(), found.size(), Printable(found[0]),
                         Printable(found[1]));
}

// The snapshot that a branch points to; empty if the branch is not in the cache.
std::string ReadRef(const fs::path& ref) {
  const Result<Mapping> file = Mapping::Open(ref.string());
  if (!file.ok() || file.value().bytes().size() > 128) return {};
  const std::span<const std::byte> bytes = file.value().bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return IsWord(text) ? std::string(text) : std::string();
}

Result<std::string> InCache(const std::string& model, const fs::path& repository,
                            const std::string& revision) {
  const fs::path ref = repository / "refs" / revision;
  std::string snapshot = ReadRef(ref);
  if (snapshot.empty()) snapshot = revision;
  const fs::path directory = repository / "snapshots" / snapshot;
  if (!IsDirectory(directory)) {
    return Status::NotFound(
        "--model {}: is in the cache, but not at revision '{}' (tried {} and {})", Printable(model),
        revision, ref.string(), directory.string());
  }
  return InDirectory(directory);
}

}  // namespace

Result<std::string> LocateModel(const std::string& model, const std::string& cache_root,
                                const std::string& revision) {
  if (model.empty()) {
    return Status::Invalid(
        "--model is empty; give a directory with config.json, a .gguf file, or a "
        "name from the Hugging Face cache");
  }
  if (model.find('\0') != std::string::npos) return Status::Invalid("--model holds a zero byte");
  if (!IsWord(revision)) {
    return Status::Invalid("revision '{}' must be letters, digits, '.', '_' and '-'",
                           Printable(revision));
  }
  if (IsDirectory(model)) return InDirectory(model);
  if (Exists(model)) {
    if (fs::path(model).extension() == ".gguf") return model;
    return Status::Invalid("--model {}: is neither a directory nor a .gguf file", Printable(model));
  }
  const std::string name = CacheDirectory(model);
  if (name.empty()) {
    return Status::NotFound(
        "--model {}: no such file or directory, and no name of the form org/name",
        Printable(model));
  }
  if (cache_root.empty()) {
    return Status::NotFound(
        "--model {}: no such file or directory, and there is no cache to look "
        "into",
        Printable(model));
  }
  const fs::path repository = fs::path(cache_root) / name;
  if (!IsDirectory(repository)) {
    return Status::NotFound("--model {}: not found; tried the path itself and {}", Printable(model),
                            repository.string());
  }
  return InCache(model, repository, revision);
}

}  // namespace weft::io
