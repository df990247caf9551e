"""Strings that tokenizers get wrong, and random ones built from the same characters.

Shared by the tokenizer oracles, so that every family is asked the same questions. Deterministic.
"""

import random

HARD = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", " \t ", "\n ", " \n", "  \n  x",
    "a", "A", "0", "é", "Hello, world!", "Hello  world", "Hello   world   ", "  leading", "trailing  ",
    "line one\nline two\r\nline three\rline four\n\n\n  indented\n\tx = 1;\n",
    "    if (x) {\n        return y;\n    }\n", "\t\tfoo\t bar \t", "a\u00a0b", "a\u00a0 \u00a0b", "a\u3000b\u2003c\u200ad",
    "a\u2028b\u2029c\x85d\x0be\x0cf", "x\u200by\u200cz\u200dw\ufeffv\u2060u",
    "I'm you're he'll they've we'd it's can't don't", "I'M YOU'RE HE'LL THEY'VE WE'D IT'S CAN'T",
    "I'Re you'rE he'lL they'Ve", "'s't're've'm'll'd", " 's 't 're", "''s", "'", "''", "x'y", "it'ſ it'ſt", "rock'n'roll 'tis",
    "O\u2019Brien\u2019s it\u2019ll", "l'été d'Ève", "'S'T 'RE_'VE",
    "1", "12", "123", "1234", "12345678901234567890", " 1 22 333 4444", "3.14159", "1,000,000.00", "0x1F3a 1e-10 2^16",
    "a1b22c333", "١٢٣٤٥ ۱۲۳ १२३ ৪৫৬ ๑๒๓", "²³¹ ½¾ Ⅷ ⅻ ① ⑳ 一二三", "𝟏𝟐𝟑 𝟶", "7️⃣",
    "!", "!!!", "?!?!", "a!b", " !", "!\n", "!\n\n", "!\r\n x", "...\n\n\n...", "()[]{}<>", "(hello)", "[x](y)", "// comment\n/* x */",
    "$100 €50 £20 ¥3 ₹5", "a+b=c*d/e%f^g&h|i~j`k", "#include <vector>\n", "foo_bar __init__ --flag=value",
    "http://example.org/a/b?c=d&e=f#g", "user@example.org", "C:\\dir\\file.txt", "path/to/x//\n//", "\"quoted\" «guillemets» „low“ 「括弧」",
    "§ ¶ © ® ™ ° ± × ÷", "→ ← ⇒ ∀ ∃ ∑ √ ∞ ≠ ≤", "█▓▒░ ┌─┐", "\u00ad soft\u00adhyphen",
    "Привет, мир!", "ПРИВЕТ мир Ёж", "Γειά σου Κόσμε", "ΑΒΓ αβγς", "שלום עולם", "שָׁלוֹם", "مرحبا بالعالم", "السَّلَامُ عَلَيْكُم",
    "नमस्ते दुनिया", "हिन्दी में", "বাংলা ভাষা", "தமிழ் மொழி", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "ไทยภาษาไทย สวัสดี", "ລາວ", "မြန်မာ", "ខ្មែរ",
    "你好,世界!", "你好 世界。", "中文English混排123", "日本語のテキスト、カタカナ・ひらがな。", "ｶﾀｶﾅ ＡＢＣ１２３", "한국어 텍스트", "ᄒ\u1161ᆫ", "각 \u1100\u1161\u11a8",
    "𠀀𠮷野家", "龥龦鿿㐀", "ー゛゜ヽヿ〿",
    "ქართული ᲥᲐᲠᲗᲣᲚᲘ", "Հայերեն", "አማርኛ", "ᏣᎳᎩ ꭰꭱ", "ᚠᚢᚦ", "𐐷𐐨 𐐀", "𝒜𝓫𝔠", "Ǆ ǅ ǆ ǈ ᾈ", "ʰʷ ª º", "ﬀ ﬁ ﬂ ﬆ", "İIıi ẞß ſ K Å",
    "e\u0301", "é", "a\u0308\u0323", "a\u0323\u0308", "q\u0307\u0323", "\u0301", " \u0301x", "x\u0301\u0302\u0303\u0304", "\u0301\u0301", "A\u030a Å \u212b", "ﬃ e\u0301\u0327 c\u0327\u0301",
    "n\u0303andu ñandu", "\u0958\u0929 क\u093c", "\u0344 \u0374 \u037e \u0387", "\u1e9b\u0323", "Việt Nam Vie\u0323\u0302t", "T\u0308e\u0301s\u030ct Zalgo t\u0334\u0321e\u0337x\u0338t",
    "a\u0315\u0300\u05ae\u0062", "\u0d9a\u0dca\u200d\u0dbb", "1\u0301 2\u20e3", "!\u0301a", "\u0903\u0903 \u0e33",
    "😀", "😀😃😄", "👍🏽", "👩‍👩‍👧‍👦 family", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️ ♥ ☺️", "a😀b 1😀2", "🫠🫨", "🧑🏿‍🚀\n", " 😀 ", "\U0001fae9 new", "\U0001f8b2",
    "\x00", "a\x00b", "\x01\x02\x03", "\x1b[31mred\x1b[0m", "\x7f", "\x80\x9f", "\u0600 \u06dd", "\ufffd", "\ufffe\uffff", "\ue000 \U000f0000 \U0010ffff", "\U000e0001",
    "\u0897\u1c89 \ua7cb \U00010d40\U00010d41 \U00011de0\U00016ff4", "\U00013460 \U0001ccf0 \U0001cc00", "\U00016d40\u2427",
    "<|im_start|>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b", " <|im_end|> ", "<|im_start", "<|im_start|", "<|im_<|im_end|>", "<|im_start|><|im_start|>",
    "<|endoftext|>", "<think>\n\n</think>\n\n", "x <think>y</think> z", "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "<THINK>", "<|extra|> x", "x  <|extra|>  y", "x <|extra|><|extra|> y",
    "myword word wordy sword word.", "word", "wordword word", "cafe\u0301 café CAFÉ cafe", "<e\u0301> <é>", "[MASK] a  [MASK]  b", "\n[MASK]\n", "caf<|im_end|>e\u0301",
    "HelloWorld helloWorld HTTPServer XMLHttpRequest iPhone", "AÉb ÀÉ éA", "ABCdefGHI'Sjkl'LL", "\u0301ABC \u0301abc \u0301", "中ABC中abc", "ʰABC Aʰb", "don'T DON't",
    "a" * 40, "ab" * 30, "-" * 50, " " * 60, "\n" * 20, "=" * 23 + "\n", "á" * 20, "中" * 17, "9" * 25, "'" * 9, "aA" * 15, "!\n" * 6, " \n" * 7, "\u0301" * 30,
    "The quick brown fox jumps over the lazy dog. " * 3, "internationalization antidisestablishmentarianism",
    "def f(x):\n    '''doc'''\n    return {k: v for k, v in x.items()}\n", "SELECT * FROM t WHERE a='b';", "<html><body class=\"x\">&amp;</body></html>",
    "{\"a\": [1, 2.5, null, true], \"b\": \"\\u00e9\"}", "# Title\n\n* item 1\n* item 2\n\n```py\nprint(1)\n```\n", "$$\\frac{a}{b}$$",
]

