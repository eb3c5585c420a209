"""GitHub annotations: new failures as workflow commands, which the log of a step may hold.

The form is ``::error file=F,line=L,title=T::message``. GitHub shows ten errors and ten notices of a
step; what is beyond is counted in the last one, and stands in the step summary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exacthead.report.model import Failure, Report

MOST = 10
_MOST_TEXT = 2000


def workflow_commands(report: Report) -> list[str]:
    """One line for each new failure, at most ten; the last says how many more there are."""
    new = report.new
    shown = new if len(new) <= MOST else new[: MOST - 1]
    lines = [_error(each) for each in shown]
    if len(new) > len(shown):
        rest = len(new) - len(shown)
        lines.append(f"::error title={_value('Exacthead')}::{_data(f'and {rest} more failures')}")
    return lines


def _error(failure: Failure) -> str:
    properties = {}
    if failure.file:
        properties["file"] = failure.file
        if failure.line:
            properties["line"] = str(failure.line)
    properties["title"] = f"{failure.name} ({failure.failure_class})"
    said = ",".join(f"{name}={_value(value)}" for name, value in properties.items())
    text = failure.cause or failure.kind
    if failure.reproduction:
        text = f"{text[:_MOST_TEXT]}\nRun it again: {failure.reproduction}"
    return f"::error {said}::{_data(text)}"


def _data(text: str) -> str:
    """A message, which ends with its line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    """A property's value, which ends with a comma or a colon."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
