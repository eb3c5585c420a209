from __future__ import annotations

import pytest

from exacthead.cli import _parser, main


def test_an_option_of_pytest_is_given_behind_a_sign_and_the_error_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["unit", "--pytest", "--lf"])

    assert ended.value.code == 2
    assert "expected one argument; one that begins with a dash" in capsys.readouterr().err
    assert _parser().parse_args(["unit", "--pytest=--lf"]).pytest == ["--lf"]
    assert _parser().parse_args(["unit", "--pytest", "-k refit --opt-in"]).pytest == [
        "-k refit --opt-in"
    ]


@pytest.mark.parametrize("amount", ["nan", "inf", "-1", "much"])
def test_an_amount_of_workers_to_keep_is_one_that_can_be_kept(
    capsys: pytest.CaptureFixture[str], amount: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        # Only read: what is not refused must not be done here.
        _parser().parse_args(["workers", f"--gc={amount}"])

    assert ended.value.code == 2
    assert "argument --gc" in capsys.readouterr().err
    assert _parser().parse_args(["workers", "--gc", "0.5"]).gc == 0.5
