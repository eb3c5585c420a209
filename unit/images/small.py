"""The small repository: one worker, one suite, one job, one image on a base that is made here."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"

HARNESS = f"""
[project]
name = "small"
source = "https://example.test/small"

[coverage]
sources = ["small"]

[workers.plain]
python = "{MINOR}"
requirements = ["pytest==9.2.0", "coverage==7.17.5"]
probes = ["pytest"]

[suites.sums]
paths = ["unit/sums"]
worker = "plain"
timeout_s = 120

[jobs.count]
script = "functional/count.sh"
contract = "functional/count.contract.toml"
level = "L0"
timeout_s = 120
memory_gb = 0.4

[jobs.count.legs.plain]
workers = {{ policy = "plain" }}

[bases.debian]
suite = "trixie"
packages = ["python{MINOR}"]

[images.small]
base = "debian"
workers = ["plain"]

[runners.tiny]
cpus = 1
memory_gb = 0.5
pids = 100
"""
TESTS = """
import os
import sys

from small import numbers


def test_sum():
    assert numbers.add(1, 1) == 2


def test_more(tmp_path):
    (tmp_path / "x").write_text("1")
    print("in", os.getcwd())
    assert numbers.add(2, 2) == 4
"""
COUNT = """
"$EXACTHEAD_PYTHON_POLICY" -c 'print("counting in", __import__("os").getcwd())'
echo '{"step": 1, "count": 3}' >"$EXACTHEAD_ITEM_FOLDER/metrics.jsonl"
"""
CONTRACT = """
[[check]]
name = "it counts to three"
kind = "equals"
metric = "count"
value = 3
"""
NUMBERS = """def add(one, other):
    return one + other


def never():
    return 0
"""


def files() -> dict[str, str]:
    """Every file of the repository but its locks."""
    dockerfile = ROOT / "containers" / "workers.Dockerfile"
    return {
        ".gitignore": "/.cache/\n/runs/\n__pycache__/\n",
        "ci/harness.toml": HARNESS,
        "ci/locks/uv.txt": (ROOT / "ci" / "locks" / "uv.txt").read_text(encoding="utf-8"),
        "containers/workers.Dockerfile": dockerfile.read_text(encoding="utf-8"),
        "small/__init__.py": "",
        "small/numbers.py": NUMBERS,
        "unit/sums/test_sums.py": TESTS,
        "functional/count.sh": COUNT,
        "functional/count.contract.toml": CONTRACT,
    }
