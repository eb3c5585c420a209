"""Results that a test case says in other ways than by a result element.

GoogleTest writes ``status="notrun"`` and ``result="suppressed"`` for what did not run; other
writers say ``status="failed"`` and nothing more, or write ``<FAILURE>``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.junit.suite import BADNESS, RESULTS

if TYPE_CHECKING:
    from collections.abc import Mapping

# What may stand in a test case and is no result.
BESIDES = {
    *("properties", "system-out", "system-err", "attachments", "tags"),
    *("rerunFailure", "rerunError", "flakyFailure", "flakyError"),
}
ATTRIBUTES = ("status", "result")
_WORDS = {
    "failure": {"fail", "failed", "failure", "broken"},
    "error": {"error", "errored", "crashed", "aborted", "killed", "timeout", "timedout"},
    "skipped": {
        *("skip", "skipped", "notrun", "disabled", "suppressed", "ignored", "pending"),
        *("inconclusive", "blocked"),
    },
    "": {"", "run", "ran", "pass", "passed", "ok", "success", "successful", "succeeded"},
}
_WORDS[""] |= {"completed", "complete", "done"}
_MEANS = {word: tag for tag, words in _WORDS.items() for word in words}


def by_attributes(attributes: Mapping[str, str]) -> tuple[str, str, str]:
    """What the attributes of a test case say of its result.

    Returns:
        The tag of the result element that it amounts to, empty for none; the attribute that says
        so; and the attribute that says what nobody knows, empty for none.
    """
    tag = said = unknown = ""
    for name in ATTRIBUTES:
        word = attributes.get(name, "")
        means = _MEANS.get("".join(filter(str.isalnum, word)).lower())
        if means is None:
            unknown = unknown or f"{name}={word!r}"
        elif BADNESS[means] > BADNESS[tag]:
            tag, said = means, f"{name}={word!r}"
    return tag, said, unknown


def by_element(tag: str) -> str:
    """The tag of the result element that an unknown child amounts to; empty for none."""
    lower = tag.lower()
    return lower if lower in RESULTS else ""
