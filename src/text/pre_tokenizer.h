// Cutting text into the words that byte-pair encoding may not merge across.
// Each known family of regular expressions is one hand-written scanner: linear, without recursion,
// and refused rather than guessed when a model names another. General regex engines lost: the
// backtracking ones overflow on 43,000 equal letters, and their Unicode tables differ.
// Thread: pure functions.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::text {

enum class PreTokenizer {
  kGpt2,        // 's|'t|..| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kSmolLm,      // each digit alone, then GPT-2
  kLlama3,      // letters with one leading non-letter, numbers by three; also GLM-4
  kQwen2,       // as Llama-3 with each number alone
  kQwen35,      // as Qwen2 with marks among the letters
  kDeepSeekV3,  // numbers by three, then CJK runs, then the rest
  kGpt4o,       // letters split by case, contraction as a suffix
};

std::string_view PreTokenizerName(PreTokenizer pre);

// One stage of "pre_tokenizer" of a tokenizer.json: "Split <pattern>", "Digits" or "ByteLevel"
// with its own regular expression ("ByteLevel regex") or without ("ByteLevel").
// Errors: kUnsupported for a list that is no known family.
Result<PreTokenizer> PreTokenizerFromStages(std::span<const std::string> stages);

// By the name in GGUF's tokenizer.ggml.pre.  Errors: kUnsupported for an unknown one.
Result<PreTokenizer> PreTokenizerFromGgufName(std::string_view name);

// Gives the words of `text` in order, together all of it, until one call returns false.
// REQUIRES: text is valid UTF-8.
using WordSink = std::function<bool(std::string_view word)>;
void SplitWords(PreTokenizer pre, std::string_view text, const WordSink& sink);

}  // namespace weft::text
