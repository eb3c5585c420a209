from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.config import load
from exacthead.lint.declared import check_known_failures
from unit.exacthead.conftest import CONTRACT, HARNESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.lint.finding import Finding
    from unit.exacthead.conftest import Repository

    Found = Callable[[str], list[Finding]]

EXPIRED = """
[[known]]
test = "unit/sums/test_sums.py::test_sum"
reason = "it cannot add"
issue = "https://example.test/1"
owner = "the counters"
expires = 2020-01-01
"""
BUILT = '\n[workers.built]\nrequirements = ["alpha"]\n'


def line_of(repository: Repository, path: str, words: str) -> int:
    lines = (repository.root / path).read_text(encoding="utf-8").splitlines()
    return lines.index(words) + 1


def test_a_healthy_repository_has_no_findings(found: Found) -> None:
    names = ("locks", "known failures", "scripts", "contracts", "toml, json", "git diff --check")
    for name in names:
        assert found(name) == [], name


def test_a_missing_and_a_stale_lock_are_found(small_repository: Repository, found: Found) -> None:
    small_repository.write({"ci/harness.toml": HARNESS + BUILT})
    (finding,) = found("locks")
    assert (finding.path, finding.found) == ("ci/locks/built-cpu.txt", "missing")
    assert finding.fix.startswith("run nox -s lock")

    small_repository.write({"ci/locks/built-cpu.txt": "alpha==1 \\\n    --hash=sha256:0\n"})
    assert "stale: its inputs" in " ".join(each.found for each in found("locks"))


def test_an_expired_known_failure_is_found_at_its_line(
    small_repository: Repository, found: Found
) -> None:
    small_repository.write({"ci/known_failures.toml": EXPIRED})

    (finding,) = found("known failures")

    assert (finding.path, finding.line) == ("ci/known_failures.toml", 3)
    assert "expired on 2020-01-01" in finding.found


def test_a_known_failure_that_holds_today_is_none(small_repository: Repository) -> None:
    from datetime import date

    small_repository.write({"ci/known_failures.toml": EXPIRED})

    assert check_known_failures(load(small_repository.root), date(2020, 1, 1)) == []


def test_a_script_that_no_job_comes_to_is_found(small_repository: Repository, found: Found) -> None:
    small_repository.write(
        {
            "functional/forgotten.sh": "true\n",
            "functional/deep/er.sh": "true\n",
            "functional/lib.sh": "source functional/more.sh\n",
            "functional/more.sh": "# forgotten.sh is only spoken of here\ntrue\n",
            "functional/count.sh": 'source "$(dirname "$0")/lib.sh"\n',
            "tools/elsewhere.sh": "true\n",
        }
    )

    findings = found("scripts")

    assert [each.path for each in findings] == ["functional/deep/er.sh", "functional/forgotten.sh"]
    assert "declare a job for it" in findings[0].fix


def test_a_job_without_its_script_is_found_where_it_is_declared(
    small_repository: Repository, found: Found
) -> None:
    (small_repository.root / "functional/count.sh").unlink()

    (finding,) = found("scripts")

    assert finding.path == "ci/harness.toml"
    assert finding.line == line_of(small_repository, "ci/harness.toml", "[jobs.count]")
    assert "job count has no script functional/count.sh" in finding.found


def test_contracts_that_cannot_be_read_are_missing_or_belong_to_no_leg_are_found(
    small_repository: Repository, found: Found
) -> None:
    small_repository.write({"functional/other.contract.toml": CONTRACT})
    (finding,) = found("contracts")
    assert (finding.path, finding.found[:6]) == ("functional/other.contract.toml", "no leg")

    small_repository.write(
        {"functional/count.contract.toml": 'extends = "other.contract.toml"\n' + CONTRACT}
    )
    assert not [each for each in found("contracts") if each.path.endswith("other.contract.toml")]

    impossible = CONTRACT.replace("equals", "between").replace("value = 3", "min = 3\nmax = 2")
    small_repository.write({"functional/count.contract.toml": impossible})
    assert "functional/count.contract.toml" in {each.path for each in found("contracts")}

    (small_repository.root / "functional/count.contract.toml").unlink()
    missing = [each for each in found("contracts") if each.path == "ci/harness.toml"]
    assert [each.line for each in missing] == [
        line_of(small_repository, "ci/harness.toml", "[jobs.count]")
    ]


def test_a_contract_that_no_run_can_satisfy_is_found_at_its_check(
    small_repository: Repository, found: Found
) -> None:
    other = CONTRACT.replace("it counts to three", "it counts to four").replace("= 3", "= 4")
    small_repository.write({"functional/count.contract.toml": CONTRACT + other})

    (finding,) = found("contracts")

    name = 'name = "it counts to four"'
    line = line_of(small_repository, "functional/count.contract.toml", name)
    assert (finding.path, finding.line) == ("functional/count.contract.toml", line)
    assert "no run can pass both 'it counts to three' and 'it counts to four'" in finding.found
