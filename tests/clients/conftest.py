"""Starts one `weft serve` for all client tests.

WEFT_BINARY names the binary (else build/release/weft), WEFT_TEST_MODEL what --model gets (else what
scripts/get-model has fetched). Without them the tests fail: a missing model is no reason to be silent.
The server is given a free port of loopback and a served name of its own.
"""

import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 120


class Serve:
    def __init__(self, port, process):
        self.port = port
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.model = "weft-test"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def begin(binary, model, log, extra=(), port=None):
    """The server as a process that is still loading."""
    port = port or free_port()
    command = [str(binary), "serve", "--model", model, "--host", "127.0.0.1", "--port", str(port),
               "--served-model-name", "weft-test", *extra]
    return Serve(port, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))


def wait_healthy(serve):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if serve.process.poll() is not None:
            raise RuntimeError(f"{' '.join(serve.process.args)} ended with {serve.process.returncode}")
        try:
            urllib.request.urlopen(f"{serve.url}/health", timeout=2).close()
            return serve
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    serve.process.kill()
    raise RuntimeError("the server did not become healthy")


def start(binary, model, log, extra=()):
    return wait_healthy(begin(binary, model, log, extra))


def stop(serve):
    serve.process.send_signal(signal.SIGTERM)
    try:
        return serve.process.wait(timeout=40)
    except subprocess.TimeoutExpired:
        serve.process.kill()
        raise


def weft_binary():
    binary = pathlib.Path(os.environ.get("WEFT_BINARY", ROOT / "build/release/weft"))
    assert binary.exists(), f"{binary} does not exist; set WEFT_BINARY"
    return binary


def model_file():
    cache = os.environ.get("WEFT_CACHE", os.path.expanduser("~/.cache/weft"))
    model = os.environ.get("WEFT_TEST_MODEL", f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf")
    assert os.path.exists(model), f"{model} does not exist; run scripts/get-model or set WEFT_TEST_MODEL"
    return model


@pytest.fixture(scope="session")
def launch(tmp_path_factory):
    binary, model = weft_binary(), model_file()
    folder = tmp_path_factory.mktemp("serve")
    count = 0

    def run(extra=()):
        nonlocal count
        count += 1
        path = folder / f"serve{count}.log"
        try:
            return start(binary, model, path.open("wb"), extra)
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{path.read_text(errors='replace')}") from None

    return run


@pytest.fixture(scope="session")
def server(launch):
    serve = launch()
    yield serve
    assert stop(serve) == 0, "after SIGTERM the server must exit with 0"
