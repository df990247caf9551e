#!/usr/bin/env python3
"""Golden files for src/text: small trained vocabularies of each pre-tokenizer family, and what
Hugging Face's `tokenizers` makes of tools/oracle/text_corpus.py with each of them.

Writes tests/text/data/{corpus,tokenizer_<family>,golden_<family>}.json.
A golden file has, by corpus index: "ids" (special tokens in the text parsed, none added), "added"
(add_special_tokens), "unparsed" (special tokens in the text are text), "invalid" (for
corpus.invalid), "text" (decode of "ids", nothing skipped) and "skipped" (skip_special_tokens).
Run: .venv/bin/python tools/oracle/make_tokenizers.py
"""

import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import text_corpus

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "data"

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL)
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+".replace('\\"', '"') +
            r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + TAIL)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?" +
         r"|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + CONTRACTIONS + "?" +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)

BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def pre_of(family):
    if family == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if family in ("smollm", "holes"):
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    if family == "deepseek":
        return pre_tokenizers.Sequence([split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), BYTES])
    pattern = {"llama3": LLAMA3, "qwen2": QWEN2, "qwen35": QWEN35, "gpt4o": GPT4O, "flags": QWEN2}[family]
    return pre_tokenizers.Sequence([split(pattern), BYTES])


def added_of(family):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [AddedToken(t, special=True, normalized=False) for t in special]
    if family.startswith("qwen"):
        tokens += [AddedToken(t, special=False, normalized=False) for t in ("<think>", "</think>", "<tool_call>", "</tool_call>")]
    if family == "flags":  # each flag that an added token can have
        tokens += [AddedToken("<|extra|>", special=True, normalized=False, lstrip=True),
                   AddedToken("[MASK]", special=True, normalized=False, lstrip=True, rstrip=True),
                   AddedToken("word", special=False, normalized=False, single_word=True),
                   AddedToken("<think>", special=False, normalized=True, rstrip=True),
                   AddedToken("cafe\u0301", special=False, normalized=True),
                   AddedToken("<e\u0301>", special=False, normalized=True, single_word=True)]
    return tokens


def make(family):
    tokenizer = Tokenizer(models.BPE(ignore_merges=family == "llama3"))
    if family in ("qwen2", "qwen35", "flags"):
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_of(family)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if family == "holes":  # a vocabulary without a token for some bytes
        alphabet = [c for c in alphabet if c.isascii()]
    limit = {"limit_alphabet": len(alphabet)} if family == "holes" else {}
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=sorted(alphabet), show_progress=False,
                                  special_tokens=[t for t in added_of(family) if t.special], **limit)
    tokenizer.train_from_iterator(text_corpus.training_text(), trainer)
    tokenizer.add_tokens([t for t in added_of(family) if not t.special])
    if family == "llama3":
        # A word that is a token but that no merge makes, and the BOS that this family puts in front.
        state = json.loads(tokenizer.to_str())
        state["model"]["vocab"]["Ġantidisestablishmentarianism"] = len(state["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])])
    return tokenizer


def dump(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    strings = text_corpus.HARD + text_corpus.random_strings(250, seed=1)
    dump("corpus.json", {"strings": strings, "invalid": [b.hex() for b in text_corpus.INVALID]})
    for family in ("gpt2", "smollm", "llama3", "qwen2", "qwen35", "deepseek", "gpt4o", "flags", "holes"):
        tokenizer = make(family)
        dump(f"tokenizer_{family}.json", json.loads(tokenizer.to_str()))
        golden = {"ids": [tokenizer.encode(s, add_special_tokens=False).ids for s in strings],
                  "added": [tokenizer.encode(s).ids for s in strings[:40]],
                  "invalid": [tokenizer.encode(b.decode("utf-8", "replace"), add_special_tokens=False).ids
                              for b in text_corpus.INVALID]}
        golden["text"] = [tokenizer.decode(ids, skip_special_tokens=False) for ids in golden["ids"]]
        golden["skipped"] = [tokenizer.decode(ids, skip_special_tokens=True) for ids in golden["ids"]]
        # Most texts decode to themselves; only the others are kept.
        for key in ("text", "skipped"):
            golden[key] = {str(i): t for i, t in enumerate(golden[key]) if t != strings[i]}
            # The reference's decoder takes an added token for bytes in the byte-level alphabet if it
            # can, which breaks Latin-1 letters in it; weft gives the content. null: not compared.
            broken = {tokenizer.token_to_id(t.content) for t in added_of(family)
                      if not t.content.isascii()}
            for i in golden[key]:
                if broken & set(golden["ids"][int(i)]):
                    golden[key][i] = None
        tokenizer.encode_special_tokens = True
        unparsed = [tokenizer.encode(s, add_special_tokens=False).ids for s in strings]
        golden["unparsed"] = {str(i): ids for i, ids in enumerate(unparsed) if ids != golden["ids"][i]}
        dump(f"golden_{family}.json", golden)


if __name__ == "__main__":
    main()
