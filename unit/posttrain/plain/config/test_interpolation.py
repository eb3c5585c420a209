"""Values that are taken from other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unit.posttrain.plain.config.recipes import (
    SMALL,
    load_small,
    refused,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_interpolation_sees_the_merged_values(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        base=SMALL.replace("label: x", "label: run-${seed}"),
        main="defaults: base.yaml\nseed: 5\n",
    )
    assert load_small(path).label == "run-5"
    assert load_small(path, "seed=6").label == "run-6"


def test_an_interpolated_number_stays_a_number(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL.replace("lr: 0.1", "lr: '${seed}'"))
    assert load_small(path).inner.lr == 1.0


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("${nowhere.at_all}", "'nowhere.at_all' not found"),
        ("${label}", "Recursive interpolation"),
        ("'${'", "no viable alternative"),
        ("${nothing:3}", "Unsupported interpolation type"),
    ],
)
def test_an_interpolation_that_leads_nowhere_is_refused_with_its_line(
    tmp_path: Path, written: str, reason: str
) -> None:
    message = refused(write(tmp_path, main=SMALL.replace("label: x", f"label: {written}")))
    assert reason in message
    assert "label: " in message
    assert "main.yaml:3" in message


def test_an_interpolation_of_a_missing_value_names_the_missing_key(tmp_path: Path) -> None:
    text = SMALL.replace("seed: 1", "seed: ???").replace("label: x", "label: a${seed}")
    assert "seed: missing" in refused(write(tmp_path, main=text))


def test_an_interpolated_section_is_no_value(tmp_path: Path) -> None:
    path = write(tmp_path, main=SMALL.replace("label: x", "label: ${inner}"))
    assert "label: takes text" in refused(path)
