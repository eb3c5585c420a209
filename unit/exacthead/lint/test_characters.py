from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.lint.characters import check_characters
from exacthead.lint.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from exacthead.lint.finding import Finding
    from unit.exacthead.conftest import Repository


@pytest.mark.parametrize(
    ("letter", "name"),
    [
        ("\u202e", "RIGHT-TO-LEFT OVERRIDE"),
        ("\u2066", "LEFT-TO-RIGHT ISOLATE"),
        ("\u200b", "ZERO WIDTH SPACE"),
        ("\u3164", "HANGUL FILLER"),
        ("\ufeff", "ZERO WIDTH NO-BREAK SPACE"),
        ("\U000e0041", "TAG LATIN CAPITAL LETTER A"),
        ("\U000e0100", "VARIATION SELECTOR-17"),
        ("\x08", "a control character"),
    ],
)
def test_a_hidden_character_is_found_where_it_stands(
    small_repository: Repository,
    found: Callable[[str], list[Finding]],
    letter: str,
    name: str,
) -> None:
    small_repository.write({"docs/a.md": f"fine\nnot {letter}fine\n"})

    (finding,) = found("hidden characters")

    assert (finding.path, finding.line, finding.rule) == ("docs/a.md", 2, "hidden characters")
    assert f"U+{ord(letter):04X} {name}" in finding.found
    assert ascii(letter)[1:-1] in finding.fix


def test_a_file_that_git_does_not_show_as_text_is_passed_over(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    hidden = {"web/a.min.js": "\x01", "web/a.js": "\x01", "web/\u200b.min.js": ""}
    small_repository.write({".gitattributes": "*.min.js -diff\n", **hidden})

    findings = found("hidden characters")

    assert sorted(finding.path for finding in findings) == ["web/\\u200b.min.js", "web/a.js"]


def test_emoji_letters_with_accents_and_other_scripts_are_none(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    text = "\u2714\ufe0f \U0001f468\u200d\U0001f4bb Zo\u00eb \u05d0\u05d1 \u4f60\u597d \t\r\n\f"
    small_repository.write({"docs/a.md": text})

    assert found("hidden characters") == []


def test_bytes_that_are_no_utf_8_hide_nothing_and_binary_files_are_left_alone(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    hidden = "\u202e".encode()
    (small_repository.root / "latin.txt").write_bytes(b"caf\xe9\n" + hidden)
    (small_repository.root / "picture.png").write_bytes(b"\x89PNG\0" + hidden)

    assert [(each.path, each.line) for each in found("hidden characters")] == [("latin.txt", 2)]


def test_a_hidden_character_in_a_name_is_found(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    small_repository.write({"docs/a\u200b.md": "text\n"})

    (finding,) = found("hidden characters")

    assert finding.path == "docs/a\\u200b.md"
    assert "its name holds U+200B" in finding.found


@given(before=st.text(max_size=5), after=st.text(max_size=5))
def test_no_text_around_it_hides_an_override(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str
) -> None:
    root: Path = tmp_path_factory.getbasetemp()
    # A NUL makes a file binary, which no compiler takes.
    text = f"{before}\u202e{after}".replace("\0", "")
    (root / "file.txt").write_text(text, encoding="utf-8", errors="replace", newline="")

    findings = check_characters(Sources(root, ("file.txt",)))

    assert any("U+202E" in each.found for each in findings)
