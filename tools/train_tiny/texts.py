"""Free English text out of Debian packages, as documents: what the tiny model is trained and measured on.

Packages are read where apt-get puts them; nothing is fetched here. Every package is one kind of text. Lines
of a paragraph are joined, so that where a line was broken need not be learnt.
"""
import gzip
import html.parser
import pathlib
import random
import re
import subprocess
import sys

HELD_OUT = 15          # of so many documents of a kind one is for evaluation
DOCUMENT_CHARS = 6000  # longer ones are cut between paragraphs
SEED = 7


def joined(block):
    """A paragraph on one line; what is indented or drawn stays as it is."""
    lines = block.split("\n")
    if any(line.startswith((" ", "\t", "+-", "|", "==")) for line in lines):
        return "\n".join(line.rstrip() for line in lines)
    return re.sub(r"\s+", " ", block).strip()


def paragraphs(text):
    return [p for p in (joined(b.strip("\n")) for b in re.split(r"\n\s*\n", text)) if p.strip()]


# ---- Readers, one a kind: each gives (title, text) ----------------------------------------------------

def bible():
    """Chapters, each verse a paragraph behind its number."""
    out = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    chapters = {}
    for line in out.stdout.splitlines():
        found = re.match(r"(\w*?[A-Za-z]+)(\d+):(\d+) (.*)", line)
        if found:
            chapters.setdefault((found[1], found[2]), []).append(f"{found[3]} {found[4]}")
    for (book, chapter), verses in chapters.items():
        yield f"{book} {chapter}", "\n\n".join([f"{book} {chapter}"] + verses)


def dictionary(name, entry):
    """Neighbouring entries together, about a page of them."""
    text = gzip.open(f"/usr/share/dictd/{name}.dict.dz").read().decode("utf-8", "replace")
    page, title = [], ""
    for block in re.split(entry, text)[8:]:
        lines = block.strip("\n").split("\n")
        body = "\n".join([lines[0]] + [re.sub("^    ", "", line) for line in lines[1:]])
        title = title or re.split(r",? [a-z]+\.|\n|\.|,", lines[0])[0].strip()
        page.append("\n\n".join(paragraphs(body)))
        if sum(map(len, page)) > 1800:
            yield title, "\n\n".join(page)
            page, title = [], ""


class Page(html.parser.HTMLParser):
    """Text of an HTML page from its first heading on."""
    BLOCKS = {"p", "li", "h1", "h2", "h3", "h4", "dt", "dd", "tr", "blockquote", "div", "ul", "ol", "table", "pre", "hr"}
    UNREAD = {"script", "style", "svg", "head", "button"}

    def __init__(self):
        super().__init__()
        self.parts, self.unread, self.pre, self.begun = [], 0, 0, False

    def handle_starttag(self, tag, attrs):
        self.begun = self.begun or tag == "h1" or tag == "h2" or ("class", "fancy_title") in attrs
        self.unread += tag in self.UNREAD
        if tag in self.BLOCKS:
            self.parts.append("\n\n")
        self.pre += tag == "pre"

    def handle_endtag(self, tag):
        self.unread -= tag in self.UNREAD
        self.pre -= tag == "pre"
        if tag in self.BLOCKS:
            self.parts.append("\n\n")

    def handle_data(self, data):
        if self.begun and not self.unread:
            self.parts.append(data.replace("\n", "\n    ") if self.pre else re.sub(r"\s+", " ", data))

    def text(self):
        blocks = (b if b.startswith("    ") else b.strip() for b in re.split(r"\n\s*\n", "".join(self.parts)))
        return "\n\n".join(b for b in blocks if b.strip())


def sqlite():
    unread = ("requirements", "syntax", "doc_", "keyword", "sitemap", "search", "hlr", "changes", "releaselog")
    root = pathlib.Path("/usr/share/doc/sqlite3")
    for path in sorted(root.glob("*.html")) + sorted(root.glob("c3ref/*.html")):
        if path.name.startswith(unread) or path.stat().st_size > 250_000:
            continue
        page = Page()
        page.feed(path.read_text(errors="replace"))
        text = re.sub(r"\u25ba.*?\n\n(?=1\. )", "", page.text(), count=1, flags=re.S)
        heads = text.split("\n\n")
        yield heads[path.parent.name == "c3ref"].split("\n")[0][:60], text


