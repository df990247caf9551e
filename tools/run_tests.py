#!/usr/bin/env python3
"""Builds weft, runs every test and counts the cases; behind scripts/test.

ctest runs the programs; the cases inside a GoogleTest program are counted from its own JSON report,
those of tests/clients from pytest's JUnit report, any other test counts as one. A program that dies
counts what it finished and one failure. Tests see:

    WEFT_TEST_MODEL   the GGUF file of scripts/get-model; not to have it is a failure
    WEFT_P1           "subset" or "full": how much of the one-answer matrix to walk
    WEFT_BINARY       build/release/weft, for tests/clients and the tests of cli
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUZZ_SECONDS = 20
# Ranks as processes: CMake leaves these out where it finds no MPI, which here is a failure.
MPI_TESTS = ("comm_mpi_2", "comm_mpi_4", "comm_mpi_loss")
# Races live where threads do; the other rooms under TSan would only cost time.
TSAN_ROOMS = ("base", "device", "comm", "exec", "engine", "serve")


@dataclasses.dataclass
class Tally:
    passed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures


def say(text):
    print(text, flush=True)


def count_gtest(report, output):
    """The cases of one GoogleTest program: from its report, or from its output if it died before."""
    tally = Tally()
    if report.is_file():
        for suite in json.loads(report.read_text()).get("testsuites", []):
            for case in suite.get("testsuite", []):
                name = f"{suite['name']}.{case['name']}"
                if case.get("failures"):
                    tally.failures.append(name)
                elif case.get("result") == "COMPLETED":
                    tally.passed += 1
                else:
                    tally.skipped += 1
        return tally
    tally.passed = len(re.findall(r"^\[       OK \]", output, re.M))
    tally.failures = re.findall(r"^\[  FAILED  \] ([\w./]+)(?: \(|,)", output, re.M)
    started = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
    if started:
        tally.failures.append(f"{started[-1]} (the program died)")
    return tally


def count_ctest(junit, reports, wanted=()):
    """The cases of every program in ctest's report; a program of `wanted` that is not in it has failed."""
    total = Tally()
    if not junit.is_file():
        return Tally(failures=["ctest wrote no report"])
    cases = list(ElementTree.parse(junit).getroot().iter("testcase"))
    missing = set(wanted) - {case.get("name") for case in cases}
    total.failures += [f"{name}: not built" for name in sorted(missing)]
    for case in cases:
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        tally = count_gtest(reports / f"weft_{name}_test.json", output)
        if status == "run" and tally == Tally():
            tally.passed = 1
        elif status in ("disabled", "notrun"):
            tally.failures.append(f"{name}: not run")
        elif status != "run" and not tally.failures:
            tally.failures.append(f"{name}: {'its cases passed, but it ' if tally.passed else ''}failed")
        if status != "run":
            say(f"---- {name}\n" + "\n".join(output.split("\n")[-60:]))
        for line in output.split("\n"):
            if line.startswith("P1 "):
                say(line)
        total.add(tally)
    return total


def build(preset, targets=()):
    say(f"== build {preset}")
    started = time.time()
    code = subprocess.run(["scripts/build", preset, *targets], cwd=ROOT).returncode
    say(f"   {time.time() - started:.0f} s")
    return Tally() if code == 0 else Tally(failures=[f"build of preset {preset}"])


def ctest(preset, env, only=None, timeout=1200, wanted=()):
    say(f"== tests of {preset}")
    reports = ROOT / "build" / preset / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    for old in reports.iterdir():
        old.unlink()
    command = ["ctest", "--test-dir", f"build/{preset}", "--output-junit", str(reports / "ctest.xml"),
               "-j", str(os.cpu_count()), "--timeout", str(timeout), "--test-output-size-passed", "1000000",
               "--test-output-size-failed", "1000000"]
    if only:
        command += ["-R", only]
    subprocess.run(command, cwd=ROOT, env={**env, "GTEST_OUTPUT": f"json:{reports}/"})
    return count_ctest(reports / "ctest.xml", reports, wanted)


