from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.triage.known import Known, KnownFailure, load_known

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = """
[[known]]
test = "unit/test_a.py::test_b"
reason = "the cache is cold"
issue = "https://tracker.example/issues/7"
owner = "generation team"
expires = 2030-01-31
"""


def write(root: Path, text: str) -> Path:
    (root / "ci").mkdir(exist_ok=True)
    (root / "ci" / "known_failures.toml").write_text(text, encoding="utf-8")
    return root


def refusal(root: Path, text: str) -> str:
    with pytest.raises(HarnessError) as caught:
        load_known(write(root, text))
    return str(caught.value)


def test_without_the_file_nothing_is_known(tmp_path: Path) -> None:
    assert load_known(tmp_path) == Known()


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    assert load_known(write(tmp_path, "# none today\n")) == Known()


def test_an_entry_is_read_as_it_is_written(tmp_path: Path) -> None:
    (entry,) = load_known(write(tmp_path, f'{ENTRY}runner = "h200x1"\n')).entries

    assert entry == KnownFailure(
        test="unit/test_a.py::test_b",
        reason="the cache is cold",
        issue="https://tracker.example/issues/7",
        owner="generation team",
        expires=date(2030, 1, 31),
        runner="h200x1",
    )
    assert (entry.file, entry.names) == ("unit/test_a.py", ("test_b",))


def test_the_order_of_the_file_does_not_show(tmp_path: Path) -> None:
    other = ENTRY.replace("test_b", "test_a")

    one = load_known(write(tmp_path, ENTRY + other))
    two = load_known(write(tmp_path, other + ENTRY))

    assert one == two
    assert [entry.names for entry in one.entries] == [("test_a",), ("test_b",)]


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    text = refusal(
        tmp_path,
        ENTRY.replace("reason", "reasn").replace("https://tracker.example/issues/7", "#7")
        + ENTRY.replace("2030-01-31", '"2030-01-31"').replace("test_b", "test_c")
        + "[knwon]\n",
    )

    assert "known entry 1 (unit/test_a.py::test_b), reasn: unknown key; did you mean 'reason'?" in (
        text
    )
    assert "known entry 1 (unit/test_a.py::test_b), reason: Field required" in text
    assert "known entry 1 (unit/test_a.py::test_b), issue: a link is needed" in text
    assert "known entry 2 (unit/test_a.py::test_c), expires: a TOML date is needed" in text
    assert "knwon: unknown key; did you mean 'known'?" in text


@pytest.mark.parametrize(
    "expires", ["2030-01-31T00:00:00", "2030-01-31T00:00:00Z", "20300131", "'soon'", "[2030]"]
)
def test_an_expiry_is_a_toml_date_and_nothing_else(tmp_path: Path, expires: str) -> None:
    assert "expires: a TOML date is needed, without quotes and time: 2030-12-31" in refusal(
        tmp_path, ENTRY.replace("2030-01-31", expires)
    )


def test_a_day_that_no_calendar_has_is_refused(tmp_path: Path) -> None:
    assert "mend the TOML syntax" in refusal(tmp_path, ENTRY.replace("2030-01-31", "2030-02-31"))


@pytest.mark.parametrize("line", ['test = "unit/test_a.py::test_b"\n', ""])
def test_an_entry_names_exactly_one_test_or_leg(tmp_path: Path, line: str) -> None:
    both_or_none = ENTRY.replace('test = "unit/test_a.py::test_b"\n', line)
    both_or_none += 'leg = "train.plain"\n' if line else ""

    assert "exactly one of test and leg" in refusal(tmp_path, both_or_none)


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ("unit/test_*.py::test_b", "a pattern"),
        ("unit/test_a.py::test_?", "a pattern"),
        ("/unit/test_a.py::test_b", "from the root"),
        ("./unit/test_a.py::test_b", "from the root"),
        ("unit/../test_a.py", "from the root"),
        ("unit/", "from the root"),
        ("", "from the root"),
        ("unit/test_a.py::", "an empty name"),
        ("unit/test_a.py::TestA::", "an empty name"),
        ("unit/test_a.py::test_b[one", "do not end with"),
    ],
)
def test_a_test_that_no_node_id_can_be_is_refused(tmp_path: Path, test: str, problem: str) -> None:
    assert problem in refusal(tmp_path, ENTRY.replace("unit/test_a.py::test_b", test))


