#include "io/checkpoint.h"

#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "io/gguf_config.h"
#include "io/hf_config.h"
#include "io/json_file.h"
#include "io/printable.h"
#include "io/safetensors.h"
#include "io/weight_index.h"

namespace weft::io {
namespace {

constexpr std::string_view kGgufEnding = ".gguf";
constexpr size_t kIndexBytesMax = 100'000'000;

// "<stem>-00002-of-00005.gguf"
struct SplitName {
  std::string stem;
  int number = 0;
  int count = 0;
};

std::optional<int> FiveDigits(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '-')
    return std::nullopt;
  return number;
}

std::optional<SplitName> ParseSplitName(std::string_view path) {
  constexpr size_t kTail = std::string_view("-00001-of-00002.gguf").size();
  if (path.size() <= kTail || !path.ends_with(kGgufEnding)) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  const std::optional<int> number = FiveDigits(tail.substr(1, 5));
  const std::optional<int> count = FiveDigits(tail.substr(10, 5));
  if (!number || !count) return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - kTail)), *number, *count};
}

// A split file's own numbers; `otherwise` where it has none.
Result<int64_t> SplitKey(const Gguf& gguf, std::string_view key, int64_t otherwise) {
  const GgufValue* value = gguf.Find(key);
  if (value == nullptr) return otherwise;
  const std::optional<int64_t> number = value->AsInt();
  if (!number) {
    return BadField(gguf.name(), key, "an integer", value->type_name());
  }
  return *number;
}

Status ExpectSplitKey(const Gguf& gguf, std::string_view key, int64_t expected) {
  WEFT_ASSIGN_OR_RETURN(const int64_t found, SplitKey(gguf, key, -1));
  if (found == expected) return Status::Ok();
  return BadField(gguf.name(), key, fmt::format("{}", expected),
                  found == -1 ? "nothing" : fmt::format("{}", found));
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->path_ = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    WEFT_RETURN_IF_ERROR(checkpoint->OpenSafetensors());
  } else if (path.ends_with(kGgufEnding)) {
    WEFT_RETURN_IF_ERROR(checkpoint->OpenGguf());
  } else if (std::filesystem::exists(path, error)) {
    return Status::Invalid("{}: is neither a directory with config.json nor a .gguf file", path);
  } else {
    return Status::NotFound("{}: no such file or directory", path);
  }
  return checkpoint;
}

const Tensor* Checkpoint::Find(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

void Checkpoint::DropPages(const std::byte* data, int64_t bytes) const {
  for (const Mapping& mapping : mappings_) {
    if (mapping.Contains(data) && mapping.Contains(data + bytes)) return mapping.Drop(data, bytes);
  }
}

Status Checkpoint::AddTensors(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (!names_.emplace(tensor.name, tensors_.size()).second) {
      return Status::Invalid("{}: two files hold a tensor '{}'", path_, Printable(tensor.name));
    }
    tensors_.push_back(tensor);
  }
  return Status::Ok();
}

Status Checkpoint::OpenGguf() {
  const std::optional<SplitName> split = ParseSplitName(path_);
  if (split && split->number != 1) {
    return Status::Invalid("{}: is part {} of {}; give the first part", path_, split->number,
                           split->count);
  }
  WEFT_RETURN_IF_ERROR(OpenGgufParts(split ? split->stem : path_, split ? split->count : 1));
  WEFT_ASSIGN_OR_RETURN(config_, ParseGgufConfig(gguf_.front(), tensors_));
  return Status::Ok();
}

Status Checkpoint::OpenGgufParts(const std::string& stem, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string path =
        i == 0 ? path_ : fmt::format("{}-{:05d}-of-{:05d}.gguf", stem, i + 1, count);
    WEFT_ASSIGN_OR_RETURN(Mapping mapping, Mapping::Open(path));
    WEFT_ASSIGN_OR_RETURN(Gguf gguf, Gguf::Parse(mapping.bytes(), path));
    WEFT_ASSIGN_OR_RETURN(const int64_t parts, SplitKey(gguf, "split.count", 1));
    if (count > 1) {
      WEFT_RETURN_IF_ERROR(ExpectSplitKey(gguf, "split.count", count));
      WEFT_RETURN_IF_ERROR(ExpectSplitKey(gguf, "split.no", i));
    } else if (parts > 1) {
      return Status::Invalid(
          "{}: is one of {} parts, but its name does not end in "
          "-00001-of-{:05d}.gguf, so that the others cannot be found",
          path, parts, parts);
    }
    WEFT_RETURN_IF_ERROR(AddTensors(gguf.tensors()));
    mappings_.push_back(std::move(mapping));
    gguf_.push_back(std::move(gguf));
  }
  if (count == 1) return Status::Ok();
  const auto total = static_cast<int64_t>(tensors_.size());
  WEFT_ASSIGN_OR_RETURN(const int64_t told, SplitKey(gguf_.front(), "split.tensors.count", total));
  if (told == total) return Status::Ok();
  return BadField(path_, "split.tensors.count", fmt::format("{}, as the parts hold", total),
                  fmt::format("{}", told));
}

Status Checkpoint::OpenSafetensors() {
  WEFT_ASSIGN_OR_RETURN(config_, ReadHfConfig(path_));
  const std::string single = path_ + "/model.safetensors";
  const std::string index = path_ + "/model.safetensors.index.json";
  std::error_code error;
  if (!std::filesystem::exists(single, error)) {
    if (std::filesystem::exists(index, error)) return OpenIndexed(index);
    return Status::NotFound("{}: has neither model.safetensors nor model.safetensors.index.json",
                            path_);
  }
  WEFT_ASSIGN_OR_RETURN(Mapping mapping, Mapping::Open(single));
  WEFT_ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Parse(mapping.bytes(), single));
  mappings_.push_back(std::move(mapping));
  return AddTensors(file.tensors());
}

Status Checkpoint::OpenIndexed(const std::string& index_path) {
  WEFT_ASSIGN_OR_RETURN(const Json json, ReadJsonObject(index_path, {.bytes_max = kIndexBytesMax}));
  WEFT_ASSIGN_OR_RETURN(const WeightIndex index, ParseWeightIndex(json, index_path));
  std::vector<Safetensors> files;
  std::vector<std::unordered_map<std::string_view, const Tensor*>> tensors(index.files.size());
  files.reserve(index.files.size());
  size_t held = 0;
  for (const std::string& name : index.files) {
    const std::string path = path_ + "/" + name;
    WEFT_ASSIGN_OR_RETURN(Mapping mapping, Mapping::Open(path));
    WEFT_ASSIGN_OR_RETURN(Safetensors file, Safetensors::Parse(mapping.bytes(), path));
    mappings_.push_back(std::move(mapping));
    files.push_back(std::move(file));
    for (const Tensor& tensor : files.back().tensors()) {
      tensors[files.size() - 1].emplace(tensor.name, &tensor);
    }
    held += files.back().tensors().size();
  }
  for (const auto& [name, file] : index.placement) {
    const auto found = tensors[file].find(name);
    if (found == tensors[file].end()) {
      return Status::Invalid("{}: places tensor '{}' in {}, which does not hold it", index_path,
                             Printable(name), Printable(index.files[file]));
    }
    WEFT_RETURN_IF_ERROR(AddTensors({found->second, 1}));
  }
  if (held > tensors_.size()) {
    config_.notes.push_back(fmt::format("{}: {} tensors of its files are not in the index; ignored",
                                        index_path, held - tensors_.size()));
  }
  return Status::Ok();
}

}  // namespace weft::io
