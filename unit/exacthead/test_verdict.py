from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError, nearest
from exacthead.verdict import Kind, Verdict

GREEN = {Kind.PASSED, Kind.QUARANTINED}


@pytest.mark.parametrize("kind", list(Kind))
def test_only_a_pass_and_a_quarantined_failure_are_green(kind: Kind) -> None:
    assert Verdict(kind, "why").green is (kind in GREEN)


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.PASSED}))
def test_whatever_is_not_a_plain_pass_has_a_reason(kind: Kind) -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Verdict(kind)


def test_a_verdict_reads_as_its_kind_and_reason() -> None:
    assert str(Verdict(Kind.PASSED)) == "passed"
    assert str(Verdict(Kind.NOT_RUN, "queue")) == "not_run(queue)"


def test_an_error_says_what_was_asked_found_and_to_do() -> None:
    error = HarnessError("a bath", "no water", "open the tap")

    assert str(error) == "a bath\n  found: no water\n  to do: open the tap"
    assert (error.asked, error.found, error.todo) == ("a bath", "no water", "open the tap")


def test_the_nearest_name_is_suggested_or_all_are_listed() -> None:
    assert nearest("polcy", ["policy", "gym"]) == "did you mean 'policy'?"
    assert nearest("zzz", ["policy", "gym"]) == "known: gym, policy"
    assert nearest("zzz", []) == "nothing is declared"


# Names that can be told from what joins them.
NAMES = st.text(st.characters(exclude_characters=", "), min_size=1)


@given(NAMES, st.lists(NAMES, min_size=1, max_size=40))
def test_a_suggestion_always_names_something_that_exists(name: str, known: list[str]) -> None:
    said = nearest(name, known)

    few = f"the nearest of {len(known)}: "
    if said.startswith(few):
        assert {*said.removeprefix(few).split(", ")} <= {*known}
    else:
        assert said == f"known: {', '.join(sorted(known))}" or any(
            said == f"did you mean {each!r}?" for each in known
        )
