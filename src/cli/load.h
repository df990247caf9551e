// From --model to everything that a command needs: files, tokenizer, template, executor.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "cli/options.h"
#include "io/checkpoint.h"
#include "plan/executor.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace weft::cli {

struct LoadedModel {
  std::string name;  // as the user wrote it
  std::unique_ptr<io::Checkpoint> checkpoint;
  std::unique_ptr<text::Tokenizer> tokenizer;         // null: the files have none
  std::unique_ptr<text::ChatTemplate> chat_template;  // null: likewise
  std::vector<int32_t> eos_ids;
};

// Opens files and builds the text side; no weight is read. Errors name file and flag.
Result<LoadedModel> LoadModel(const ModelFlags& flags, LogSink* log);

// Packs weights and compiles plans, with a progress line on a terminal.
Result<std::unique_ptr<plan::Executor>> MakeExecutor(const LoadedModel& model,
                                                     exec::ExecConfig config, LogSink* log);

// Log lines on standard error, through spdlog; quiet: warnings and errors only.
std::unique_ptr<LogSink> MakeLog(bool quiet);
// The same for a person who waits for an answer: the bare lines.
std::unique_ptr<LogSink> MakePlainLog();

}  // namespace weft::cli
