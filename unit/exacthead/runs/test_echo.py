from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from exacthead.runs.echo import Echo, visible

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_control_characters_cannot_reach_the_terminal() -> None:
    assert visible("\x1b[2Jred\x07\x00\x9b") == "\\x1b[2Jred\\x07\\x00\\x9b"
    assert visible("a\tb\nc\r\nd\re") == "a\tb\nc\nd\ne"
    assert visible("日本 ü") == "日本 ü"


@given(st.text())
def test_nothing_but_newlines_tabs_and_printable_letters_is_shown(text: str) -> None:
    assert all(letter in "\n\t" or letter.isprintable() for letter in visible(text))


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_however_the_log_grows_the_same_text_is_shown(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int]
) -> None:
    log = tmp_path_factory.mktemp("echo") / "log"
    shown: list[str] = []
    with log.open("w+b") as file:
        echo = Echo(file, shown.append)
        for cut in [*sorted(cuts), len(data)]:
            log.write_bytes(data[:cut])
            echo.follow()
        echo.finish()
    # A carriage return that is cut from its newline shows as a line end of its own.
    whole = data.decode(errors="replace")
    assert "".join(shown).replace("\n", "") == visible(whole).replace("\n", "")


def test_a_flood_is_not_followed_to_its_end_and_the_gap_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + 40 * (1 << 20) * b"x" + b"\nlast\n")
    shown: list[str] = []
    with log.open("rb") as file:
        Echo(file, shown.append).follow()
        once = sum(map(len, shown))
        shown.clear()
        Echo(file, shown.append).finish()

    assert once < 2 << 20
    assert sum(map(len, shown)) < 2 << 20
    gap = len(log.read_bytes()) - (1 << 20)
    assert shown[0] == f"\n... {gap} bytes are only in the log ...\n"
    assert shown[-1].endswith("x\nlast\n")
