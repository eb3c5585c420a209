from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.lint.finding import Finding
    from unit.exacthead.conftest import Repository

    Found = Callable[[str], list[Finding]]


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("train | tee log\n", [1]),
        ("train |& tee log\n", [1]),
        ("set -e\ntrain |\n    tee log\n", [2]),
        ("set -euo pipefail\ntrain | tee log\n", []),
        ("set -o pipefail\ntrain | tee log\nset +o pipefail\ntrain | tee log\n", [4]),
        ("train | tee log\nset -o pipefail\n", [1]),
        ("keep() { train | tee log; }\nset -o pipefail\nkeep\n", []),
        ("keep() { train | tee log; }\nkeep\n", [1]),
        ("source functional/lib.sh\ntrain | tee log\n", []),
        (". lib.sh\ntrain | tee log\n", []),
        ("train | tee log\nsource functional/lib.sh\n", [1]),
        ("text=$(train | tail -n 1)\n", [1]),
        ("train || echo 'train | tee log'\ncase $x in a | b) ;; esac\n", []),
    ],
)
def test_a_pipe_needs_pipefail_before_it(
    small_repository: Repository, found: Found, script: str, lines: list[int]
) -> None:
    small_repository.write(
        {"functional/count.sh": script, "functional/lib.sh": "set -euo pipefail\nx() { a | b; }\n"}
    )

    findings = found("pipes")

    assert [(each.path, each.line) for each in findings] == [
        ("functional/count.sh", line) for line in lines
    ]
    assert all("set -o pipefail" in each.fix for each in findings)


def test_a_script_that_is_started_by_another_has_its_own_options(
    small_repository: Repository, found: Found
) -> None:
    small_repository.write(
        {
            "functional/count.sh": "set -o pipefail\nbash functional/child.sh\n",
            "functional/child.sh": "a | b\n",
            "tools/other.sh": "a | b\n",
        }
    )

    assert [each.path for each in found("pipes")] == ["functional/child.sh"]


def test_a_script_that_does_not_parse_is_a_finding(
    small_repository: Repository, found: Found
) -> None:
    small_repository.write({"functional/count.sh": "if true; then\n"})

    (finding,) = found("pipes")

    assert "the commands of functional/count.sh" in finding.found
