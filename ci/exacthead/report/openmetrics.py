"""The numbers of a run as an OpenMetrics text, for a collector that reads files.

https://prometheus.io/docs/specs/om/open_metrics_spec/: each family with its type, samples with
sorted labels, and ``# EOF`` as the last line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from exacthead.report.model import Report

NAME = "metrics.om"


@dataclass
class _Family:
    name: str
    kind: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        if math.isfinite(value):
            self.samples.append((labels, value))

    def lines(self) -> Iterator[str]:
        if not self.samples:
            return
        yield f"# TYPE {self.name} {self.kind}"
        yield f"# HELP {self.name} {_escaped(self.help)}"
        suffix = "_info" if self.kind == "info" else ""
        for labels, value in self.samples:
            said = ",".join(f'{name}="{_escaped(text)}"' for name, text in sorted(labels.items()))
            braces = f"{{{said}}}" if said else ""
            yield f"{self.name}{suffix}{braces} {value!r}"


def openmetrics(report: Report) -> str:
    """Counts, times and contract states of a run; its head and runner are labels of its info."""
    info = _Family("exacthead_run", "info", "The run: its head, runner and state.")
    info.add(
        1.0,
        run=report.run,
        head=report.head.commit,
        dirty=str(report.head.dirty).lower(),
        runner=report.runner,
        flavour=report.flavour,
        state=report.state,
    )
    subjects = _Family("exacthead_subjects", "gauge", "Tests and legs by what became of them.")
    counts = report.counts
    for name in ("new", "known", "also_red", "not_run", "skipped", "flaky", "passed"):
        subjects.add(float(getattr(counts, name)), outcome=name)
    passed = _Family("exacthead_run_passed", "gauge", "1 when every required item is green.")
    passed.add(float(report.state == "passed"))
    seconds = _Family("exacthead_item_seconds", "gauge", "Wall time of an item.")
    expected = _Family("exacthead_item_expected_seconds", "gauge", "What its history lets expect.")
    memory = _Family("exacthead_item_peak_mebibytes", "gauge", "Peak PSS of its process tree.")
    stages = _Family("exacthead_stage_seconds", "gauge", "Time of a stage of a leg.")
    checks = _Family("exacthead_contract_check_passed", "gauge", "1 when a check is satisfied.")
    workers = _Family("exacthead_worker_seconds", "gauge", "Time to have a worker ready.")
    for item in report.items:
        seconds.add(item.seconds, item=item.id, verdict=item.verdict)
        if item.expected is not None:
            expected.add(item.expected, item=item.id)
        memory.add(item.peak_mb, item=item.id)
        for stage, value in item.stages.items():
            stages.add(value, item=item.id, stage=stage)
        for check in item.contract:
            checks.add(float(check.verdict == "passed"), item=item.id, check=check.name)
    for worker in report.workers:
        workers.add(worker.seconds, worker=worker.name, how=worker.how, flavour=worker.flavour)
    families = (info, passed, subjects, seconds, expected, memory, stages, checks, workers)
    return "\n".join([*(line for each in families for line in each.lines()), "# EOF", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
