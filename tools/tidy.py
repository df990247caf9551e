#!/usr/bin/env python3
"""What a compiler does not check: that each line of weft is in its room.

    tools/tidy.py [--root DIR] [--build DIR] [--headers] [--longest N]

Findings are `file:line: [check] message`; the exit status is 1 if there is one. A finding that must
stay is a line of tools/tidy_exceptions.txt: `check path reason`; one that is no longer needed is a
finding too. --build also looks at the objects of a release build for symbols that leak from one
instruction set into another; --headers compiles every header alone (slow).
"""
import argparse
import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
import sys

CODE = (".h", ".cc")


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str  # relative to the root
    line: int
    check: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.check}] {self.message}"


# ---- The text of a file, in three forms ----------------------------------------------------------

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)


def blank(text, strings):
    """`text` without comments and, if `strings`, without the insides of literals; lines stay."""
    def replace(match):
        token = match.group()
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        if not strings:
            return token
        return '"' + re.sub(r"[^\n]", " ", token[1:-1]) + '"'
    return TOKEN.sub(replace, text)


class Source:
    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8", errors="replace")
        self.code = blank(self.text, strings=True).split("\n")     # neither comments nor literals
        self.words = blank(self.text, strings=False).split("\n")   # literals, but no comments
        self.lines = self.text.count("\n")
        parts = self.path.split("/")
        self.room = parts[1] if parts[0] == "src" and len(parts) > 2 else ""


def sources(root, folder):
    base = root / folder
    return [Source(root, p) for p in sorted(base.rglob("*")) if p.suffix in CODE and p.is_file()]


# ---- Includes ------------------------------------------------------------------------------------

def room_table(root):
    """{room: rooms that it may include}, from the weft_room() lines of CMakeLists.txt."""
    table = {}
    text = re.sub(r"#[^\n]*", "", (root / "CMakeLists.txt").read_text())
    for name, rest in re.findall(r"\bweft_room\(\s*(\w+)\s*([^)]*)\)", text):
        words = rest.split()
        table[name] = set(words[words.index("DEPS") + 1:]) if "DEPS" in words else set()
    return table


