"""Python's own pauses in a process that serves."""

from __future__ import annotations

import subprocess
import sys

SERVER = """
import gc, sys, weakref
from posttrain.imports import serve_promptly

class Cycle:
    def __init__(self):
        self.me = self

before = [[] for _ in range(1000)]
serve_promptly()
assert gc.get_freeze_count() > 1000
full = gc.get_stats()[2]["collections"]
kept = [[number] for number in range(300_000)]
assert gc.get_stats()[2]["collections"] == full, "what is kept is looked at again and again"
lost = [weakref.ref(Cycle()) for _ in range(5000)]
passing = [[number] for number in range(5000)]
stays = sum(cycle() is not None for cycle in lost)
assert stays < 50, f"{stays} of 5000 pieces of garbage stay"
more = [[] for _ in range(3_500_000)]
assert not any(cycle() for cycle in lost), "garbage that became old stays for ever"
assert gc.get_stats()[2]["collections"] == full + 1
print(sys.getswitchinterval())
"""


def test_a_server_collects_its_garbage_without_looking_at_what_it_keeps() -> None:
    served = subprocess.run(
        [sys.executable, "-c", SERVER], capture_output=True, text=True, timeout=120, check=False
    )
    assert served.stderr == ""
    assert float(served.stdout) <= 0.001
