from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from exacthead.contracts.load import kinds, parse

GUIDE = Path(__file__).parents[3] / "docs" / "contracts.md"
EVERYWHERE = {"name", "kind", "metric"}


def sections() -> dict[str, str]:
    parts = re.split(r"^### `(\w+)`$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_guide_describes_exactly_the_kinds_there_are() -> None:
    assert set(sections()) == set(kinds())


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_the_guide_lists_exactly_the_keys_of(kind: str) -> None:
    listed = re.search(r"^Keys: (.+)\.$", sections()[kind], flags=re.MULTILINE)

    assert listed is not None
    keys = set(re.findall(r"`(\w+)`", listed.group(1)))
    assert keys == set(kinds()[kind].model_fields) - EVERYWHERE


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_the_guides_example_is_valid_and_shows_every_key_of(kind: str) -> None:
    example = re.search(r"```toml\n(.+?)```", sections()[kind], flags=re.DOTALL)

    assert example is not None
    raw = tomllib.loads(example.group(1))
    assert {check.kind for check in parse(raw, "example").checks} == {kind}
    shown = {key for check in raw["check"] for key in check}
    assert shown == set(kinds()[kind].model_fields)


def test_the_keys_of_every_check_are_in_the_table() -> None:
    for key in sorted(EVERYWHERE):
        assert f"| `{key}` |" in GUIDE.read_text(encoding="utf-8")