@pytest.mark.parametrize("leg", ["train", "train.", ".plain", ""])
def test_a_leg_is_named_with_its_job(tmp_path: Path, leg: str) -> None:
    text = ENTRY.replace('test = "unit/test_a.py::test_b"', f'leg = "{leg}"')

    assert "a leg is named as job.leg" in refusal(tmp_path, text)


@pytest.mark.parametrize("field", ["reason", "owner"])
def test_what_people_are_told_is_not_empty(tmp_path: Path, field: str) -> None:
    empty = "\n".join(
        f'{field} = " "' if line.startswith(field) else line for line in ENTRY.splitlines()
    )

    assert f"{field}: a few words are needed" in refusal(tmp_path, empty)


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ("", "", True),
        ('runner = "small"', 'runner = "small"', True),
        ('runner = "small"', "", True),
        ('runner = "small"', 'runner = "large"', False),
    ],
)
def test_one_thing_is_known_once_on_a_runner(
    tmp_path: Path, first: str, second: str, refused: bool
) -> None:
    text = f"{ENTRY}{first}\n{ENTRY}{second}\n"

    if refused:
        assert "known entry 2 (unit/test_a.py::test_b): already known as entry 1" in refusal(
            tmp_path, text
        )
    else:
        assert len(load_known(write(tmp_path, text)).entries) == 2


@pytest.mark.parametrize("text", ["known = 3", "known = [3]", "known = [[[]]]"])
def test_what_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    assert "a [[known]] table is needed" in refusal(tmp_path, text)


def test_broken_toml_names_the_file(tmp_path: Path) -> None:
    assert "known_failures.toml" in refusal(tmp_path, "[[known]\n")


@pytest.mark.parametrize(
    ("test", "nodeid", "covered"),
    [
        ("u/test_a.py", "u/test_a.py::test_b", True),
        ("u/test_a.py", "u/test_a.py::TestC::test_b[1]", True),
        ("u/test_a.py", "u/test_a.py", True),
        ("u/test_a.py", "u/test_a.pyx::test_b", False),
        ("u/test_a.py", "v/u/test_a.py::test_b", False),
        ("u/test_a.py::test_b", "u/test_a.py::test_b", True),
        ("u/test_a.py::test_b", "u/test_a.py::test_b[1-x]", True),
        ("u/test_a.py::test_b", "u/test_a.py::test_b[a::b]", True),
        ("u/test_a.py::test_b", "u/test_a.py::test_bc", False),
        ("u/test_a.py::test_b", "u/test_a.py::test_bc[1]", False),
        ("u/test_a.py::test_b", "u/test_a.py", False),
        ("u/test_a.py::test_b", "u/test_a.py::TestC::test_b", False),
        ("u/test_a.py::TestC", "u/test_a.py::TestC::test_b[1]", True),
        ("u/test_a.py::TestC", "u/test_a.py::TestCD::test_b", False),
        ("u/test_a.py::TestC", "u/test_a.py::test_b[TestC::x]", False),
        ("u/test_a.py::TestC::test_b", "u/test_a.py::TestC::test_b[1]", True),
        ("u/test_a.py::test_b[1]", "u/test_a.py::test_b[1]", True),
        ("u/test_a.py::test_b[1]", "u/test_a.py::test_b[1]]", False),
        ("u/test_a.py::test_b[1]", "u/test_a.py::test_b[1]::x]", False),
        ("u/test_a.py::test_b[1]", "u/test_a.py::test_b", False),
    ],
)
def test_an_entry_covers_what_it_names_and_no_neighbour(
    test: str, nodeid: str, covered: bool
) -> None:
    entry = KnownFailure(
        test=test,
        reason="r",
        issue="https://tracker.example/issues/7",
        owner="o",
        expires=date(2030, 1, 31),
    )

    assert entry.covers(nodeid) is covered


def test_an_entry_holds_through_its_last_day(tmp_path: Path) -> None:
    (entry,) = load_known(write(tmp_path, ENTRY)).entries

    assert not entry.expired(date(2030, 1, 31))
    assert entry.expired(date(2030, 2, 1))