def check_includes(root, files):
    table = room_table(root)
    for source in files:
        if source.room not in table:
            yield Finding(source.path, 1, "include", f"no weft_room({source.room}) in CMakeLists.txt")
            continue
        for number, line in enumerate(source.words, 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            target = match.group(1)
            room = target.split("/")[0]
            if not (root / "src" / target).is_file():
                yield Finding(source.path, number, "include", f'"{target}" is not a file below src/')
            elif room != source.room and room not in table[source.room]:
                allowed = " ".join(sorted(table[source.room])) or "no other room"
                yield Finding(source.path, number, "include",
                              f"{source.room} may not include {room} (it may: {allowed})")


# ---- Words in the wrong room ---------------------------------------------------------------------

THINKING = "graph plan models sim"
FLOOR = "base tensor io text kernels device comm fused graph plan models exec sim"


@dataclasses.dataclass(frozen=True)
class Word:
    name: str
    pattern: str
    message: str
    rooms: str = ""        # only in these; empty: in all
    outside: str = ""      # but not below these folders or files of src/
    strings: bool = False  # literals count too


WORDS = (
    Word("getenv", r"\b(secure_)?getenv\b", "the environment is read in cli only", outside="cli"),
    Word("stdout", r"\bstd::(cout|cerr|clog)\b|(?<![\w:])(std::)?(printf|puts|putchar)\s*\(",
         "printing belongs to cli; elsewhere a log sink is handed in", outside="cli"),
    Word("throw", r"\bthrow\b", "we do not throw; return a Status"),
    Word("regex", r"\bstd::regex\b|<regex>", "std::regex overflows the stack on long input; PCRE2 in text"),
    Word("intrinsic", r"\b_mm\d*_(?!pause\b|getcsr\b|setcsr\b)\w+|\b__m(128|256|512)\w*",
         "arithmetic by intrinsics belongs to kernels", outside="kernels"),
    Word("intrinsic", r"<[ixens]mmintrin\.h>|\b_mm_(pause|getcsr|setcsr)\b",
         "a core's own instructions belong to device", outside="kernels device"),
    Word("rank", r"\branks?(_\w+)?\b", "a kernel or a model knows no rank", rooms="kernels models"),
    Word("request", r"\b[Rr]equests?\b|\bRequest[A-Z]\w*", "a request is known to engine and serve only",
         rooms=FLOOR),
    Word("json", r"\bJson\w*|\bjson::", "JSON ends before this room", rooms="engine plan graph"),
    Word("boost-json", r"<boost/json", "Boost.JSON stays behind base/json.h", outside="base/json.cc"),
    Word("asio", r"<boost/(asio|beast)", "Asio and Beast stay in serve/http", outside="serve/http"),
    Word("time-constant", r"\w+_(us|ns|ms)\s*(=|\{)\s*[1-9]|\bchrono::\w*seconds\s*[({]\s*[1-9]|\b\d+(us|ns|ms)\b",
         "times of a machine come from a profile", rooms=THINKING),
    Word("model-name", r"(?i)\b(k?llama|k?qwen|deepseek|smollm|mistral|gemma)\w*",
         "a model's name belongs to models", rooms="base tensor kernels device comm fused graph plan exec sim engine",
         strings=True),
    Word("weight-name", r"\b([qkvo]_proj|(gate|up|down)_proj|embed_tokens|(in|post)\w*_layernorm)\b",
         "a layer's or weight's name belongs to models",
         rooms="base tensor text kernels device comm fused graph plan sim engine serve", strings=True),
)


def below(path, folders):
    return any(path == f"src/{f}" or path.startswith(f"src/{f}/") for f in folders.split())


def check_words(root, files):
    for word in WORDS:
        pattern = re.compile(word.pattern)
        for source in files:
            if (word.rooms and source.room not in word.rooms.split()) or below(source.path, word.outside):
                continue
            for number, line in enumerate(source.words if word.strings else source.code, 1):
                match = pattern.search(line)
                if match:
                    yield Finding(source.path, number, word.name,
                                  f"'{match.group().strip()}': {word.message}")


# ---- State that outlives a call --------------------------------------------------------------------

LOCAL_STATIC = re.compile(
    r"^\s*(inline\s+)?static\s+(?!const\b|constexpr\b|inline\s+const|inline\s+constexpr|_?assert)"
    r"(inline\s+)?[\w:&*<>,\s]*?[\w>&*]\s+[&*]*\w+\s*(=[^=]|;|\{|\[)")
GLOBAL = re.compile(
    r"^(inline\s+)?(?!const\b|constexpr\b|extern\b|using\b|return\b|throw\b|delete\b|co_return\b|namespace\b|struct\b|class\b|enum\b"
    r"|union\b|template\b|typedef\b|friend\b|static\b|inline\b|goto\b|public\b|private\b|else\b|case\b)"
    r"[A-Za-z_][\w:]*(<[^;(){}=]*>)?[\s*&]+\w+\s*(=[^=]|;|\{[^{}]*\};)")


def check_statics(root, files):
    for source in files:
        for number, line in enumerate(source.code, 1):
            flat = re.sub(r"<[^<>]*>", "<>", re.sub(r"<[^<>]*>", "<>", line))
            if re.search(r"\bthread_local\b", line):
                what = "thread_local"
            elif LOCAL_STATIC.match(flat) and not re.match(r"\s*static\s+const\b", flat):
                what = "a mutable static"
            elif GLOBAL.match(flat) and not re.search(r"\b(const|constexpr)\b", flat):
                what = "a mutable global"
            else:
                continue
            yield Finding(source.path, number, "state", f"{what}: state has an owner that is handed down")


# ---- Tests beside sources, contracts beside kernels --------------------------------------------------

def is_mirror(test_stem, stem):
    return test_stem == stem or stem.startswith(test_stem + "_") or test_stem.startswith(stem + "_")


def check_mirrors(root, files):
    """tests/<folder>/<name>_test.cc for src/<folder>/<name>.cc; it covers name_*.cc too, and what a line
    `// Covers src/a/b.cc src/a/c/ ...` of a test in the same room names. In kernels and comm a folder is a
    family, whose tests loop over its list."""
    covered = set()
    for room in {s.room for s in files}:
        for test in sorted((root / "tests" / room).rglob("*_test.cc")):
            for number, line in enumerate(test.read_text().split("\n"), 1):
                for name in re.findall(r"src/\S+", line) if line.startswith("// Covers ") else []:
                    covered.add(name)
                    if not name.startswith(f"src/{room}/") or not (root / name).exists():
                        yield Finding(test.relative_to(root).as_posix(), number, "mirror",
                                      f"{name} is not in {room}")
    for source in files:
        path = pathlib.PurePosixPath(source.path)
        if path.suffix != ".cc" or path.name == "main.cc" or covered & {source.path, f"{path.parent}/"}:
            continue
        folder = path.parent.relative_to("src")
        tests = [p.name[:-len("_test.cc")] for p in (root / "tests" / folder).glob("*_test.cc")]
        family = source.room in ("kernels", "comm") and len(folder.parts) > 1
        if source.room == "comm" and family:  # the reference of a collective is tested beside the fabric
            tests += [p.name for p in (root / "tests/comm").glob("*_test.cc")]
        if path.stem.endswith("_list") or (family and tests):
            continue
        if not any(is_mirror(t, path.stem) for t in tests):
            yield Finding(source.path, 1, "mirror", f"no tests/{folder}/{path.stem}_test.cc")


def check_families(root, files):
    kernels = root / "src" / "kernels"
    if not kernels.is_dir():
        return
    for folder in sorted(p for p in kernels.iterdir() if p.is_dir() and p.name != "simd"):
        path = folder.relative_to(root).as_posix()
        lists = sorted(folder.glob("*_list.cc"))
        if any(folder.iterdir()) and not lists:
            yield Finding(path, 1, "family", "no *_list.cc: the ordered list of its kernels")
        for each in lists:
            contract = each.name.replace("_list.cc", "_ref.cc")
            if not (folder / contract).is_file():
                yield Finding(f"{path}/{each.name}", 1, "family", f"no {contract}: the contract that defines the bits")


# ---- Numbers ---------------------------------------------------------------------------------------

LIBM = (r"(exp|exp2|expm1|log|log2|log10|log1p|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|pow|cbrt"
        r"|erf|erfc|tgamma|lgamma|hypot|fmod|remainder)")
NUMBERS = (
    ("libm", re.compile(rf"(?<![\w.>:]){LIBM}[fl]?\s*\(|\bstd::{LIBM}[fl]?\s*\("),
     "libm differs between machines; kernels/simd/math.h has ours"),
    ("estimate", re.compile(r"\b_mm\d*_(mask_|maskz_)?r(cp|sqrt)\w*"),
     "an estimate differs between makers; divide and take the root by IEEE"),
    ("order", re.compile(r"\bstd::(reduce|transform_reduce|inner_product|accumulate)\b|\b_mm512_(mask_)?reduce_(add|mul)\w*"),
     "the order of a sum is part of the contract; write it out"),
)


def check_numbers(root, files):
    for source in files:
        if source.room not in ("kernels", "fused"):
            continue
        for number, line in enumerate(source.code, 1):
            for check, pattern, message in NUMBERS:
                match = pattern.search(line)
                if match:
                    yield Finding(source.path, number, check, f"'{match.group().strip()}': {message}")
    for path in [root / "CMakeLists.txt", root / "CMakePresets.json", *sorted((root / "cmake").glob("*.cmake"))]:
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if re.search(r"-ffast-math|-Ofast|-funsafe-math|-ffp-contract=(fast|on)", line.split("#")[0]):
                yield Finding(path.relative_to(root).as_posix(), number, "fast-math",
                              "the compiler may not change a sum")


# ---- Objects and headers -----------------------------------------------------------------------------

ISA_OBJECT = re.compile(r"_avx\w*\.cc\.o$")


def check_objects(root, build):
    """An object of one instruction set that exports an inline function can replace everybody's copy of
    it at link time, and then crash on a smaller machine."""
    for path in sorted(build.rglob("*.cc.o")):
        if not ISA_OBJECT.search(path.name):
            continue
        source = str(path).split(".dir/", 1)[-1][:-2]
        if not source.startswith("src/"):
            continue  # a test that includes such a source to emulate it is linked into no program of ours
        out = subprocess.run(["nm", "--defined-only", "--extern-only", "-C", str(path)], text=True,
                             capture_output=True, check=True).stdout
        for line in out.split("\n"):
            match = re.match(r"[0-9a-f]* ?([A-Za-z]) (.*)", line)
            if not match:
                continue
            kind, symbol = match.groups()
            if kind in "WVuvw":
                yield Finding(source, 1, "isa-symbol", f"exports the weak symbol {symbol}")
            elif kind in "T" or not re.search(r"\bk[A-Z]\w*$", symbol):
                yield Finding(source, 1, "isa-symbol", f"exports {symbol} beside its table entry")


def compile_header(root, header):
    command = ["g++", "-std=c++20", "-fsyntax-only", "-march=x86-64-v3", "-Wno-pragma-once-outside-header",
               "-I", str(root / "src"), "-x", "c++", str(header)]
    if header.name.endswith("_avx512.h") or header.name == "avx512.h":
        command[4:4] = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mavx512bf16"]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode == 0:
        return None
    first = next((l for l in out.stderr.split("\n") if "error:" in l), "fails").strip()
    return Finding(header.relative_to(root).as_posix(), 1, "header", f"does not compile alone: {first}")


def check_headers(root):
    headers = sorted((root / "src").rglob("*.h"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from (f for f in pool.map(lambda h: compile_header(root, h), headers) if f)


# ---- Exceptions and the end ----------------------------------------------------------------------------

def read_exceptions(root):
    path, exceptions, findings = root / "tools" / "tidy_exceptions.txt", {}, []
    for number, line in enumerate(path.read_text().split("\n") if path.is_file() else [], 1):
        words = line.split("#")[0].split(maxsplit=2)
        if len(words) == 3:
            exceptions[(words[0], words[1])] = number
        elif words:
            findings.append(Finding("tools/tidy_exceptions.txt", number, "exception",
                                    "needs three parts: check path reason"))
    return exceptions, findings


def run(root, build=None, headers=False):
    files = sources(root, "src")
    found = [f for check in (check_includes, check_words, check_statics, check_mirrors, check_families,
                             check_numbers) for f in check(root, files)]
    ran = {"isa-symbol": build is not None, "header": headers}
    if build is not None:
        found += check_objects(root, build)
    if headers:
        found += check_headers(root)
    exceptions, findings = read_exceptions(root)
    used = {(f.check, f.path) for f in found}
    findings += [f for f in found if (f.check, f.path) not in exceptions]
    findings += [Finding("tools/tidy_exceptions.txt", number, "exception", f"no longer needed: {check} {path}")
                 for (check, path), number in exceptions.items()
                 if (check, path) not in used and ran.get(check, True)]
    return sorted(set(findings)), files


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--build", type=pathlib.Path, help="a release build whose objects are looked at")
    parser.add_argument("--headers", action="store_true", help="compile every header alone")
    parser.add_argument("--longest", type=int, default=10, metavar="N")
    args = parser.parse_args()
    findings, files = run(args.root.resolve(), args.build, args.headers)
    longest = sorted(files, key=lambda s: -s.lines)[:args.longest]
    print("longest files: " + ", ".join(f"{s.path} {s.lines}" for s in longest))
    for finding in findings:
        print(finding)
    print(f"{len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
