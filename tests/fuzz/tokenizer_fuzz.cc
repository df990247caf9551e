// libFuzzer: the first byte says what the rest is. Even: a tokenizer.json, which is refused or must
// encode and decode. Odd: text for a small vocabulary of each pre-tokenizer, whose tokens must give
// the text back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace weft::text;

std::unique_ptr<Tokenizer> ByteTokenizer(PreTokenizer pre) {
  TokenizerSpec spec;
  spec.pre = pre;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    std::string token;
    AppendUtf8(token, printable ? byte : next++);
    spec.tokens.push_back(token);
  }
  for (const char* pair : {"aa", "ab",
                           "\xc4\xa0"
                           "a"}) {
    const std::string both = pair;
    const size_t cut = both.size() - 1;
    spec.merges.emplace_back(both.substr(0, cut), both.substr(cut));
    spec.tokens.push_back(both);
  }
  spec.tokens.push_back("<|x|>");
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  spec.added.push_back(
      {.content = "<|x|>", .id = static_cast<int32_t>(spec.tokens.size()) - 1, .special = true});
  auto made = Tokenizer::Create(std::move(spec));
  if (!made.ok()) std::abort();
  return std::move(*made);
}

void EncodeAndDecode(const Tokenizer& tokenizer, std::string_view text, bool gives_back) {
  const auto ids = tokenizer.Encode(text);
  if (!ids.ok()) return;
  const DecodeOptions options{.skip_special_tokens = false};
  const std::string decoded = tokenizer.Decode(*ids, options);
  Detokenizer detokenizer(tokenizer, options);
  std::string pieces;
  for (const int32_t id : *ids) detokenizer.Push(id, pieces);
  detokenizer.Finish(pieces);
  if (pieces != decoded || !IsValidUtf8(decoded)) std::abort();
  if (gives_back && decoded != ReplaceInvalidUtf8(text)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    auto spec = SpecFromTokenizerJson({.tokenizer_json = rest, .tokenizer_config_json = rest});
    if (!spec.ok()) return 0;
    const auto tokenizer = Tokenizer::Create(std::move(*spec));
    if (tokenizer.ok()) EncodeAndDecode(**tokenizer, "Hello  w\xc3\xb6rld 123's\n<|x|>", false);
    return 0;
  }
  for (const PreTokenizer pre :
       {PreTokenizer::kGpt2, PreTokenizer::kSmolLm, PreTokenizer::kLlama3, PreTokenizer::kQwen2,
        PreTokenizer::kQwen35, PreTokenizer::kDeepSeekV3, PreTokenizer::kGpt4o}) {
    EncodeAndDecode(*ByteTokenizer(pre), rest, true);
  }
  return 0;
}