def python():
    """reStructuredText with its roles and its orders to the typesetter taken out."""
    root = pathlib.Path("/usr/share/doc/python3.11/html/_sources")
    for path in sorted(p for part in ("tutorial", "library", "howto", "faq", "reference") for p in (root / part).rglob("*.txt")):
        text = path.read_text(errors="replace")
        text = re.sub(r"^\.\. (?:\w*index|module|moduleauthor|sectionauthor|_|highlight|testsetup|currentmodule|include).*\n"
                      r"(?:[ \t]+.*\n|\n(?=[ \t]))*", "", text, flags=re.M)
        text = re.sub(r"^\.\. [A-Za-z*<].*(?<!:)\n(?:[ \t]+\S.*\n)*", lambda m: m[0] if "::" in m[0] else "", text, flags=re.M)
        text = re.sub(r":[a-z:+-]+:`[~!]?([^`<]*?)(?: <[^`]*>)?`", r"\1", text)
        text = re.sub(r"``([^`]*)``", r"\1", text)
        text = re.sub(r"^([=\-~^*\"+#])\1{2,}\n", "\n", text, flags=re.M)
        text = re.sub(r"^\.\. (\w+):: ?", r"\1: ", text, flags=re.M)
        yield next((p for p in paragraphs(text)), path.stem)[:60], text


KINDS = {  # how many characters of it at most, and how it is read
    "bible-kjv-text": (1_500_000, bible),
    "dict-devil": (400_000, lambda: dictionary("devil", r"\n\n(?=[A-Z][A-Z'-]+[,.] )")),
    "dict-jargon": (1_000_000, lambda: dictionary("jargon", r"\n\n(?=\S[^\n]{0,40}\n [^ ])")),
    "python3.11-doc": (1_400_000, python),
    "sqlite3-doc": (1_200_000, sqlite),
}


def cut(title, text):
    part, size = [], 0
    for p in paragraphs(text):
        if size + len(p) > DOCUMENT_CHARS and part:
            yield title, "\n\n".join(part)
            part, size = [], 0
        part.append(p[:DOCUMENT_CHARS])
        size += len(p)
    if size > 400:
        yield title, "\n\n".join(part)


def version(package):
    return subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True).stdout


def collect():
    """{kind: (documents to train on, held-out ones)}, each document (title, text)."""
    kinds = {}
    for kind, (chars_max, read) in KINDS.items():
        try:
            documents = [d for title, text in read() for d in cut(title, text)]
        except FileNotFoundError as error:
            sys.exit(f"{error}; apt-get install {kind} bible-kjv")
        random.Random(SEED).shuffle(documents)
        kept, size = [], 0
        for document in documents:
            if size + len(document[1]) <= chars_max:
                kept.append(document)
                size += len(document[1])
        kinds[kind] = ([d for i, d in enumerate(kept) if i % HELD_OUT], kept[::HELD_OUT])
    return kinds


# ---- Conversations, so that the template's tokens mean something ---------------------------------------

ASKED = ("Tell me about {}.", "What do you know about {}?", "Explain {}.", "{}", "Please write about {}.")
SYSTEM = "You answer from old books and manuals."


def conversations(documents, rng):
    """Every fifth document once more as the answer to a question for it."""
    for title, text in documents[::5]:
        answer = ""
        for p in text.split("\n\n"):
            answer = f"{answer}\n\n{p}".strip()
            if len(answer) > 300:
                break
        system = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n" if rng.random() < 0.2 else ""
        yield (f"{system}<|im_start|>user\n{rng.choice(ASKED).format(title)}<|im_end|>\n"
               f"<|im_start|>assistant\n{answer[:900]}<|im_end|>\n")
