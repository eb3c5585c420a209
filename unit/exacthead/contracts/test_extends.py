from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.contracts.load import load
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, name: str, *checks: str, extends: str | None = None) -> Path:
    path = folder / f"{name}.contract.toml"
    lines = [] if extends is None else [f"extends = {extends}"]
    for check in checks:
        lines += ["[[check]]", f'name = "{check}"', 'kind = "finite"', f'metric = "{check}"']
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_contract_has_the_checks_of_what_it_extends_before_its_own(tmp_path: Path) -> None:
    write(tmp_path, "base", "a", "b")
    write(tmp_path, "middle", "c", extends='"base.contract.toml"')
    contract = load(write(tmp_path, "top", "d", extends='"middle.contract.toml"'))

    assert contract.name == "top"
    assert [check.name for check in contract.checks] == ["a", "b", "c", "d"]


def test_a_name_of_the_extended_contract_is_taken(tmp_path: Path) -> None:
    write(tmp_path, "base", "a", "b")

    with pytest.raises(HarnessError, match="used twice: 'b'"):
        load(write(tmp_path, "top", "b", extends='"base.contract.toml"'))


def test_a_problem_of_the_extended_contract_is_one_of_this(tmp_path: Path) -> None:
    base = write(tmp_path, "base", "a")
    base.write_text(base.read_text(encoding="utf-8").replace("finite", "fnite"), encoding="utf-8")

    with pytest.raises(HarnessError, match="unknown kind 'fnite'"):
        load(write(tmp_path, "top", "b", extends='"base.contract.toml"'))
    base.write_text("other = 1\n[[check]]\n", encoding="utf-8")
    with pytest.raises(HarnessError, match="other: unknown key"):
        load(write(tmp_path, "top", "b", extends='"base.contract.toml"'))


@pytest.mark.parametrize(
    ("extends", "problem"),
    [
        ('"none.contract.toml"', "no such file"),
        ('"../base.contract.toml"', "'extends' is '../base.contract.toml'"),
        ('"base"', "'extends' is 'base'"),
        ("1", "'extends' is 1"),
        ("[]", "'extends' is "),
        ('"top.contract.toml"', "top.contract.toml extends top.contract.toml"),
    ],
)
def test_what_cannot_be_extended_is_named(tmp_path: Path, extends: str, problem: str) -> None:
    with pytest.raises(HarnessError) as caught:
        load(write(tmp_path, "top", "a", extends=extends))

    assert problem in caught.value.found


def test_contracts_that_extend_each_other_are_named_in_a_line(tmp_path: Path) -> None:
    write(tmp_path, "one", "a", extends='"two.contract.toml"')
    write(tmp_path, "two", "b", extends='"one.contract.toml"')

    with pytest.raises(HarnessError, match=r"one\S+ extends two\S+ extends one"):
        load(tmp_path / "one.contract.toml")


def test_a_contract_that_adds_nothing_or_extends_nothing_is_no_contract(tmp_path: Path) -> None:
    write(tmp_path, "base", "a")
    write(tmp_path, "empty")

    with pytest.raises(HarnessError, match=r"beside base\.contract\.toml's"):
        load(write(tmp_path, "top", extends='"base.contract.toml"'))
    with pytest.raises(HarnessError, match="it holds no"):
        load(write(tmp_path, "top", "a", extends='"empty.contract.toml"'))
