"""The patch gate: how much of a change's executable lines ran, by diff-cover, without a network."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from exacthead.cover.combine import XML
from exacthead.cover.tool import run_tool
from exacthead.errors import HarnessError
from exacthead.git import git, listing, merge_base, names, scratch
from exacthead.runs.files import write_json

if TYPE_CHECKING:
    from exacthead.cover.combine import Coverage

SUMMARY = "patch_coverage.json"
_DEADLINE_S = 300
# Whatever the user's own settings and attributes say, so that the parser meets one form only.
_DIFFERENCE = (
    *("-c", "core.quotePath=false", "-c", "diff.interHunkContext=0", "diff", "--unified=0"),
    *("--no-color", "--no-ext-diff", "--no-textconv", "--text", "--find-renames=50%"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=all"),
)
# So many reasons are said; the coverage's own report has them all.
_SHOWN = 3


@dataclass(frozen=True)
class Patch:
    """What the gate says of a change; ``patch_coverage.json`` in the run's folder.

    Attributes:
        state: ``n/a`` when the change has no executable line that counts.
        base: the commit that it is a change of.
        limit: the percentage that it must reach.
        covered: how many of its executable lines ran.
        total: how many there are.
        missing: the others, by file.
        reasons: why the coverage is not known; only when it is incomplete.
    """

    state: Literal["passed", "failed", "n/a", "incomplete"]
    base: str
    limit: float
    covered: int
    total: int
    missing: dict[str, tuple[int, ...]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    @property
    def green(self) -> bool:
        """Whether the change may pass."""
        return self.state in {"passed", "n/a"}

    def __str__(self) -> str:
        if not self.total:
            shown = f"no executable line changed since {self.base[:12]}"
        else:
            percent = 100 * self.covered / self.total
            shown = (
                f"{self.covered} of {self.total} executable lines changed since {self.base[:12]}"
                f" ran ({percent:.1f} %, at least {self.limit:g} %)"
            )
        return f"patch coverage {self.state}: {'; '.join((shown, *self.reasons[:_SHOWN]))}"


def gate(run: Path, root: Path, base: str, coverage: Coverage, limit: float = 80.0) -> Patch:
    """Judge the change between the merge base with ``base`` and the checkout as it is.

    Changes that are not committed and untracked files belong to it. Lines count that ``sources``
    name and coverage takes for executable; those of files that nothing imported did not run.

    Args:
        run: the run's folder, with ``coverage.xml``.
        root: the checkout that ran.
        base: a branch, tag or commit that is in the repository; nothing is fetched.
        coverage: what :func:`exacthead.cover.combine.combine_run` said.
        limit: percent.

    Raises:
        HarnessError: there is no such commit or no common ancestor, or diff-cover failed.
    """
    ancestor = merge_base(root, base)
    stats = _judge(run / XML, root, _difference(root, ancestor))
    missing = {name: tuple(found["violation_lines"]) for name, found in sorted(stats.items())}
    covered = sum(len(found["covered_lines"]) for found in stats.values())
    total = covered + sum(map(len, missing.values()))
    state: Literal["passed", "failed", "n/a", "incomplete"]
    if not coverage.complete:
        state = "incomplete"
    elif not total:
        state = "n/a"
    else:
        state = "passed" if 100 * covered >= limit * total else "failed"
    patch = Patch(
        state=state,
        base=ancestor,
        limit=limit,
        covered=covered,
        total=total,
        missing={name: lines for name, lines in missing.items() if lines},
        reasons=coverage.reasons,
    )
    write_json(run / SUMMARY, asdict(patch))
    return patch


def _difference(root: Path, base: str) -> str:
    """The whole change as one patch: diff-cover's own sum of several mistakes shifted lines."""
    with scratch(root) as place:
        index = root / git(root, "rev-parse", "--git-path", "index")
        if index.exists():
            shutil.copyfile(index, place.index)
        others = names(place.git("ls-files", "--others", "--exclude-standard", "-z", "*.py"))
        if others:
            named = ("--pathspec-from-file=-", "--pathspec-file-nul")
            place.git(
                "add",
                "--intent-to-add",
                *named,
                stdin=listing([f":(literal){each}" for each in others]),
            )
        patch = place.git(*_DIFFERENCE, base, "--", "*.py").decode(errors="replace")
    # diff-cover would count this remark as a line of the file.
    remark = "\\ No newline at end of file"
    return "\n".join(line for line in patch.split("\n") if line != remark)


def _judge(report: Path, root: Path, difference: str) -> dict[str, Any]:
    """What diff-cover says of each changed file: ``covered_lines`` and ``violation_lines``."""
    with tempfile.TemporaryDirectory() as folder:
        patch, answer = Path(folder) / "change.patch", Path(folder) / "answer.json"
        patch.write_text(difference, encoding="utf-8", newline="")
        arguments = [str(report), "--quiet", "--diff-file", str(patch)]
        arguments += ["--format", f"json:{answer}"]
        done = run_tool("diff_cover.diff_cover_tool", arguments, root, _DEADLINE_S)
        if done.returncode != 0 or not answer.exists():
            raise HarnessError(
                "the patch coverage by diff-cover",
                (done.stdout + done.stderr).strip()[-500:] or f"exit code {done.returncode}",
                "the harness environment must hold diff-cover; coverage.xml is intact",
            )
        stats: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))["src_stats"]
        return stats
