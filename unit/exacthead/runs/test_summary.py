from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from exacthead.runs.folder import State
from exacthead.runs.provenance import Machine, Provenance, WorkerUse
from exacthead.runs.render import code, markdown, plain, show
from exacthead.runs.result import ItemResult
from exacthead.runs.summary import Summary, summarize
from exacthead.verdict import Kind, Verdict

CONTRACT = "| check | found |\n| --- | --- |\n| reward is 0.5 | 0.25 |"
AGAIN = "./noxw -s reproduce -- runs/" + "x" * 120 + " gym_training/flag_off"


@pytest.fixture
def provenance() -> Provenance:
    return Provenance(
        started="2026-01-01T00:00:00+00:00",
        commit="0123456789abcdef" * 2,
        tree="f" * 40,
        dirty=False,
        harness="0.1.0",
        interpreter="CPython 3.13.0",
        packages=(),
        workers=(
            WorkerUse(name="vllm", key="k" * 64, flavour="cpu", interpreter="3.13.0", how="reused"),
            WorkerUse(
                name="gym",
                key="g" * 64,
                flavour="cpu",
                interpreter="3.13.0",
                how="built",
                seconds=12.34,
                notes=("3.13.0 is below the patch floor 3.13.14",),
            ),
        ),
        locks={},
        fixtures={},
        environment={},
        machine=Machine(kernel="k", platform="p", cpu="c", cpus=2, memory_mb=1, accelerators=()),
    )


@pytest.fixture
def results() -> list[ItemResult]:
    return [
        ItemResult(item_id="unit/1", verdict=Verdict(Kind.PASSED), seconds=3.21, workers=("unit",)),
        ItemResult(
            item_id="gym_training/flag_off",
            verdict=Verdict(Kind.FAILED, "exit code 3;\nlast lines: a | b"),
            reproduction=AGAIN,
            leftovers=("process 7 `sleep 600`",),
            stages={"generation": 21.04, "refit": 0.5},
            details=(CONTRACT,),
        ),
        ItemResult(
            item_id="later",
            verdict=Verdict(Kind.NOT_RUN, "behind a red gate"),
            required=False,
            notes=("new name in /dev/shm",),
        ),
    ]


def terminal(summary: Summary, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    show(summary, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_markdown_says_everything_in_order(
    results: list[ItemResult], provenance: Provenance
) -> None:
    text = markdown(summarize(State.FAILED, results, provenance, Path("/runs/r1")))
    assert text.splitlines()[0] == "# Exacthead: failed, at head 0123456789ab"
    assert text.splitlines()[2] == "3 items: 1 passed, 1 failed, 1 not\\_run"
    parts = [
        "## Not green",
        "**gym\\_training/flag\\_off**: failed: exit code 3; last lines: a \\| b",
        "- left behind: process 7 \\`sleep 600\\`",
        f"Run it again: `{AGAIN}`",
        "## Not run",
        "**later**: not\\_run (not required): behind a red gate",
        CONTRACT,
        "| unit/1 | passed | 3.2 | 0 | unit |",
        "| gym\\_training/flag\\_off | generation | 21.0 |",
        "| gym | cpu | gggggggggggg | built | 12.3 |",
        "| vllm | cpu | kkkkkkkkkkkk | reused | 0.0 |",
        "- worker gym: 3.13.0 is below the patch floor 3.13.14",
        "- later: new name in /dev/shm",
        "Run folder: `/runs/r1`",
    ]
    at = [text.find(part) for part in parts]
    assert -1 not in at, parts[at.index(-1)]
    assert sorted(at[:7]) == at[:7]


def test_the_terminal_says_the_same_and_never_breaks_a_line_to_copy(
    results: list[ItemResult], provenance: Provenance
) -> None:
    text = terminal(summarize(State.FAILED, results, provenance, Path("/runs/r1")))
    assert f"run it again: {AGAIN}\n" in text
    assert "gym_training/flag_off: failed: exit code 3; last lines: a | b\n" in text
    for part in ("reward is 0.5", "behind a red gate", "gggggggggggg", "left behind: process 7"):
        assert part in text
    assert text.splitlines()[-2:] == [
        "Exacthead: failed, at head 0123456789ab",
        "Run folder: /runs/r1",
    ]


def test_a_dirty_head_is_shown(results: list[ItemResult], provenance: Provenance) -> None:
    dirty = provenance.model_copy(update={"dirty": True})
    text = markdown(summarize(State.PASSED, results, dirty, Path("/r")))
    assert "at head 0123456789ab-dirty" in text
    assert "its commit does not tell what ran" in text


def test_a_run_of_nothing_says_so(provenance: Provenance) -> None:
    text = markdown(summarize(State.FAILED, [], provenance, Path("/r")))
    assert "no items: nothing ran" in text
    assert "## Items" not in text


def test_a_run_in_which_every_item_was_skipped_says_that_nothing_ran_and_why(
    provenance: Provenance,
) -> None:
    empty = Verdict(Kind.SKIPPED, "empty by plan: 2 tests over 5 shards")
    result = ItemResult(item_id="unit.s.5of5", verdict=empty, required=False)

    verdict = summarize(State.PASSED, [result], provenance, Path("runs/1")).verdict

    assert verdict.startswith("passed, and nothing ran: empty by plan: 2 tests over 5 shards, at ")


def test_a_quarantined_item_is_shown_though_it_is_green(provenance: Provenance) -> None:
    item = ItemResult(item_id="q", verdict=Verdict(Kind.QUARANTINED, "issue 7"))
    text = markdown(summarize(State.PASSED, [item], provenance, Path("/r")))
    assert "**q**: quarantined: issue 7" in text


def test_hostile_text_stays_text(provenance: Provenance) -> None:
    item = ItemResult(
        item_id="<b>|x", verdict=Verdict(Kind.FAILED, "\x1b[31m# a\n\n| b | <script> `c`")
    )
    summary = summarize(State.FAILED, [item], provenance, Path("/r"))
    text = markdown(summary)
    assert "\x1b" not in text
    assert "\\<script\\> \\`c\\`" in text
    assert "| \\<b\\>\\|x | failed |" in text
    assert "\x1b" not in terminal(summary)


@given(st.text())
def test_plain_text_is_one_line_without_live_markup(text: str) -> None:
    line = plain(text)
    assert "\n" not in line
    stripped = line.replace("\\\\", "")
    assert all(stripped[at - 1] == "\\" for at, letter in enumerate(stripped) if letter in "`*_<|")


def test_code_is_fenced_by_more_backticks_than_it_holds() -> None:
    assert code("a `b` ``c`` d") == "```a `b` ``c`` d```"
    assert code("`a`") == "`` `a` ``"
    assert code("a\nb") == "`a b`"