def count_pytest(junit, returncode):
    """Case by case. The clients are given all they need, so a case that is skipped has failed."""
    if not junit.is_file():
        return Tally(failures=["client tests: pytest wrote no report"])
    tally = Tally()
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name = f"clients.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            tally.failures.append(name)
        elif (skipped := case.find("skipped")) is not None:
            tally.failures.append(f"{name}: skipped ({skipped.get('message')})")
        else:
            tally.passed += 1
    if returncode != 0 and not tally.failures:
        tally.failures.append(f"client tests: pytest ended with {returncode}")
    return tally


def clients(env):
    """The tests of tests/clients in the project's own virtual environment."""
    say("== client tests")
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ROOT / ".venv")], check=True)
    wanted = ROOT / "tests" / "clients" / "requirements.txt"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(wanted)]
    if subprocess.run(pip, cwd=ROOT).returncode != 0:
        return Tally(failures=["pip install of tests/clients/requirements.txt (no network?)"])
    junit = ROOT / "build" / "release" / "reports" / "clients.xml"
    junit.unlink(missing_ok=True)
    out = subprocess.run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}",
                          "tests/clients"], cwd=ROOT, env=env)
    return count_pytest(junit, out.returncode)


def get_model(env):
    out = subprocess.run(["scripts/get-model"], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    if out.returncode != 0:
        return Tally(failures=["scripts/get-model"])
    env["WEFT_TEST_MODEL"] = out.stdout.strip()
    return Tally()


def fuzz(env):
    tally = build("fuzz")
    if tally.failures:
        return tally
    seconds = env.get("WEFT_FUZZ_SECONDS", str(FUZZ_SECONDS))
    for source in sorted((ROOT / "tests" / "fuzz").glob("*_fuzz.cc")):
        say(f"== {source.stem}, {seconds} s")
        work = ROOT / "build" / "fuzz" / "work" / source.stem
        corpus = work / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        seeds = ROOT / "tests" / "fuzz" / "corpus" / source.stem
        command = [str(ROOT / "build" / "fuzz" / source.stem), f"-max_total_time={seconds}", "-timeout=10",
                   "-rss_limit_mb=3000", f"-artifact_prefix={work}/", "-verbosity=0", "-print_funcs=0", str(corpus)]
        command += [str(seeds)] if seeds.is_dir() else []
        out = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if out.returncode == 0:
            tally.passed += 1
        else:
            say(out.stdout.decode(errors="replace")[-6000:])
            tally.failures.append(f"{source.stem} (input kept in {work})")
    return tally


def run(everything):
    env = dict(os.environ, WEFT_P1="full" if everything else "subset",
               WEFT_BINARY=str(ROOT / "build" / "release" / "weft"))
    total = get_model(env)
    built = build("release")
    total.add(built)
    if not built.failures:
        total.add(ctest("release", env, timeout=7200 if everything else 1200, wanted=MPI_TESTS))
        total.add(clients(env))
    if everything:
        threads = "^(" + "|".join(TSAN_ROOMS) + ")$"
        for preset, targets, only in (("asan", (), None), ("tsan", [f"weft_{r}_test" for r in TSAN_ROOMS], threads)):
            built = build(preset, targets)
            total.add(built if built.failures else ctest(preset, dict(env, WEFT_P1="subset"), only, 7200))
        total.add(fuzz(env))
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true",
                        help="also sanitizers, fuzzers and the full one-answer matrix")
    args = parser.parse_args()
    started = time.time()
    try:
        total = run(args.all)
    except (OSError, subprocess.SubprocessError, ElementTree.ParseError, ValueError) as error:
        total = Tally(failures=[f"the test runner: {error}"])
    for failure in total.failures:
        say(f"FAILED {failure}")
    if total.passed == 0 and not total.failures:
        total.failures.append("no test ran")
        say("FAILED no test ran")
    say(f"{time.time() - started:.0f} s, {total.skipped} skipped")
    say(f"{total.passed} passed, {len(total.failures)} failed")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
