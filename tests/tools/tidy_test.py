"""tools/tidy.py finds what it is for, where it is, and nothing in code that is right."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import tidy  # noqa: E402

ROOMS = """
weft_room(base)
weft_room(tensor DEPS base)  # weft_room(commented DEPS base)
weft_room(kernels DEPS base tensor)
weft_room(graph DEPS base tensor)
weft_room(device DEPS base)
weft_room(engine DEPS base
  graph)
weft_room(cli DEPS base)
"""


class House(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.put("CMakeLists.txt", ROOMS)
        (self.root / "src").mkdir()

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def findings(self, check=None, **options):
        found, _ = tidy.run(self.root, **options)
        return [(f.path, f.line, f.check) for f in found if check in (None, f.check)]


class Includes(House):
    def test_a_room_may_include_itself_and_its_deps_only(self):
        self.put("src/base/a.h", "")
        self.put("src/tensor/b.h", '#include "base/a.h"\n#include <vector>\n')
        self.put("src/base/c.h", '// upward\n#include "tensor/b.h"\n')
        self.put("src/graph/d.h", '#include "tensor/b.h"\n#include "base/none.h"\n')
        self.assertEqual(self.findings(), [("src/base/c.h", 2, "include"), ("src/graph/d.h", 2, "include")])

    def test_deps_may_stand_on_the_next_line_and_comments_do_not_count(self):
        table = tidy.room_table(self.root)
        self.assertEqual(table["engine"], {"base", "graph"})
        self.assertNotIn("commented", table)

    def test_a_folder_without_a_room_is_found(self):
        self.put("src/attic/a.h", "")
        self.assertEqual(self.findings(), [("src/attic/a.h", 1, "include")])


class Words(House):
    def test_each_word_is_found_in_the_wrong_room(self):
        for room, line, check in (
                ("engine", 'auto x = getenv("X");', "getenv"),
                ("base", "std::cout << 1;", "stdout"),
                ("base", "throw 1;", "throw"),
                ("graph", "std::regex r;", "regex"),
                ("graph", "auto v = _mm256_add_ps(a, b);", "intrinsic"),
                ("graph", "_mm_pause();", "intrinsic"),
                ("kernels", "int rank = 0;", "rank"),
                ("graph", "struct Request;", "request"),
                ("engine", "Json j;", "json"),
                ("engine", "#include <boost/json.hpp>", "boost-json"),
                ("engine", "#include <boost/asio.hpp>", "asio"),
                ("graph", "const double launch_us = 5;", "time-constant"),
                ("engine", 'if (name == "qwen3") {}', "model-name"),
                ("engine", 'Find("q_proj");', "weight-name")):
            with self.subTest(check):
                file = self.put(f"src/{room}/word.h", "\n  " + line + "\n")
                found = self.findings()
                file.unlink()
                self.assertEqual(found, [(f"src/{room}/word.h", 2, check)])

    def test_the_right_room_may_say_it(self):
        self.put("src/cli/a.h", '  auto x = getenv("X"); std::cout << x;\n')
        self.put("src/kernels/a.h", "  auto v = _mm256_add_ps(a, b);\n")
        self.put("src/device/a.h", "_mm_pause();\n")
        self.put("src/engine/a.h", "  Request request;\n")
        self.assertEqual(self.findings(), [])

    def test_comments_and_literals_are_not_code(self):
        self.put("src/base/a.h", '// we do not throw\n/* std::cout\n throw */\n  auto s = "throw \\" throw";\n'
                                 '  auto r = R"x(throw)x";\n  int a = 1\'000; char c = \'"\'; int b;\n')
        self.assertEqual(self.findings(), [])

    def test_code_after_a_literal_is_still_seen(self):
        self.put("src/base/a.h", 'f("//"); throw 1;\n')
        self.assertEqual(self.findings(), [("src/base/a.h", 1, "throw")])


class State(House):
    def test_mutable_state_is_found(self):
        for line in ("  static int counter = 0;", "static std::map<int, std::string> cache;",
                     "thread_local Foo foo;", "int g_level = 1;", "std::atomic<int> ready{0};",
                     "static inline std::vector<int> all{};"):
            with self.subTest(line):
                self.put("src/base/a.h", line + "\n")
                self.assertEqual(self.findings(), [("src/base/a.h", 1, "state")])

    def test_constants_and_functions_are_not_state(self):
        self.put("src/base/a.h", "\n".join((
            "static constexpr int kA = 1;", "  static const std::array<int, 2> kB{1, 2};",
            "constexpr std::array<int, 2> kC{1, 2};", "extern const int kD;", "const int kD = 3;",
            "  static Result<int> Open(const std::string& path);", "static int F(int a) { return a; }",
            "inline constexpr int kE = 2;", "int G(int a) {", "}", "using T = int;", "class A;",
            "Status H(int b);", "  static_assert(sizeof(int) == 4);", "enum class E : int { kA };")) + "\n")
        self.assertEqual(self.findings(), [])


class Mirrors(House):
    def test_a_source_without_a_test_is_found(self):
        self.put("src/graph/passes/sp.cc", "")
        self.assertEqual(self.findings(), [("src/graph/passes/sp.cc", 1, "mirror")])
        self.put("tests/graph/passes/sp_test.cc", "")
        self.assertEqual(self.findings(), [])

    def test_one_test_may_cover_the_parts_of_a_thing_or_name_them(self):
        self.put("src/graph/text_parse.cc", "")
        self.put("src/graph/other.cc", "")
        self.put("src/graph/parts/a.cc", "")
        self.put("tests/graph/text_test.cc", "// Covers src/graph/other.cc src/graph/parts/\n")
        self.assertEqual(self.findings(), [])

    def test_a_test_cannot_cover_what_is_not_there_or_not_its_room(self):
        self.put("src/base/a.cc", "")
        self.put("tests/base/a_test.cc", "")
        self.put("tests/graph/x_test.cc", "// Covers src/base/a.cc src/graph/gone.cc\n")
        self.put("src/graph/g.h", "")
        self.assertEqual([f[2] for f in self.findings()], ["mirror", "mirror"])

    def test_a_kernel_family_needs_list_contract_and_test(self):
        self.put("src/kernels/rope/rope_avx2.cc", "")
        self.assertEqual([f[2] for f in self.findings()], ["family", "mirror"])
        self.put("src/kernels/rope/rope_list.cc", "")
        self.put("tests/kernels/rope/rope_test.cc", "")
        self.assertEqual(self.findings(), [("src/kernels/rope/rope_list.cc", 1, "family")])
        self.put("src/kernels/rope/rope_ref.cc", "")
        self.assertEqual(self.findings(), [])


class Numbers(House):
    def test_libm_estimates_and_orderless_sums_are_found_in_kernels(self):
        for line, check in (("y = std::exp(x);", "libm"), ("y = expf(x);", "libm"), ("y = sin(x);", "libm"),
                            ("y = _mm256_rsqrt_ps(x);", "estimate"), ("y = _mm512_rcp14_ps(x);", "estimate"),
                            ("y = std::reduce(a, b);", "order"), ("y = _mm512_reduce_add_ps(x);", "order")):
            with self.subTest(line):
                self.put("src/kernels/a.h", line + "\n")
                self.assertEqual(self.findings(), [("src/kernels/a.h", 1, check)])

    def test_exact_functions_and_our_own_are_free(self):
        self.put("src/kernels/a.h", "y = std::sqrt(x) + std::fma(a, b, c) + Exp(x) + m.exp(x) + my_exp(x);\n")
        self.put("src/graph/a.h", "  double d = std::log2(x);\n")
        self.assertEqual(self.findings(), [])

    def test_flags_that_change_sums_are_found(self):
        self.put("cmake/x.cmake", "\nadd_compile_options(-ffast-math)\n")
        self.assertEqual(self.findings(), [("cmake/x.cmake", 2, "fast-math")])


class Exceptions(House):
    def test_an_exception_silences_its_finding_and_must_be_needed(self):
        self.put("src/base/a.h", "  throw 1;\n")
        self.put("tools/tidy_exceptions.txt", "# comment\nthrow src/base/a.h the reason why\n")
        self.assertEqual(self.findings(), [])
        self.put("src/base/a.h", "\n")
        self.assertEqual(self.findings(), [("tools/tidy_exceptions.txt", 2, "exception")])

    def test_an_exception_without_a_reason_is_a_finding(self):
        self.put("tools/tidy_exceptions.txt", "throw src/base/a.h\n")
        self.assertEqual(self.findings(), [("tools/tidy_exceptions.txt", 1, "exception")])


@unittest.skipUnless(shutil.which("g++") and shutil.which("nm"), "needs g++ and nm")
class Objects(House):
    def compile(self, code):
        source = self.root / "x.cc"
        source.write_text(code)
        target = self.root / "build/CMakeFiles/weft_kernels.dir/src/kernels/f/f_avx512.cc.o"
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", "-O0", "-c", "-o", str(target), str(source)], check=True)
        return self.findings("isa-symbol", build=self.root / "build")

    def test_a_table_entry_is_the_only_export(self):
        entry = "struct K { void (*f)(); }; namespace { void F() {} } extern const K kEntry; const K kEntry{F};"
        self.assertEqual(self.compile(entry), [])
        self.assertEqual(len(self.compile(entry + " void Helper() {}")), 1)
        self.assertEqual(len(self.compile("inline int f(int a) { return a; } namespace { int g() { return f(1); } }"
                                          "extern int (*const kE)(); int (*const kE)() = g;")), 1)


@unittest.skipUnless(shutil.which("g++"), "needs g++")
class Headers(House):
    def test_a_header_that_leans_on_its_includer_is_found(self):
        self.put("src/base/a.h", "#pragma once\n#include <vector>\ninline std::vector<int> F() { return {}; }\n")
        self.put("src/base/b.h", "#pragma once\ninline Missing F();\n")
        self.assertEqual(self.findings("header", headers=True), [("src/base/b.h", 1, "header")])


if __name__ == "__main__":
    unittest.main()
