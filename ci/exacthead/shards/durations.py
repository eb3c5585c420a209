"""Durations: the checked-in history of what each test took, as a file that a person can review.

The file is JSON with one line per test, sorted by node id, so that a difference shows exactly the
tests whose times were recorded anew::

    {"format": 1, "seconds": {
    "unit/test_head.py::test_a_dirty_head_is_named": [0.412, 0.398],
    "unit/test_head.py::test_the_tree_is_named": [0.12]
    }}
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.runs.files import write_text
from exacthead.shards.match import match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FORMAT = 1
# How many measurements of a test are kept: their median is near the best of the rules that
# bench/bench_durations.py compares, and no slow run shows in it.
KEPT = 5
_DIGITS = 3
_SHOWN = 5
_TODO = "mend it by hand, or remove it and record a run again"


@dataclass(frozen=True)
class Durations:
    """Node id -> its last measurements in seconds, oldest first; at least one and at most five."""

    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def read(path: Path) -> Durations:
    """Read a history; a file that does not exist is an empty one, and the plan's notes say so.

    Raises:
        HarnessError: the file cannot be read, is no history of this format, or holds a time that
            is not finite or is negative; every such test is named.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Durations()
    except (OSError, ValueError) as error:
        raise _broken(path, str(error)) from error
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"no valid JSON: {error}") from error
    if not isinstance(data, dict) or set(data) != {"format", "seconds"}:
        raise _broken(path, "not an object of exactly `format` and `seconds`")
    if data["format"] != FORMAT or isinstance(data["format"], bool):
        raise _broken(path, f"format {data['format']!r}; this harness reads {FORMAT}")
    if not isinstance(data["seconds"], dict):
        raise _broken(path, "`seconds` is no object of node ids")
    wrong = [
        f"{nodeid}: {times!r:.60}"
        for nodeid, times in data["seconds"].items()
        if not (isinstance(times, list) and times and all(_is_time(time) for time in times))
    ]
    if wrong:
        raise _broken(path, f"no list of finite seconds from 0 on for {_listed(wrong)}")
    return Durations(
        {
            nodeid: tuple(float(time) for time in times[-KEPT:])
            for nodeid, times in sorted(data["seconds"].items())
        }
    )


def write(path: Path, history: Durations) -> None:
    """Write a history; equal histories give equal bytes, and the file appears whole or not at all.

    Raises:
        HarnessError: it cannot be written, or a time is not finite or is negative.
    """
    _refuse_bad_times(f"write {path}", history.seconds.items())
    lines = ",\n".join(
        f"{json.dumps(nodeid)}: {json.dumps(list(times))}"
        for nodeid, times in sorted(history.seconds.items())
    )
    write_text(path, f'{{"format": {FORMAT}, "seconds": {{\n{lines}\n}}}}\n')


def record(history: Durations, results: Mapping[str, float]) -> Durations:
    """The history with new measurements added and the oldest beyond five forgotten.

    What was recorded under another root directory moves to the node id of now.

    Args:
        history: what is known; unchanged.
        results: node id -> seconds of one run.

    Raises:
        HarnessError: a time is not finite or is negative; every such test is named.
    """
    _refuse_bad_times("record durations", ((nodeid, (time,)) for nodeid, time in results.items()))
    matched = match(history.seconds, sorted(results))
    moved = set(matched.sources.values())
    times = {nodeid: each for nodeid, each in history.seconds.items() if nodeid not in moved}
    for nodeid, time in results.items():
        before = history.seconds.get(matched.sources.get(nodeid, nodeid), ())
        times[nodeid] = (*before, round(time, _DIGITS))[-KEPT:]
    return Durations(dict(sorted(times.items())))


def forget(history: Durations, nodeids: Iterable[str]) -> Durations:
    """The history without tests that are gone: their file has tests in ``nodeids``, they are not.

    Args:
        history: what is known; unchanged.
        nodeids: all tests of each file that they lie in.
    """
    gone = set(match(history.seconds, list(nodeids)).gone)
    return Durations({each: times for each, times in history.seconds.items() if each not in gone})


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: defaultdict[str, int] = defaultdict(int)
    for name, _ in pairs:
        found[name] += 1
    if twice := [name for name, count in found.items() if count > 1]:
        msg = f"twice in one object: {_listed(twice)}"
        raise ValueError(msg)
    return dict(pairs)


def _is_time(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:  # a whole number that no float can hold
        return False


def _refuse_bad_times(asked: str, times: Iterable[tuple[str, tuple[float, ...]]]) -> None:
    wrong = [
        f"{nodeid}: {each!r}"
        for nodeid, values in times
        for each in (values or (None,))
        if not _is_time(each)
    ]
    if wrong:
        raise HarnessError(
            asked,
            f"no finite seconds from 0 on for {_listed(wrong)}",
            "leave out tests whose time is unknown",
        )


def _broken(path: Path, found: str) -> HarnessError:
    return HarnessError(f"the history of durations {path}", found, _TODO)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "; ".join(names[:_SHOWN]) + more