# Bytes that are no UTF-8; each ill-formed subpart reaches the reference as U+FFFD.
INVALID = [
    b"\xff", b"\xfe\xff", b"\x80", b"a\x80b", b"\xc0\xaf", b"\xc1\xbf", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x",
    b"\xe2(\xa1", b"\xf0\x9f\x98", b"\xf0\x9f\x98 ok", b"\xf0\x9f\x98\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xed\xb0\x80x",
    b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"ok \xe4\xbd\xa0\xe5\xa5 end",
    b"<|im_end|>\xff<|im_end|>", b"<|im_\xffend|>", b"e\xcc\x81\xcc", b"\xc3\xc3\xa9", b"'\xffs",
]

_ATOMS = list("abcXYZ sStT'dlmrvLe  \n\n\r\t019!?.,-_/(){}<>|=+$#\"\\") + [
    "'s", "'LL", "'Re", "ſ", "é", "e\u0301", "\u0301", "\u0323", "ñ", "ß", "Å", "Ж", "ж", "ς", "א", "ש", "م", "َ", "न", "्", "ि", "ก", "ำ", "中", "国", "あ", "ア", "ー",
    "한", "\u1100", "\u1161", "😀", "👍", "🏽", "\u200d", "\ufe0f", "٣", "½", "Ⅷ", "²", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\x00", "\x1f", "ǅ", "ʰ", "ª",
    "€", "×", "—", "…", "「", "」", "、", "𝒜", "𐐷", "𝟗", "\ufffd", "\ue000", "\u0378", "<|im_end|>", "<think>", "<|extra|>", "word", "[MASK]", "  ", "   ", "\r\n", "the", "ing",
]


def random_strings(count, seed, atoms_max=24):
    """Random concatenations of the atoms above."""
    rng = random.Random(seed)
    return ["".join(rng.choice(_ATOMS) for _ in range(rng.randint(1, atoms_max))) for _ in range(count)]


def training_text():
    """What the small vocabularies are trained on: the hard strings in other company."""
    plain = [s for s in HARD if "<|" not in s]
    words = ("the and of to in is that it was for on are with as be this have from or had by not but what all were "
             "when your can said there use each which she how their will other about out many then them these so some "
             "token rank step model word words letters merging prefer running running's Hello World return import "
             "int main void const string vector").split()
    rng = random.Random(7)
    lines = [" ".join(rng.choice(words) for _ in range(14)) + ".\n" for _ in range(200)]
    lines += [" ".join(w.upper() if rng.random() < 0.2 else w.title() for w in rng.sample(words, 8)) for _ in range(50)]
    return plain * 4 + lines + random_strings(800, seed=11)
