"""Which suites and legs a call is about; images have no say in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from exacthead import cli, plan_command
from exacthead.config import Harness
from exacthead.errors import HarnessError
from exacthead.selection import LEVELS, Asked, Selection, select

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from unit.exacthead.conftest import Repository

WORKERS: dict[str, dict[str, Any]] = {"a": {}}
JOB = {"script": "s.sh", "contract": "c.toml", "timeout_s": 1}


def job(level: str, *legs: str, **more: Any) -> dict[str, Any]:
    return {**JOB, "level": level, "legs": {leg: {"workers": {"w": "a"}} for leg in legs}, **more}


def suite(level: str, **more: Any) -> dict[str, Any]:
    return {"paths": ("unit",), "worker": "a", "level": level, **more}


HARNESS = Harness.model_validate(
    {
        "project": {"name": "tiny"},
        "workers": WORKERS,
        "suites": {"fast": suite("L0"), "parts": suite("L1"), "long": suite("L2", on_request=True)},
        "jobs": {
            "verify": job("L1", "plain"),
            "train": job("L3", "plain", "capture"),
            "chaos": job("L3", "plain", "killed", on_request=True),
        },
    }
)


def ids(asked: Asked) -> list[str]:
    return [each.id for each in select(HARNESS, asked).chosen]


def test_all_that_needs_no_request_is_chosen_by_default() -> None:
    assert ids(Asked()) == [
        *("unit.fast", "unit.parts", "verify.plain", "train.plain", "train.capture")
    ]
    left_out = select(HARNESS, Asked()).left_out
    assert set(left_out) == {"unit.long", "chaos.plain", "chaos.killed"}
    assert set(left_out.values()) == {"it runs on request only"}


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        (Asked(levels=("L1",)), ["unit.parts", "verify.plain"]),
        (Asked(levels=("L0", "L3")), ["unit.fast", "train.plain", "train.capture"]),
        (Asked(jobs=("train",)), ["train.plain", "train.capture"]),
        (
            Asked(jobs=("train", "chaos"), legs=("killed", "capture")),
            ["train.capture", "chaos.killed"],
        ),
        (Asked(legs=("plain",)), ["verify.plain", "train.plain", "chaos.plain"]),
        (Asked(suites=("long", "fast", "long")), ["unit.long", "unit.fast"]),
        (Asked(suites=("fast",), jobs=("verify",)), ["unit.fast", "verify.plain"]),
        (Asked(suites=("fast",), jobs=("verify",), levels=("L1",)), ["verify.plain"]),
        (Asked(kinds=("suite",)), ["unit.fast", "unit.parts"]),
        (Asked(sharded=True), ["unit.fast", "unit.parts"]),
    ],
)  # fmt: skip
def test_options_leave_what_all_of_them_hold_for(asked: Asked, chosen: list[str]) -> None:
    assert ids(asked) == chosen


def test_why_is_told_of_what_runs_and_of_what_does_not() -> None:
    selection = select(HARNESS, Asked(levels=("L1",), jobs=("verify", "train")))

    assert {each.id: each.why for each in selection.chosen} == {"verify.plain": "named"}
    assert selection.left_out["train.plain"] == "its level is L3"
    assert selection.left_out["unit.parts"] == "it is not named"


def test_every_unknown_name_is_told_with_the_nearest() -> None:
    asked = Asked(levels=("l1",), jobs=("trian",), suites=("fats",), legs=("x",))

    with pytest.raises(HarnessError) as caught:
        select(HARNESS, asked)

    assert "level 'l1': no such level; did you mean 'L1'?" in caught.value.found
    assert "job 'trian': no such job; did you mean 'train'?" in caught.value.found
    assert "suite 'fats': no such suite; did you mean 'fast'?" in caught.value.found
    with pytest.raises(HarnessError, match="leg 'plian': no such leg; did you mean 'plain'"):
        select(HARNESS, Asked(jobs=("train",), legs=("plian",)))
    # A leg of another job is none of this one.
    with pytest.raises(HarnessError, match="leg 'killed': no such leg"):
        select(HARNESS, Asked(jobs=("train",), legs=("killed",)))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(levels=("L1",), jobs=("train",)), "train.plain: its level is L3"),
        (Asked(kinds=("leg",), suites=("fast",)), "unit.fast: this session runs no suites"),
        (Asked(jobs=("train",), sharded=True), "train.capture: a leg has no shards"),
        (Asked(levels=("L2",)), "unit.long: it runs on request only"),
    ],
)
def test_an_empty_selection_says_what_left_out_what(asked: Asked, words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        select(HARNESS, asked)

    assert "nothing is selected" in caught.value.found
    assert words in caught.value.found


@pytest.mark.parametrize(
    ("asked", "emptied"),
    [
        # Each narrowing that empties it alone is named, with what it has taken away.
        (
            Asked(levels=("L1",), jobs=("train",)),
            [
                "--level L1 empties it: without there is train.capture, train.plain",
                "--job train empties it: without there is unit.parts, verify.plain",
            ],
        ),
        (
            Asked(levels=("L3",), jobs=("train",), sharded=True),
            ["--shard empties it: without there is train.capture, train.plain"],
        ),
        # Where no single one does, none is blamed; a lone one has nothing to be told from.
        (Asked(levels=("L1",), jobs=("train",), sharded=True, legs=("capture",)), []),
        (Asked(levels=("L2",)), []),
    ],
)
def test_an_empty_selection_names_the_narrowing_that_empties_it(
    asked: Asked, emptied: list[str]
) -> None:
    with pytest.raises(HarnessError) as caught:
        select(HARNESS, asked)

    lines = [line.strip() for line in caught.value.found.splitlines()]
    assert [line for line in lines if "empties it" in line] == emptied


NAMES = {
    "--level": LEVELS,
    "--job": tuple(HARNESS.jobs),
    "--suite": tuple(HARNESS.suites),
    "--leg": ("plain", "capture", "killed"),
}
OPTIONS = st.lists(
    st.one_of(
        *(st.tuples(st.just(name), st.sampled_from(known)) for name, known in NAMES.items()),
        st.tuples(st.just("--shard"), st.sampled_from(["1/2", "2/2"])),
    ),
    max_size=4,
)
IMAGES = st.one_of(
    st.just(("--in", "image")),
    st.just(("--in", "image", "--dirty")),
    st.text("abc:/@0", min_size=1).map(lambda name: ("--image", name)),
    st.just(("--image", "old:tag", "--reuse", "0123abc")),
    st.just(("--in", "image", "--base-image", "python")),
)


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache that can be written to: these tests' checkout need not be one, as in an image."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXACTHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def outcome(arguments: tuple[str, ...]) -> Selection | str:
    """What the options of `plan` select in the command itself, or why nothing."""
    parsed: argparse.Namespace = cli.parse(["plan", *arguments])
    opening = plan_command.read_opening(HARNESS, parsed, Console(quiet=True))
    try:
        return opening.selection
    except HarnessError as error:
        return str(error)


@given(options=OPTIONS, images=IMAGES)
def test_the_selection_never_depends_on_the_image(
    options: list[tuple[str, str]], images: tuple[str, ...]
) -> None:
    plain = tuple(word for option in options for word in option)

    assert outcome((*plain, *images)) == outcome(plain)


def test_what_changed_since_a_revision_spares_legs_only_when_it_cannot_reach_them(
    small_repository: Repository,
) -> None:
    from exacthead.config import load

    harness = load(small_repository.root)
    base = small_repository.git("rev-parse", "HEAD")

    def legs() -> dict[str, str]:
        return dict(select(harness, Asked(changed_since=base)).left_out)

    assert legs() == {"count.plain": f"nothing changed since {base}"}
    small_repository.write({"README.md": "more\n", "unit/sums/test_sums.py": "x = 1\n"})
    assert legs() == {"count.plain": f"nothing but prose and tests changed since {base}"}
    small_repository.write({"functional/count.sh": "true\n"})
    assert legs() == {}
