"""The command that records: a process of its own between a client and a server, until Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from fsm_loop.cli import main
from tests.wire.parts import raw, says

pytest.importorskip("aiohttp")

PATIENCE_S = 60
PLAIN = {"model": "m", "messages": [{"role": "user", "content": "Quillfeather"}], "stream": True}


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_traffic_becomes_a_case_that_can_be_played(fault_server, tmp_path, capsys, stop):
    """The client gets what the server says; when it is told to stop, what is over is written, and the status is 0."""
    server = fault_server(raw(says("Hi.")))
    command = [
        sys.executable,
        "-m",
        "fsm_loop",
        "cases",
        "record",
        "--base-url",
        server.base_url,
        "-o",
        str(tmp_path / "new"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = process.stdout.readline()
        address = re.search(r"give your client (\S+) in", first)[1]
        request = urllib.request.Request(f"{address}/chat/completions", json.dumps(PLAIN).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            body = answer.read()
        process.stdout.readline()
        told = process.stdout.readline()  # that the case is there
        process.send_signal(stop)
        rest, beside = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    (path,) = (tmp_path / "new").iterdir()

    assert b"Hi." in body
    assert "1 request; status 200" in told
    assert (0, "") == (process.returncode, beside)
    assert f"1 case written to {tmp_path / 'new'}" in rest
    assert "Quillfeather" not in path.read_text()
    assert 0 == main(["cases", str(path.parent)])
    assert "1 as expected, 0 not" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Missing option '--base-url'"),
        (["--base-url", "example"], "--base-url: 'example' is not an address"),
        (
            ["--base-url", "http://127.0.0.1:9", "--port", "70000"],
            "--port': Input should be less than or equal to 65535",
        ),
        (["--base-url", "http://127.0.0.1:9", "-o", __file__], "is not a directory"),
    ],
)
def test_a_wrong_use(capsys, arguments, sentence):
    """It is told in one sentence, and the status is 2."""
    status = main(["cases", "record", *arguments])
    told, beside = capsys.readouterr()

    assert (2, "") == (status, told)
    assert sentence in beside
    assert 1 == beside.count("\n")


def test_a_port_that_is_taken(capsys, fault_server):
    """It is told in one sentence, and the status is 2."""
    server = fault_server(raw(says("Hi.")))
    port = server.root_url.rpartition(":")[2]
    status = main(["cases", "record", "--base-url", "http://127.0.0.1:9", "--port", port])

    assert 2 == status
    assert f"--port {port}: " in capsys.readouterr().err
