from __future__ import annotations

import pytest

from exacthead.impact.mention import FILLED, mentions


@pytest.mark.parametrize(
    "text",
    [
        *("guide.md", "docs", "docs/guide.md", "more/docs", ".md", "./docs/guide.md"),
        *(
            "*.md",
            "docs/*",
            "docs/gui*.md",
            "**/*.md",
            f"{FILLED}.md",
            f"docs/{FILLED}",
            "gui[ad]*.md",
        ),
        *("cat docs/guide.md", "open('guide.md').read()", "--file=docs/guide.md"),
    ],
)
def test_a_file_is_named_by_itself_a_folder_an_ending_or_a_pattern(text: str) -> None:
    assert mentions(text, "more/docs/guide.md")


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "/", "guide", "doc", "guide.md.txt", "docs/other.md", "more/guide.md"),
        # The folder that is walked through with these has a name.
        *("*", "**/*", FILLED, f"{FILLED}/{FILLED}"),
        *("*.txt", ".txt", "x/*.md/y", "[A-Za-z_][A-Za-z0-9_/.]*"),
    ],
)
def test_what_is_not_in_its_path_does_not_name_it(text: str) -> None:
    assert not mentions(text, "more/docs/guide.md")
