"""`python -m posttrain.verify RECIPE [key=value ...]`: Gym's verifiers alone, without a model.

Every answer of a file goes to its real verifier, as often as the recipe says, and every verdict
must be the one that the file expects. The process needs nothing but the ``gym`` worker.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.command import command
from posttrain.config import explain
from posttrain.config.acceptance import VerifyRecipe
from posttrain.disk import Lines, writing
from posttrain.environment.answers import read_answers
from posttrain.environment.servers import GymServers
from posttrain.environment.verdicts import Verdict, ask, metrics
from posttrain.environment.verifiers import VerifierServers
from posttrain.errors import StackError
from posttrain.interpreters import check_interpreters
from posttrain.metrics.writer import MetricsWriter
from posttrain.stacks import register_stack_dump, request_stack_dumps
from posttrain.stages import Stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.config import Loaded

_SHOWN = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the recipe, or explain it; returns the exit code."""
    return command("verify", __doc__, VerifyRecipe, verify, argv)


def verify(loaded: Loaded[VerifyRecipe]) -> None:
    """Start the verifiers that the answers name, ask them, and end them.

    A round's metrics and verdicts are written also when some verdicts are wrong.

    Raises:
        StackError: naming the verdicts that are not as expected, or whatever prevented one.
    """
    recipe = loaded.recipe
    answers = read_answers(Path(recipe.data.answers))
    check_interpreters(recipe.interpreters.model_dump())
    run_dir, limits = Path(recipe.run.dir).resolve(), recipe.timeouts
    register_stack_dump()
    stages = Stages(sys.stderr, on_overrun=request_stack_dumps)
    keeping = partial(writing, "verdicts", run_dir)
    problems: list[str] = []
    with ExitStack() as running:
        writer = running.enter_context(MetricsWriter(run_dir, events=False))
        with keeping():
            (run_dir / "recipe.yaml").write_text(explain(loaded), encoding="utf-8")
            lines = running.enter_context(Lines(run_dir / "verdicts.jsonl"))
        names = tuple(dict.fromkeys(answer.verifier for answer in answers))
        gym = GymServers(
            Path(recipe.interpreters.gym), VerifierServers(names), run_dir / "gym", limits.start_s
        )
        running.callback(gym.stop)
        with stages.stage("start_gym", limits.start_s):
            with writing("Gym's configuration", run_dir):
                gym.start()
            gym.wait_ready()
        urls = {name: gym.url(name) for name in names}
        for number in range(1, recipe.run.rounds + 1):
            with stages.stage("verification", limits.verify_s):
                verdicts = ask(
                    urls,
                    answers,
                    deadline_s=limits.call_s,
                    concurrency=recipe.verification.concurrency,
                )
            with keeping():
                lines.append(*(_line(number, verdict) for verdict in verdicts))
            writer.write(number, metrics(verdicts) | stages.take_timings())
            gym.check()
            problems += [problem for verdict in verdicts if (problem := verdict.problem())]
    _refuse(problems, recipe.run.rounds * len(answers), run_dir)


def _line(number: int, verdict: Verdict) -> str:
    return json.dumps(
        {"step": number, **asdict(verdict), "differences": verdict.differences}, ensure_ascii=False
    )


def _refuse(problems: list[str], asked: int, run_dir: Path) -> None:
    if problems:
        shown = "".join(f"\n    {problem}" for problem in problems[:_SHOWN])
        more = f"\n    and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise StackError(
            f"{asked} verdicts as expected",
            f"{len(problems)} are not:{shown}{more}",
            f"read {run_dir / 'verdicts.jsonl'} and the log in {run_dir / 'gym'}; mend the"
            " verifier, or what is expected of it",
        )


if __name__ == "__main__":
    sys.exit(main())
