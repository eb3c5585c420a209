"""What a watch is told holds no secret, however items write and whatever shows them."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from exacthead.blocks import Blocks
from exacthead.mask import Masker
from exacthead.masked_watch import MaskedWatch
from exacthead.prefix import Prefixed
from exacthead.runs.result import ItemResult
from exacthead.tables import Secrets
from exacthead.verdict import Kind, Verdict

SECRET = "open-sesame-22"  # noqa: S105 - it opens nothing
MASKER = Masker.of(Secrets(), {}, [SECRET])
PASSED = Verdict(Kind.PASSED)


def ended(name: str) -> ItemResult:
    return ItemResult(item_id=name, verdict=PASSED, seconds=1.0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=40))
def test_a_secret_in_several_writes_of_items_that_run_at_once_is_one(
    writes: list[tuple[str, int]],
) -> None:
    target = io.StringIO()
    watch = MaskedWatch(Prefixed(target), MASKER)
    text = f"the key is {SECRET}\nand {SECRET} again"
    left = {"a": text, "b": text}
    for name in left:
        watch.begin(name)
    for name, count in [*writes, ("a", len(text)), ("b", len(text))]:
        watch.write(name, left[name][:count])
        left[name] = left[name][count:]
    for name in left:
        watch.end(ended(name))

    lines = target.getvalue().splitlines()
    assert sorted(lines) == [
        "a | and *** again",
        "a | the key is ***",
        "b | and *** again",
        "b | the key is ***",
    ]


def test_a_block_holds_no_secret_and_an_item_that_never_began_has_its_own() -> None:
    target = io.StringIO()
    watch = MaskedWatch(Blocks(Console(file=target, width=80), 2), MASKER)
    watch.begin("a")
    watch.write("a", SECRET[:5])
    watch.write("a", SECRET[5:])
    watch.end(ended("a"))
    watch.end(ItemResult(item_id="b", verdict=Verdict(Kind.NOT_RUN, "gate: a is failed")))

    assert target.getvalue().splitlines() == [
        "[1/2] a: passed in 1.0 s",
        "  | ***",
        "[2/2] b: not_run in 0.0 s (gate: a is failed)",
    ]
