#!/usr/bin/env python3
"""The table kAdditions of src/text/unicode.cc: characters that Hugging Face's regular expressions know and this
machine's utf8proc calls unassigned, with their classes.

    make_unicode_additions.py

Prints the rows. Needs libutf8proc.so.2 (Debian libutf8proc2).
"""

import ctypes

from tokenizers import Regex, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CLASSES = [(r"\p{L}", "kLetter"), (r"\p{Lu}", "kUpper"), (r"\p{Lt}", "kUpper"), (r"\p{Ll}", "kLower"), (r"\p{M}", "kMark"),
           (r"\p{N}", "kNumber"), (r"\p{P}", "kPunct"), (r"\p{S}", "kSymbol")]


def matches(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for piece, _ in split.pre_tokenize_str("".join(map(chr, CODES))) for c in piece}


def digits():
    split = pre_tokenizers.Digits(individual_digits=True)
    text = "".join(f"a{chr(c)}b" for c in CODES if chr(c) not in "ab")
    return {ord(piece) for piece, _ in split.pre_tokenize_str(text) if len(piece) == 1 and piece not in "ab"}


def main():
    category = ctypes.CDLL("libutf8proc.so.2").utf8proc_category
    sets = [(matches(pattern), name) for pattern, name in CLASSES]
    sets.insert(6, (digits(), "kDigit"))
    rows = []
    for code in CODES:
        if category(code) != 0:
            continue
        names = list(dict.fromkeys(name for members, name in sets if code in members))
        if not names:
            continue
        if rows and rows[-1][1] == code - 1 and rows[-1][2] == names:
            rows[-1][1] = code
        else:
            rows.append([code, code, names])
    for first, last, names in rows:
        print(f"    {{0x{first:04x}, 0x{last:04x}, {' | '.join(names)}}},")


if __name__ == "__main__":
    main()
