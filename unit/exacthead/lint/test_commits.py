from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.lint.check import run_checks
from exacthead.lint.commits import check_sign_off

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.lint.finding import Finding
    from unit.exacthead.conftest import Repository

ASKED = '\n[lint]\nsigned_off_since = "main"\n'


def test_whitespace_errors_of_tracked_and_of_new_files_are_found(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    small_repository.commit({"a.py": "x = 1 \n", "fine.md": "text\n"})
    small_repository.write({"ünusual name.txt": "text\n\n\n", "b.c": "  \tint x;\n"})

    assert {(each.path, each.line, each.found) for each in found("git diff --check")} == {
        ("a.py", 1, "trailing whitespace"),
        ("ünusual name.txt", 2, "new blank line at EOF"),
        ("b.c", 1, "space before tab in indent"),
    }


def test_a_conflict_marker_is_found(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    marks = "<" * 7, "=" * 7, ">" * 7
    small_repository.write({"a.md": f"{marks[0]} HEAD\na\n{marks[1]}\nb\n{marks[2]} other\n"})

    findings = found("git diff --check")

    assert [each.line for each in findings] == [1, 3, 5]
    assert {each.found for each in findings} == {"leftover conflict marker"}
    assert {each.fix for each in findings} == {"resolve the conflict"}


def test_a_path_whose_attributes_allow_it_is_left_alone_and_the_index_is_as_it_was(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    small_repository.write({"a.patch": "+x \n", ".gitattributes": "*.patch -whitespace\n"})
    before = small_repository.git("status", "--porcelain")

    assert found("git diff --check") == []
    assert small_repository.git("status", "--porcelain") == before


def signed(repository: Repository, text: str, *trailers: str) -> None:
    repository.write({"a.txt": text})
    repository.git("add", "a.txt")
    message = "A step\n\n" + "\n".join(trailers)
    repository.git("commit", "--quiet", "--message", message)


def test_commits_that_their_authors_have_not_signed_off_are_found(
    small_repository: Repository,
) -> None:
    small_repository.git("checkout", "--quiet", "-b", "change")
    signed(small_repository, "1", "Signed-off-by: Tester <Tester@example.test>")
    signed(small_repository, "2", "Signed-off-by: Other <other@example.test>")
    signed(small_repository, "3", "Reviewed-by: Tester <tester@example.test>")
    ours = small_repository.git("rev-list", "main..change").split()

    findings = check_sign_off(small_repository.root, "main")

    assert [each.found.split()[1] for each in findings] == [commit[:12] for commit in ours[:2]]
    assert all("not signed off by Tester <tester@example.test>" in each.found for each in findings)
    assert findings[0].fix.startswith("git rebase --signoff ")


def test_sign_off_is_asked_only_where_the_repository_asks_and_a_missing_base_is_a_finding(
    small_repository: Repository,
) -> None:
    assert "sign-off" not in small_repository.exacthead("lint")[1]

    text = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    small_repository.commit({"ci/harness.toml": text + ASKED})
    assert "sign-off: ok\n" in small_repository.exacthead("lint")[1]

    small_repository.commit({"ci/harness.toml": text + ASKED.replace("main", "upstream/main")})
    code, printed = small_repository.exacthead("lint")
    assert code == 1
    assert "sign-off: the merge base with 'upstream/main': no such commit" in printed


def test_each_check_says_how_it_went(found: Callable[[str], list[Finding]]) -> None:
    said: list[str] = []
    finding = run_checks({"toml, json": lambda: found("toml, json")}, said.append)

    assert (finding, said) == ([], ["toml, json: ok"])
