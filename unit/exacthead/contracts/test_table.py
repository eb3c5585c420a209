from __future__ import annotations

import io

from rich.console import Console

from exacthead.contracts.evaluate import CheckResult, ContractResult
from exacthead.contracts.table import contract_table, markdown_table
from exacthead.verdict import Kind, Verdict

NASTY = "a|b\n[red]x[/red]\x1b[31m `y` <script> *z* \\"
RESULT = ContractResult(
    "gym_training",
    (
        CheckResult("loss", "finite", "train/loss", Verdict(Kind.PASSED), "-0.25", "finite"),
        CheckResult("lr", "positive", NASTY, Verdict(Kind.FAILED, "too low"), "0.0", "> 0"),
        CheckResult("later", "finite", "m", Verdict(Kind.NOT_RUN, "a gate is red"), "nothing", "x"),
    ),
)


def rendered(result: ContractResult) -> str:
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(contract_table(result))
    return out.getvalue()


def test_the_terminals_table_says_verdicts_in_words() -> None:
    text = rendered(RESULT)

    assert "contract gym_training: failed (1 passed, 1 failed, 1 not run; 3 checks)" in text
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    assert ["passed", "loss", "train/loss", "-0.25", "finite", ""] in rows
    assert ["not_run", "later", "m", "nothing", "x", "a gate is red"] in rows


def test_neither_markup_nor_escapes_act_in_the_terminals_table() -> None:
    text = rendered(RESULT)

    assert "\x1b" not in text
    assert "[red]x[/red]\\x1b[31m" in text


def test_the_markdown_table_has_one_line_a_check() -> None:
    lines = markdown_table(RESULT).splitlines()

    assert lines[0] == (
        "**contract gym\\_training: failed (1 passed, 1 failed, 1 not run; 3 checks)**"
    )
    assert lines[2] == "| verdict | check | metric | observed | demanded | why |"
    assert lines[4] == "| passed | loss | train/loss | -0.25 | finite |  |"
    assert lines[5] == (
        "| failed | lr | a\\|b \\[red\\]x\\[/red\\]\\\\x1b\\[31m \\`y\\` \\<script\\> \\*z\\* \\\\ "
        "| 0.0 | \\> 0 | too low |"
    )
    assert len(lines) == 7
