"""Evidence: what a failure's class is told by, from the files that a run has left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exacthead.classes.classify import Evidence
from exacthead.classes.ends import read_ends
from exacthead.contracts.evaluate import read_json
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from exacthead.runs.folder import ItemFolder
    from exacthead.verdict import Verdict

# In a traceback of pytest: what was raised, not the source code around it.
_MARKED = re.compile(r"^E {2,}.*", re.MULTILINE)


def of_test(kind: str, reason: str, text: str) -> Evidence:
    """That of a test; of a traceback, the lines that are marked as the error."""
    marked = _MARKED.findall(text)
    return Evidence(kind, " ".join(reason.split()), "\n".join(marked) if marked else text)


def of_item(folder: ItemFolder, verdict: Verdict) -> Evidence:
    """That of a leg, or of a suite whose tests do not explain its verdict."""
    reason = " ".join(verdict.reason.split())
    try:
        ends = read_ends(folder.log)
        log = f"{ends.head}\n{ends.tail}"
    except OSError:
        log = ""  # it never wrote one
    return Evidence(str(verdict.kind), reason, log=log, contract=_unmet(folder, reason))


def _unmet(folder: ItemFolder, reason: str) -> bool:
    """Whether the verdict is that of its contract; that of a red script says something else."""
    if not folder.contract.exists():
        return False
    try:
        said = " ".join(read_json(folder.contract).verdict.reason.split())
    except HarnessError:
        return False  # a damaged one says nothing; its reader says so
    return bool(said) and said in reason
