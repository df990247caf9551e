#!/usr/bin/env python3
"""Golden ids of SmolLM2's own tokenizer for tools/oracle/text_corpus.py.

    make_smollm2_tokenizer.py GGUF [--out FILE]

Rebuilds a Hugging Face `tokenizers` object from the tokens, merges and types in the GGUF file: byte-level BPE, each
digit alone, no normaliser, control tokens special. Writes tests/text/data/golden_smollm2.json:

    {"ids": [[..] per string of corpus.json "strings"],
     "invalid": [[..] per entry of corpus.json "invalid", decoded with errors="replace" first],
     "unparsed": {"<index>": [..]}: ids of the strings where special tokens taken as text give others,
     "text": {"<index>": ".."}: decode(ids, skip_special_tokens=False) where it is not the string itself,
     "tokens": number of tokens, "sha256": of the GGUF file}
"""

import argparse
import hashlib
import json
import pathlib

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import text_corpus

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "data"
CONTROL, USER_DEFINED = 3, 4


def tokenizer_of(reader):
    get = lambda key: reader.fields["tokenizer.ggml." + key].contents()
    assert get("model") == "gpt2" and get("pre") == "smollm", (get("model"), get("pre"))
    tokens, types = get("tokens"), get("token_type")
    merges = [tuple(m.split(" ", 1)) for m in get("merges")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(t, special=kind == CONTROL, normalized=False)
                          for t, kind in zip(tokens, types) if kind in (CONTROL, USER_DEFINED)])
    assert tokenizer.get_vocab_size() == len(tokens)
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=DATA / "golden_smollm2.json")
    args = parser.parse_args()
    corpus = json.loads((DATA / "corpus.json").read_text())
    tokenizer = tokenizer_of(GGUFReader(args.gguf))
    strings = corpus["strings"]
    ids = [tokenizer.encode(s, add_special_tokens=False).ids for s in strings]
    invalid = [tokenizer.encode(bytes.fromhex(h).decode("utf-8", "replace"), add_special_tokens=False).ids
               for h in corpus["invalid"]]
    text = {str(i): t for i, t in enumerate(tokenizer.decode(x, skip_special_tokens=False) for x in ids) if t != strings[i]}
    tokenizer.encode_special_tokens = True
    unparsed = {str(i): x for i, x in enumerate(tokenizer.encode(s, add_special_tokens=False).ids for s in strings) if x != ids[i]}
    golden = {"ids": ids, "invalid": invalid, "unparsed": unparsed, "text": text, "tokens": tokenizer.get_vocab_size(),
              "sha256": hashlib.sha256(args.gguf.read_bytes()).hexdigest()}
    args.out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(len(ids), "strings,", sum(map(len, ids)), "ids,", args.out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
