#include "cli/load.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "device/memory.h"
#include "exec/rank_executor.h"
#include "io/locate_model.h"

namespace weft::cli {
namespace {

std::string EnvironmentOr(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::string HubCache() {
  const std::string home =
      EnvironmentOr("HF_HOME", EnvironmentOr("HOME", "") + "/.cache/huggingface");
  return EnvironmentOr("HF_HUB_CACHE", home + "/hub");
}

std::string ReadFileOr(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

text::GgufTokenizerFields FieldsOf(const io::Gguf& gguf) {
  text::GgufTokenizerFields f;
  const auto text_of = [&](const char* key) {
    const io::GgufValue* v = gguf.Find(key);
    const auto s = v == nullptr ? std::nullopt : v->AsString();
    return s ? std::string(*s) : std::string();
  };
  const auto int_of = [&](const char* key) {
    const io::GgufValue* v = gguf.Find(key);
    return v == nullptr ? std::nullopt : v->AsInt();
  };
  const auto bool_of = [&](const char* key) {
    const io::GgufValue* v = gguf.Find(key);
    return v != nullptr && v->AsBool().value_or(false);
  };
  f.model = text_of("tokenizer.ggml.model");
  f.pre = text_of("tokenizer.ggml.pre");
  f.chat_template = text_of("tokenizer.chat_template");
  for (const auto& [key, list] :
       {std::pair{"tokenizer.ggml.tokens", &f.tokens}, {"tokenizer.ggml.merges", &f.merges}}) {
    const io::GgufValue* v = gguf.Find(key);
    if (v == nullptr || v->AsStrings() == nullptr) continue;
    for (std::string_view s : *v->AsStrings()) list->emplace_back(s);
  }
  if (const io::GgufValue* v = gguf.Find("tokenizer.ggml.token_type")) {
    for (int64_t t : v->AsInts().value_or(std::vector<int64_t>{}))
      f.types.push_back(static_cast<int32_t>(t));
  }
  f.bos = int_of("tokenizer.ggml.bos_token_id");
  f.eos = int_of("tokenizer.ggml.eos_token_id");
  f.eot = int_of("tokenizer.ggml.eot_token_id");
  f.unk = int_of("tokenizer.ggml.unknown_token_id");
  f.pad = int_of("tokenizer.ggml.padding_token_id");
  f.add_bos = bool_of("tokenizer.ggml.add_bos_token");
  f.add_eos = bool_of("tokenizer.ggml.add_eos_token");
  f.add_space_prefix = bool_of("tokenizer.ggml.add_space_prefix");
  return f;
}

Status LoadText(const ModelFlags& flags, const std::string& path, const io::Gguf* gguf,
                LoadedModel* model, LogSink* log) {
  text::TokenizerSpec spec;
  if (gguf != nullptr) {
    WEFT_ASSIGN_OR_RETURN(spec, text::SpecFromGguf(FieldsOf(*gguf)));
  } else {
    const std::filesystem::path dir(path);
    const std::string json = ReadFileOr(dir / "tokenizer.json");
    if (json.empty()) {
      log->Warning("{}: no tokenizer.json; only token ids can go in and out", path);
      return Status::Ok();
    }
    const std::string config = ReadFileOr(dir / "tokenizer_config.json"),
                      jinja = ReadFileOr(dir / "chat_template.jinja");
    auto read = text::SpecFromTokenizerJson({json, config, jinja});
    if (!read.ok()) return read.status().In(path);
    spec = std::move(read).value();
  }
  std::string source = spec.chat_template;
  if (!flags.chat_template.empty()) {
    source = ReadFileOr(flags.chat_template);
    if (source.empty())
      return Status::Invalid("--chat-template {}: cannot be read or is empty", flags.chat_template);
  }
  auto tokenizer = text::Tokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) return tokenizer.status().In(path);
  model->tokenizer = std::move(tokenizer).value();
  if (!source.empty()) {
    auto parsed = text::ChatTemplate::Parse(source);
    if (!parsed.ok()) return parsed.status().In("chat template");
    model->chat_template = std::make_unique<text::ChatTemplate>(std::move(parsed).value());
  }
  return Status::Ok();
}

class SpdLog final : public LogSink {
 public:
  SpdLog(const char* pattern, bool quiet)
      : logger_(std::make_shared<spdlog::logger>(
            "weft", std::make_shared<spdlog::sinks::stderr_color_sink_mt>())) {
    logger_->set_pattern(pattern);
    logger_->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  }
  void Write(LogLevel level, std::string_view line) override {
    constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                     spdlog::level::warn, spdlog::level::err};
    logger_->log(kLevels[static_cast<int>(level)], "{}", line);
  }

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace

Result<LoadedModel> LoadModel(const ModelFlags& flags, LogSink* log) {
  if (flags.model.empty())
    return Status::Invalid(
        "--model is empty; give a directory with config.json, a .gguf file, or a name in the "
        "Hugging Face cache");
  LoadedModel model;
  model.name = flags.model;
  WEFT_ASSIGN_OR_RETURN(const std::string path,
                        io::LocateModel(flags.model, HubCache(), flags.revision));
  WEFT_ASSIGN_OR_RETURN(model.checkpoint, io::Checkpoint::Open(path));
  for (const std::string& note : model.checkpoint->config().notes) log->Info("{}", note);
  if (flags.tokenizer.empty()) {
    WEFT_RETURN_IF_ERROR(LoadText(flags, path, model.checkpoint->gguf(), &model, log));
  } else {
    WEFT_ASSIGN_OR_RETURN(const std::string other,
                          io::LocateModel(flags.tokenizer, HubCache(), flags.revision));
    std::unique_ptr<io::Checkpoint> text_files;
    if (other.ends_with(".gguf")) {
      WEFT_ASSIGN_OR_RETURN(text_files, io::Checkpoint::Open(other));
    }
    WEFT_RETURN_IF_ERROR(
        LoadText(flags, other, text_files == nullptr ? nullptr : text_files->gguf(), &model, log));
  }
  for (int64_t id : model.checkpoint->config().eos_ids)
    model.eos_ids.push_back(static_cast<int32_t>(id));
  if (model.tokenizer != nullptr) {
    for (const auto& id : {model.tokenizer->eos(), model.tokenizer->eot()}) {
      if (id && std::find(model.eos_ids.begin(), model.eos_ids.end(), *id) == model.eos_ids.end())
        model.eos_ids.push_back(*id);
    }
  }
  return model;
}

Result<std::unique_ptr<plan::Executor>> MakeExecutor(const LoadedModel& model,
                                                     exec::ExecConfig config, LogSink* log) {
  if (kernels::DetectIsa() == kernels::Isa::kPortable) {
    return Status::Unsupported("this CPU is below x86-64-v3 (AVX2 and FMA), which weft needs");
  }
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) {
    config.progress = [last = -1](int64_t done, int64_t total) mutable {
      const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
      if (percent == last) return;
      last = percent;
      std::fprintf(stderr, "\rloading %s  %3d %%%s", device::FormatBytes(total).c_str(), percent,
                   done >= total ? "\r\033[K" : "");
      std::fflush(stderr);
    };
  }
  return config.reference ? exec::CreateReferenceExecutor(*model.checkpoint, std::move(config), log)
                          : exec::CreateRankExecutor(*model.checkpoint, std::move(config), log);
}

std::unique_ptr<LogSink> MakeLog(bool quiet) {
  return std::make_unique<SpdLog>("%H:%M:%S.%e %^%l%$ %v", quiet);
}

std::unique_ptr<LogSink> MakePlainLog() { return std::make_unique<SpdLog>("%v", false); }

}  // namespace weft::cli
