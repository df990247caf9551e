// The tiny checkpoints of tests/models/data, the real model, and forward passes without an engine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "exec/rank_executor.h"
#include "io/checkpoint.h"
#include "io/hf_config.h"
#include "io/mapping.h"
#include "io/safetensors.h"
#include "models/model.h"
#include "support/tiny_folders.h"

namespace weft::support {

// Folders that hold a golden.safetensors and are of a family that there is a model for, by name.
inline std::vector<std::string> TinyCheckpoints() {
  std::vector<std::string> folders;
  for (const std::string& folder : TinyFolders()) {
    const auto config = io::ReadHfConfig(folder);
    EXPECT_TRUE(config.ok()) << config.status().message();
    if (config.ok() && models::FindModel(config.value()).ok()) folders.push_back(folder);
  }
  return folders;
}

// SmolLM2-135M-Instruct, as scripts/get-model leaves it; "" where a test runs without it.
inline std::string RealModel() {
  const char* path = std::getenv("WEFT_TEST_MODEL");
  return path == nullptr ? "" : path;
}

// Golden tensors of one file.
class Golden {
 public:
  explicit Golden(const std::string& path) {
    auto mapping = io::Mapping::Open(path);
    EXPECT_TRUE(mapping.ok()) << mapping.status().message();
    mapping_ = std::make_unique<io::Mapping>(std::move(mapping).value());
    auto file = io::Safetensors::Parse(mapping_->bytes(), path);
    EXPECT_TRUE(file.ok()) << file.status().message();
    file_ = std::make_unique<io::Safetensors>(std::move(file).value());
  }
  const io::Tensor* Find(const std::string& name) const {
    for (const io::Tensor& t : file_->tensors()) {
      if (t.name == name) return &t;
    }
    return nullptr;
  }
  // Empty if there is none of that name. T: of the stored size.
  template <typename T>
  std::vector<T> Get(const std::string& name) const {
    const io::Tensor* t = Find(name);
    if (t == nullptr) return {};
    std::vector<T> out(t->bytes / sizeof(T));
    std::copy_n(t->data, t->bytes, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }

 private:
  std::unique_ptr<io::Mapping> mapping_;
  std::unique_ptr<io::Safetensors> file_;
};

inline std::unique_ptr<io::Checkpoint> OpenCheckpoint(const std::string& path) {
  auto checkpoint = io::Checkpoint::Open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
}

// A small machine: few rows, few pages, so that a test may make hundreds.
inline exec::ExecConfig SmallConfig(int ranks, int threads = 0) {
  exec::ExecConfig config;
  config.ranks = ranks;
  config.threads = threads == 0 ? ranks : threads;
  config.tokens_max = 64;
  config.seqs_max = 64;
  config.wait_timeout_ns =
      900 * kNsPerSecond;  // a step takes minutes under a sanitizer on a busy machine
  return config;
}

inline std::unique_ptr<plan::Executor> MakeExecutor(const io::Checkpoint& checkpoint,
                                                    exec::ExecConfig config) {
  static NullLog log;
  const bool reference = config.reference;
  auto made = reference ? exec::CreateReferenceExecutor(checkpoint, std::move(config), &log)
                        : exec::CreateRankExecutor(checkpoint, std::move(config), &log);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? std::move(made).value() : nullptr;
}

// One sequence in pages 1, 2, ..., in steps of `chunk` rows. visit(position, logits [V], hash).
inline void Forward(plan::Executor& executor, std::span<const int32_t> ids, int32_t chunk,
                    const std::function<void(int32_t, std::span<const float>, uint64_t)>& visit) {
  const plan::ExecutorLimits& limits = executor.limits();
  const auto total = static_cast<int32_t>(ids.size());
  ASSERT_LE(chunk, std::min(limits.tokens_max, limits.rows_max));
  std::vector<int32_t> pages;
  for (int32_t at = 0; at < total; at += limits.page_tokens) {
    pages.push_back(static_cast<int32_t>(pages.size()) + 1);
  }
  ASSERT_LT(pages.back(), limits.pages);
  plan::StepOutputs outputs;
  for (int32_t begin = 0; begin < total; begin += chunk) {
    const int32_t rows = std::min(chunk, total - begin);
    std::vector<int32_t> positions, head_rows;
    std::vector<int64_t> slots;
    const std::vector<SampleRow> sample(rows, SampleRow{.temperature = 0});
    for (int32_t r = 0; r < rows; ++r) {
      positions.push_back(begin + r);
      slots.push_back(begin + r + limits.page_tokens);
      head_rows.push_back(r);
    }
    const Segment segment{0,          rows, begin, static_cast<int32_t>(pages.size()), pages.data(),
                          /*state=*/1};
    plan::StepInputs inputs;
    inputs.ids = ids.subspan(begin, rows);
    inputs.positions = positions;
    inputs.slots = slots;
    inputs.segments = {&segment, 1};
    inputs.head_rows = head_rows;
    inputs.mode = plan::HeadMode::kSample;
    inputs.sample = sample;
    inputs.hash_logits = true;
    const Status status = executor.Run(inputs, &outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int32_t r = 0; r < rows; ++r) {
      visit(begin + r, exec::LogitsOf(executor, r), outputs.logits_hash[r]);
    }
  }
}

}  // namespace weft::support
