"""tools/run_tests.py counts what happened: no failure is lost, and nothing is not success."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import run_tests  # noqa: E402

run_tests.say = lambda text: None


def report(*cases):
    made = []
    for name, state in cases:
        case = {"name": name, "result": "SKIPPED" if state == "skipped" else "COMPLETED"}
        if state == "failed":
            case["failures"] = [{"failure": "x"}]
        made.append(case)
    return json.dumps({"testsuites": [{"name": "Suite", "testsuite": made}]})


class Counting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def count(self, *cases):
        body = "".join(f'<testcase name="{n}" status="{s}"><system-out>{o}</system-out></testcase>'
                       for n, s, o in cases)
        junit = self.folder / "ctest.xml"
        junit.write_text(f"<testsuite>{body}</testsuite>")
        return run_tests.count_ctest(junit, self.folder)

    def test_cases_of_a_program_count_one_by_one(self):
        (self.folder / "weft_base_test.json").write_text(
            report(("A", "ok"), ("B", "failed"), ("C", "skipped"), ("D", "ok")))
        tally = self.count(("base", "fail", ""))
        self.assertEqual((tally.passed, tally.skipped, tally.failures), (2, 1, ["Suite.B"]))

    def test_a_program_that_dies_counts_what_it_finished_and_one_failure(self):
        tally = self.count(("io", "fail", "[ RUN      ] S.A\n[       OK ] S.A (0 ms)\n[ RUN      ] S.B\nSegfault"))
        self.assertEqual((tally.passed, tally.failures), (1, ["S.B (the program died)"]))

    def test_a_program_that_fails_after_its_last_case_is_a_failure(self):
        (self.folder / "weft_io_test.json").write_text(report(("A", "ok")))
        tally = self.count(("io", "fail", "LeakSanitizer"))
        self.assertEqual((tally.passed, len(tally.failures)), (1, 1))

    def test_other_tests_count_as_one(self):
        tally = self.count(("tidy", "run", "0 findings"), ("tools", "fail", ""), ("gone", "notrun", ""))
        self.assertEqual((tally.passed, len(tally.failures)), (1, 2))

    def test_a_missing_report_is_a_failure(self):
        self.assertEqual(len(run_tests.count_ctest(self.folder / "none.xml", self.folder).failures), 1)

    def test_a_program_that_is_wanted_and_was_not_built_is_a_failure(self):
        junit = self.folder / "ctest.xml"
        junit.write_text('<testsuite><testcase name="comm_mpi_2" status="run"/></testsuite>')
        tally = run_tests.count_ctest(junit, self.folder, ("comm_mpi_2", "comm_mpi_4"))
        self.assertEqual((tally.passed, tally.failures), (1, ["comm_mpi_4: not built"]))

    def test_client_tests_are_counted_from_the_runner(self):
        junit = self.folder / "clients.xml"
        junit.write_text('<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>'
                         '<testcase name="c"><skipped message="why"/></testcase></testsuite></testsuites>')
        tally = run_tests.count_pytest(junit, 1)
        self.assertEqual((tally.passed, tally.failures), (1, ["clients.b", "clients.c: skipped (why)"]))
        self.assertEqual(len(run_tests.count_pytest(self.folder / "none.xml", 1).failures), 1)
        junit.write_text("<testsuites/>")
        self.assertEqual(len(run_tests.count_pytest(junit, 2).failures), 1)


if __name__ == "__main__":
    unittest.main()
