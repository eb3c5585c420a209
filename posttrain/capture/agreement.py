"""Whether token capture rebuilt what the engines' answers say: `python -m ... PLAIN CAPTURED OUT`.

PLAIN and CAPTURED are ``samples.jsonl`` of two runs of one recipe at temperature 0, without and
with capture; into the folder OUT go the metrics ``agreement/*``, one line a step.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.errors import DataError
from posttrain.metrics.writer import MetricsWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Samples = list[dict[str, Any]]
# What must be equal: all of a sample that decides what is trained, but for its log-probabilities.
EXACT = ("prompt_ids", "completion_ids", "insertions", "reward", "truncated", "weight_version")


def read_samples(path: Path) -> dict[int, Samples]:
    """The samples of each step, ordered by row and tokens.

    Raises:
        DataError: there are none.
    """
    steps: defaultdict[int, Samples] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        steps[sample["step"]].append(sample)
    if not steps:
        raise DataError("samples of two runs", f"none in {path}", "read that run's log")
    return {
        step: sorted(samples, key=lambda it: (it["row"], it["prompt_ids"], it["completion_ids"]))
        for step, samples in steps.items()
    }


def agreement(plain: Samples, captured: Samples) -> dict[str, float | str]:
    """Compare two runs' samples of one step.

    Returns:
        The step's ``agreement/*``. Log-probabilities are compared only where the tokens are equal.

    Raises:
        DataError: one of them has other rows, or another number of rollouts of a row.
    """
    rows = [[sample["row"] for sample in samples] for samples in (plain, captured)]
    if rows[0] != rows[1]:
        raise DataError(
            f"rollouts of the same rows {rows[0]}",
            f"rows {rows[1]} with capture",
            "give both runs the same recipe and seed, without a staleness window",
        )
    pairs = list(zip(plain, captured, strict=True))
    differing = [name for name in EXACT for a, b in pairs if a.get(name) != b.get(name)]
    distances = [
        abs(own - other)
        for a, b in pairs
        if a["completion_ids"] == b["completion_ids"]
        for own, other in zip(a["logprobs"], b["logprobs"], strict=True)
    ]
    return {
        "agreement/rows": len(pairs),
        "agreement/differences": len(differing),
        "agreement/differing": " ".join(sorted(set(differing))),
        "agreement/logprob_difference": max(distances, default=float("nan")),
    }


def compare(plain: Mapping[int, Samples], captured: Mapping[int, Samples], out: Path) -> None:
    """Write the agreement of every step.

    Raises:
        DataError: a step is in one run only, or see :func:`agreement`.
    """
    if plain.keys() != captured.keys():
        raise DataError(
            f"the steps {sorted(plain)} in both runs",
            f"{sorted(captured)} with capture",
            "read the log of the run that has fewer",
        )
    with MetricsWriter(out) as writer:
        for step in sorted(plain):
            writer.write(step, agreement(plain[step], captured[step]))


def main(argv: Sequence[str]) -> int:
    """Compare; whether it is enough the contract says."""
    plain, captured, out = (Path(argument) for argument in argv)
    compare(read_samples(plain), read_samples(captured), out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
