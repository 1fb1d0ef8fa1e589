"""A process that is killed while it writes leaves a trail that is verified as far as it goes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TIMES = {"jsonl": 50, "jsonl-fsync": 50, "sqlite": 50, "sqlite-fsync": 50}
SEED = 20261201


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
@pytest.mark.parametrize("kind", TIMES)
def test_whatever_the_moment_what_is_left_is_right(tmp_path, kind):
    """200 times: nothing that was acknowledged is missing, and all but the last turn have their end."""
    ran = subprocess.run(
        [sys.executable, HERE / "killing.py", tmp_path, str(SEED), str(TIMES[kind]), kind],
        capture_output=True, text=True, check=False, timeout=240, cwd=HERE.parents[1],
    )  # fmt: skip
    found = [json.loads(line) for line in ran.stdout.splitlines()]

    assert ("", 0, TIMES[kind]) == (ran.stderr, ran.returncode, len(found))
    assert [] == [each for each in found if not each["verified"] or each["missing"]]
    assert all(each["acknowledged"] for each in found)
    assert max(each["turns"] for each in found) > 3
    assert {0, 1} >= {each["unfinished"] for each in found}
    assert sum(each["unfinished"] for each in found) > len(found) // 2
