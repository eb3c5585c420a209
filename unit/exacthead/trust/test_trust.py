"""Who may run: every forged, stale, abbreviated or moved head is refused before its code is run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.trust import Vouch, check_trust, read_vouch, vouched

if TYPE_CHECKING:
    from pathlib import Path

    from unit.exacthead.conftest import Repository

TRUSTED = '\n[trust]\nvouchers = ["alice", "bob"]\n'
HUSH = "SECRET_TOKEN"
HEX = st.text("0123456789abcdef", min_size=40, max_size=40)


@dataclass(frozen=True)
class Pull:
    """An outside pull request in a checkout at its head, and what a workflow passes about it."""

    repository: Repository
    base: str
    head: str

    def says(self, vouch: str = "", by: str = "alice", tip: str = "") -> dict[str, str]:
        return {
            "EXACTHEAD_PULL": "12",
            "EXACTHEAD_BASE": self.base,
            "EXACTHEAD_PULL_HEAD": tip or self.head,
            "EXACTHEAD_VOUCH": vouch,
            "EXACTHEAD_VOUCHED_BY": by,
        }


@pytest.fixture
def pull(small_repository: Repository) -> Pull:
    path = small_repository.root / "ci" / "harness.toml"
    declared = path.read_text(encoding="utf-8")
    base = small_repository.commit({"ci/harness.toml": declared + TRUSTED})
    # The outsider makes a voucher of themself and prints what they can find.
    mine = declared + TRUSTED.replace("bob", "mallory")
    script = 'echo outsider "$SECRET_TOKEN" >ran\n'
    head = small_repository.commit({"ci/harness.toml": mine, "functional/count.sh": script})
    return Pull(small_repository, base, head)


def refused(pull: Pull, environment: dict[str, str]) -> str:
    with pytest.raises(HarnessError) as error:
        check_trust(pull.repository.root, environment)
    return str(error.value)


def test_code_of_the_repository_itself_needs_no_vouch(pull: Pull) -> None:
    assert check_trust(pull.repository.root, {"EXACTHEAD_VOUCH": "nonsense"}) is None


def test_the_very_head_that_was_vouched_for_may_run(pull: Pull) -> None:
    vouch = check_trust(pull.repository.root, pull.says(f"/ok to test {pull.head}", "bob"))

    assert vouch == Vouch(pull.head, "bob")


def test_without_a_vouch_it_is_said_who_must_act(pull: Pull) -> None:
    said = refused(pull, pull.says())

    assert "nobody has vouched for it" in said
    assert f"alice or bob must look at it and comment: /ok to test {pull.head}" in said


def test_a_head_that_moved_after_the_vouching_is_refused(pull: Pull) -> None:
    vouch = f"/ok to test {pull.head}"
    moved = pull.repository.commit({"functional/count.sh": "echo worse\n"})

    said = refused(pull, pull.says(vouch, tip=moved))

    assert f"alice vouched for {pull.head}" in said
    assert f"git diff {pull.head} {moved}" in said
    # Nor when the workflow looked before the branch moved, and checked out what is there now.
    assert f"not at {pull.head[:12]}" in refused(pull, pull.says(vouch))


def test_a_stale_vouch_is_refused(pull: Pull) -> None:
    assert f"vouched for {pull.base}" in refused(pull, pull.says(f"/ok to test {pull.base}"))


def test_a_checkout_that_was_edited_is_not_the_head(pull: Pull) -> None:
    pull.repository.write({"functional/count.sh": "echo other\n"})

    assert "-dirty, not at" in refused(pull, pull.says(f"/ok to test {pull.head}"))


@pytest.mark.parametrize("by", ["mallory", "Alice", "alice ", "", "alice\nbob"])
def test_only_who_the_trusted_revision_names_can_vouch(pull: Pull, by: str) -> None:
    said = refused(pull, pull.says(f"/ok to test {pull.head}", by))

    assert "none of those who may vouch" in said or "nobody's name" in said


@pytest.mark.parametrize("base", ["", "main", "HEAD", "abc123", "--help", "0" * 40])
def test_without_a_trusted_revision_nobody_can_vouch(pull: Pull, base: str) -> None:
    environment = pull.says(f"/ok to test {pull.head}") | {"EXACTHEAD_BASE": base}

    assert refused(pull, environment)


@pytest.mark.parametrize("digits", [4, 7, 12, 39])
def test_an_abbreviated_id_is_refused(pull: Pull, digits: int) -> None:
    said = refused(pull, pull.says(f"/ok to test {pull.head[:digits]}"))

    assert "abbreviated" in said


def test_an_id_in_capitals_is_none_that_git_writes(pull: Pull) -> None:
    said = refused(pull, pull.says("/ok to test " + "ABCDEF0123" * 4))

    assert "in small letters" in said
    assert "abbreviated" not in said


@pytest.mark.parametrize(
    "text",
    [
        "/ok to test",
        "ok to test {head}",
        "/OK to test {head}",
        "/ok  to test {head}",
        "please /ok to test {head}",
        "/ok to test {head} and more",
        "/ok to test {head}\n/ok to test {head}",
        "> /ok to test {head}",
        "/ok to test {head}\u202e",
        "/ok to test refs/heads/main",
    ],
)
def test_what_is_not_the_command_alone_is_no_vouch(text: str) -> None:
    with pytest.raises(HarnessError):
        read_vouch(text.format(head="a" * 40), "alice")


@given(HEX, st.sampled_from(["", " ", "\n", "\r\n", "\t"]))
def test_space_around_the_command_means_nothing(commit: str, space: str) -> None:
    assert read_vouch(f"{space}/ok to test {commit}{space}", "alice").commit == commit


@given(HEX, HEX)
def test_a_vouch_holds_for_its_own_commit_and_no_other(vouch: str, tip: str) -> None:
    said = Vouch(vouch, "alice")
    if vouch == tip:
        assert vouched(said, tip, ("alice",), "12") is said
    else:
        with pytest.raises(HarnessError, match="has moved"):
            vouched(said, tip, ("alice",), "12")


def test_a_vouch_in_a_file_counts_unless_the_pull_request_could_have_brought_it(
    pull: Pull, tmp_path: Path
) -> None:
    text = json.dumps({"vouch": f"/ok to test {pull.head}", "by": "alice"})
    outside = tmp_path / "vouch.json"
    outside.write_text(text, encoding="utf-8")
    forged = pull.repository.root / ".cache" / "forged.json"
    forged.parent.mkdir(exist_ok=True)
    forged.write_text(text, encoding="utf-8")
    environment = pull.says(by="")

    assert check_trust(
        pull.repository.root, environment | {"EXACTHEAD_VOUCH_FILE": str(outside)}
    ) == Vouch(pull.head, "alice")
    said = refused(pull, environment | {"EXACTHEAD_VOUCH_FILE": str(forged)})
    assert "could have brought it along" in said
    outside.write_text("{}", encoding="utf-8")
    assert "KeyError" in refused(pull, environment | {"EXACTHEAD_VOUCH_FILE": str(outside)})


def test_an_unvouched_head_runs_nothing_and_no_secret_reaches_it(pull: Pull) -> None:
    root = pull.repository.root
    for command in (("plan",), ("functional", "count"), ("unit",), ("lint",)):
        code, printed = pull.repository.exacthead(*command, **pull.says(), **{HUSH: "hush-4711"})
        assert code == 2, printed
        assert "nobody has vouched for it" in printed
        assert "hush-4711" not in printed

    assert not (root / "ran").exists()
    assert not (root / "runs").exists()


def test_the_commit_to_check_out_is_told_to_the_workflow(pull: Pull, tmp_path: Path) -> None:
    output = tmp_path / "output"
    pull.repository.git("checkout", "--quiet", "--detach", pull.base)
    variables = pull.says(f"/ok to test {pull.head}") | {"GITHUB_OUTPUT": str(output)}

    code, printed = pull.repository.exacthead("trust", **variables)

    assert code == 0, printed
    assert output.read_text(encoding="utf-8") == f"head={pull.head}\n"
    output.unlink()
    code, printed = pull.repository.exacthead("trust", **variables | {"EXACTHEAD_VOUCH": ""})
    assert (code, output.exists()) == (2, False)


def test_the_repository_s_own_commit_is_told_by_its_full_id(pull: Pull, tmp_path: Path) -> None:
    output = tmp_path / "output"
    told = {"GITHUB_OUTPUT": str(output)}

    assert pull.repository.exacthead("trust", **told)[0] == 0
    assert output.read_text(encoding="utf-8") == f"head={pull.head}\n"
    forged = {"EXACTHEAD_PULL_HEAD": f"{pull.base}\nhead=refs/heads/main"}
    code, printed = pull.repository.exacthead("trust", **told, **forged)
    assert code == 2, printed
    assert output.read_text(encoding="utf-8") == f"head={pull.head}\n"
