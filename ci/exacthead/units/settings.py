"""Settings: what one pytest process is told, as the file that it is started with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN = Path(__file__).parent / "inside" / "run.py"


@dataclass(frozen=True)
class Settings:
    """What one pytest process does. Paths of files are absolute.

    Attributes:
        paths: what pytest collects from, relative to its working folder.
        arguments: its further arguments.
        groups: node ids by group; groups that are not its business are empty.
        known: all planned tests of the files of these; empty where there is no plan.
        excluded: files and folders that must not be collected.
        collect: only collect.
        stream: the file for its events.
        log: its standard output and error.
        crash: the file for the stacks of a fatal signal.
        stacks: the folder for ``<pid>.txt``, the stacks that SIGUSR1 asks for.
    """

    paths: Sequence[str]
    arguments: Sequence[str]
    groups: Sequence[Sequence[str]]
    known: Sequence[str]
    excluded: Sequence[str]
    collect: bool
    stream: str
    log: str
    crash: str
    stacks: str

    def write(self, path: Path) -> None:
        """Write them for ``inside/run.py``.

        Raises:
            HarnessError: the file cannot be written.
        """
        try:
            path.write_text(json.dumps(asdict(self)), encoding="ascii")
        except OSError as error:
            if not path.parent.is_dir():
                raise HarnessError(
                    f"write {path}",
                    f"its folder is gone: {path.parent}",
                    "a test, or somebody, removed the run's folder: keep it from that, run again",
                ) from error
            raise HarnessError(
                f"write {path}", str(error), "make room or mend the folder's permissions"
            ) from error
