"""What git itself can tell: whitespace errors, conflict markers, commits without a sign-off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exacthead.git import git, git_bytes, listing, merge_base, scratch
from exacthead.lint.finding import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.lint.sources import Sources

WHITESPACE = "git diff --check"
SIGN_OFF = "sign-off"
# git's own exit code when it has found something.
_FOUND = 2
_CHECKED = re.compile(r"(?P<path>.+?):(?P<line>\d+): (?P<found>[a-z].*)")
_FORMAT = "%H%x00%an%x00%ae%x00%(trailers:key=Signed-off-by,valueonly,separator=%x00)"
_ADDRESS = re.compile(r"<([^<>\s]+)>\s*$")


def check_whitespace(sources: Sources) -> list[Finding]:
    """What ``git diff --check`` says of every file, new ones too, as if all of it were new.

    A path that means to have such lines says so in ``.gitattributes`` (``whitespace``).
    """
    with scratch(sources.root) as over:
        over.git("update-index", "--add", "-z", "--stdin", stdin=listing(list(sources.paths)))
        empty = over.git("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
        # Without quotes around paths; its lines of the content begin with a plus.
        asked = ("-c", "core.quotePath=false", "diff", "--cached", "--no-ext-diff", "--check")
        said = over.git(*asked, empty, accepted=(0, _FOUND))
    findings = []
    for line in said.decode(errors="replace").splitlines():
        if not line.startswith("+") and (told := _CHECKED.fullmatch(line)):
            fix = "resolve the conflict" if "conflict" in told["found"] else "remove it"
            found = told["found"].removesuffix(".")
            findings.append(Finding(told["path"], int(told["line"]), WHITESPACE, found, fix))
    return findings


def check_sign_off(root: Path, since: str) -> list[Finding]:
    """The commits behind ``since`` whose authors have not signed them off; merges are passed over.

    Args:
        root: the checkout.
        since: a revision: what leads from where the head's branch left it to the head is checked.

    Raises:
        HarnessError: no such commit is here.
    """
    base = merge_base(root, since)
    listed = git_bytes(root, "log", "-z", "--no-merges", f"--format={_FORMAT}%x01", f"{base}..HEAD")
    findings = []
    for record in listed.decode(errors="replace").split("\x01"):
        commit, _, rest = record.strip("\0\n").partition("\0")
        if not commit:
            continue
        name, address, *signed = rest.split("\0")
        if address.lower() in {
            found[1].lower() for text in signed if (found := _ADDRESS.search(text))
        }:
            continue
        title = git(root, "log", "-1", "--format=%s", commit)
        found_words = f"commit {commit[:12]} ({title}) is not signed off by {name} <{address}>"
        findings.append(Finding(".", 0, SIGN_OFF, found_words, f"git rebase --signoff {base[:12]}"))
    return findings
