from __future__ import annotations

import os
import signal
import subprocess
import sys

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


def test_an_interrupt_while_it_is_imported_is_an_end_and_no_crash() -> None:
    begin = (
        "import runpy, sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'exacthead.cli':\n"
        "            print('importing', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.argv = ['exacthead', 'dashboard']\n"
        "runpy.run_module('exacthead', run_name='__main__')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", begin],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "ci"},
        # A shell without a terminal has its jobs ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert (process.returncode, printed) == (-signal.SIGINT, "")
