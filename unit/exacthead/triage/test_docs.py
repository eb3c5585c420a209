from __future__ import annotations

import re
from pathlib import Path

from exacthead.triage.known import FILE, KnownFailure, load_known

TEXT = (Path(__file__).parents[3] / "docs" / "triage.md").read_text(encoding="utf-8")


def test_the_guide_has_every_key_and_no_other() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE)

    assert sorted(listed) == sorted(KnownFailure.model_fields)


def test_the_guide_s_example_is_valid_and_shows_every_key(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.+?)```", TEXT, flags=re.DOTALL)

    assert example is not None
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_text(example.group(1), encoding="utf-8")
    entries = load_known(tmp_path).entries
    assert {key for entry in entries for key in entry.model_fields_set} == set(
        KnownFailure.model_fields
    )
