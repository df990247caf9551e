"""Every `curl` of README.md and of docs/how_to/serve.md, as it stands there; only the port is another."""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/how_to/serve.md")


def complete(command):
    """The shell would not ask for another line."""
    check = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
    return check.returncode == 0 and not command.endswith("\\")


def curls(page):
    """The commands of the page's code blocks, fenced or indented, that begin with `curl`."""
    found, command = [], ""
    for line in (ROOT / page).read_text().split("\n"):
        if command:
            command += "\n" + line
        elif re.match(r"\s*curl ", line):
            command = line.strip()
        else:
            continue
        assert len(command) < 4000, f"{page}: this curl does not end: {command[:200]}"
        if complete(command):
            found.append(command)
            command = ""
    assert not command, f"{page}: this curl does not end: {command}"
    return found


CASES = [(page, command) for page in PAGES for command in curls(page)]


def test_the_pages_show_curl():
    assert {page for page, _ in CASES} == set(PAGES)


@pytest.mark.parametrize("page, command", CASES, ids=[f"{p}-{i}" for i, (p, _) in enumerate(CASES)])
def test_curl_line(server, tmp_path, page, command):
    assert "http://127.0.0.1:8000" in command
    # With `fail` an HTTP error is an exit code, whatever flags the page shows.
    (tmp_path / ".curlrc").write_text("fail\nmax-time = 120\n")
    done = subprocess.run(["bash", "-c", command.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")],
                          env={**os.environ, "CURL_HOME": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    out = done.stdout
    if '"stream": true' in command:
        assert out.startswith("data: ") and out.rstrip().endswith("data: [DONE]")
    elif "/metrics" in command:
        assert "vllm:generation_tokens_total" in out
    else:
        assert "error" not in json.loads(out)
