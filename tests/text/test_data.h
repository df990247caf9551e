// Reading the golden files of this room.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace weft::text {

inline std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(WEFT_TESTS_DIR "/text/data/") + name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Json ReadTestJson(const std::string& name) {
  auto json = ParseJson(ReadTestFile(name));
  EXPECT_TRUE(json.ok()) << name << ": " << json.status().message();
  return json.ok() ? *json : Json();
}

inline std::unique_ptr<Tokenizer> MakeTestTokenizer(const std::string& family) {
  const std::string json = ReadTestFile("tokenizer_" + family + ".json");
  auto spec = SpecFromTokenizerJson({.tokenizer_json = json});
  EXPECT_TRUE(spec.ok()) << family << ": " << spec.status().message();
  if (!spec.ok()) return nullptr;
  auto tokenizer = Tokenizer::Create(std::move(*spec));
  EXPECT_TRUE(tokenizer.ok()) << family << ": " << tokenizer.status().message();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

inline std::vector<int32_t> IdsOf(const Json& json) {
  std::vector<int32_t> ids;
  for (const Json& id : json.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

inline constexpr const char* kFamilies[] = {"gpt2",     "smollm", "llama3", "qwen2", "qwen35",
                                            "deepseek", "gpt4o",  "flags",  "holes"};

}  // namespace weft::text
