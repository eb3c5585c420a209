"""Reading streams: by node id, under any interleaving, with torn and missing files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from exacthead.units.assemble import Assembler
from exacthead.units.groups import Groups
from exacthead.units.places import ShardFiles
from exacthead.units.read import read_results
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

PASSED = ["setup", "call", "teardown"]


def events_of(test: str, *, fails: bool, text: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [{"event": "begin", "test": test, "at": 1.0}]
    told += [
        {"event": "output", "test": test, "phase": "call", "stream": "stdout", "text": letter}
        for letter in text
    ]
    if fails:
        reason = f"reason of {test}"
        failed = {"phase": "call", "outcome": "failed", "xfail": None, "text": "long"}
        told.append({"event": "phase", "test": test, "reason": reason, **failed})
    passed = ["setup", "teardown"] if fails else PASSED
    return [*told, {"event": "end", "test": test, "seconds": 0.5, "passed": passed}]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.text(max_size=3)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_results_are_attributed_by_id_however_processes_interleave(
    tests: list[tuple[int, bool, str]], chance: Any
) -> None:
    queues: dict[int, list[dict[str, Any]]] = {1: [], 2: [], 3: []}
    for number, (process, fails, text) in enumerate(tests):
        queues[process] += events_of(f"t{number}", fails=fails, text=text)
    assembler = Assembler()
    while any(queues.values()):
        process = chance.choice([each for each, queue in queues.items() if queue])
        assembler.feed(process, queues[process].pop(0))
    for number, (process, fails, text) in enumerate(tests):
        result = assembler.result(
            f"t{number}", open_verdict=Verdict(Kind.CRASHED, "open"), default="nobody"
        )
        assert len(result.attempts) == 1
        assert result.attempts[0].process == process
        assert result.verdict.reason == (f"reason of t{number}" if fails else "")
        assert "".join(output.text for output in result.attempts[0].outputs) == text


@given(st.data())
def test_a_stream_that_is_cut_anywhere_never_makes_an_unfinished_test_pass(
    tmp_path_factory: Any, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    files = ShardFiles(folder)
    files.folder.mkdir(parents=True)
    events = [
        *events_of("a", fails=False, text="é"),
        *events_of("b", fails=True, text=""),
        *events_of("c", fails=False, text=""),
    ]
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    files.process(1).stream.write_bytes(whole[:cut])
    reading = read_results(folder, ("a", "b", "c"), "cut off")
    seen = whole[:cut].count(b"\n")
    ends = [i for i, event in enumerate(events, 1) if event["event"] == "end"]
    begins = [i for i, event in enumerate(events, 1) if event["event"] == "begin"]
    for result, begin, end in zip(reading.results, begins, ends, strict=True):
        if seen >= end:
            expected = {Kind.PASSED} if result.nodeid != "b" else {Kind.FAILED}
        elif seen >= begin:
            expected = {Kind.INTERRUPTED}
        else:
            expected = {Kind.NOT_RUN}
        assert {result.verdict.kind} == expected


def test_missing_and_foreign_content_is_not_run(tmp_path: Path) -> None:
    nothing = read_results(tmp_path, ("a",), "")
    assert [str(result.verdict.kind) for result in nothing.results] == ["not_run"]
    assert not nothing.complete
    assert nothing.faults == ("crashed(the shard's driver did not finish)",)
    files = ShardFiles(tmp_path)
    files.folder.mkdir(parents=True)
    files.process(1).stream.write_bytes(b'\xff\n[1]\n{"event": 3}\n{"other": 1}\nnull\n{"eve')
    files.journal.write_text('{"event": "done", "code": 0, "seconds": 1.0}\n')
    reading = read_results(tmp_path, ("a",), "")
    assert reading.complete
    assert str(reading.results[0].verdict) == "not_run(no stream tells of it)"
    assert reading.notes == ("process 1: the last line of its stream is torn",)


@given(
    st.lists(st.integers(1, 4), max_size=8),
    st.lists(st.sampled_from(["start", "take", "die", "drop"]), max_size=40),
    st.randoms(use_true_random=False),
)
def test_groups_hand_out_every_test_exactly_once_whatever_dies(
    sizes: list[int], steps: list[str], chance: Any
) -> None:
    ids = [[f"g{g}::{n}" for n in range(size)] for g, size in enumerate(sizes)]
    groups = Groups(ids)
    done: list[str] = []
    dropped: list[str] = []
    running: list[dict[str, Any]] = []

    def take(process: dict[str, Any], *, alone: bool) -> bool:
        rest = groups.rest(len(process["known"]), alone=alone)
        index = groups.take(len(process["known"]))
        if index is None:
            assert rest == []
            return False
        assert index in rest
        process["left"] = list(process["known"][index])
        assert set(process["left"]) >= set(groups.group(index)), "it knows what it gets"
        return True

    for step in steps:
        if step == "start":
            running.append({"known": groups.snapshot(), "left": []})
        elif step == "drop" and groups.rest(99, alone=False):
            unwanted = chance.sample(groups.group(groups.rest(99, alone=True)[0]), 1)
            dropped += groups.drop(set(unwanted).__contains__)
        elif running and step == "take":
            process = chance.choice(running)
            done += process["left"]
            process["left"] = []
            take(process, alone=len(running) == 1)
        elif running and step == "die":
            process = running.pop(chance.randrange(len(running)))
            count = chance.randint(0, len(process["left"]))
            done += process["left"][:count]
            groups.put_back(process["left"][count:])
    for process in running:
        done += process["left"]
    last: dict[str, Any] = {"known": groups.snapshot(), "left": []}
    while take(last, alone=True):
        done += last["left"]
    assert len(groups) == 0
    assert len(done) == len(set(done))
    # A process that knew a test before it was dropped may have run it.
    assert {*done, *dropped} == {each for group in ids for each in group}
