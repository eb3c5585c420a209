"""Runs beside each other and after each other."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from unit.chaos.tree import FAR_S, title

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.chaos.tree import Session, Training


def test_two_main_jobs_at_once_pass_on_ports_and_clusters_of_their_own(
    noxw: Callable[[], Session],
) -> None:
    sessions = [noxw(), noxw()]
    for session in sessions:
        session.until("start_policy")
    servers = [title(each) for each in sessions[0].all() if "gcs_server" in title(each)]

    codes = [session.wait(2 * FAR_S) for session in sessions]

    assert codes == [0, 0], "\n".join(session.printed() for session in sessions)
    for session in sessions:
        session.nothing_is_left()
    assert len({session.run_folder() for session in sessions}) == 2
    # Both sessions' processes are below this test, so either sees the clusters of both.
    clusters = [re.findall(r"--session-name=(\S+)", words) for words in servers]
    assert len({name for (name,) in clusters}) == 2
    one, other = (ports(session) for session in sessions)
    assert len(one) == len(other) == 5
    assert not one & other


def ports(session: Session) -> set[int]:
    """The ports of a run's engines and Gym servers."""
    path = session.item_folder() / "gym" / "gym-config.json"
    text = path.read_text(encoding="utf-8")
    configuration = json.loads(text)
    found = {int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)/v1", text)}
    for kinds in configuration.values():
        for implementations in kinds.values():
            if isinstance(implementations, dict):
                found |= {server["port"] for server in implementations.values()}
    return found


def test_two_runs_of_one_head_give_the_same_numbers_to_the_bit(
    train: Callable[..., Training],
) -> None:
    seen = []
    for _ in range(2):
        run = train()
        assert run.wait(FAR_S) == 0, run.printed()
        run.nothing_is_left()
        samples = (run.folder / "samples.jsonl").read_text(encoding="utf-8")
        seen.append(([untimed(line) for line in run.metrics()], samples))

    assert seen[0] == seen[1]
    ((metrics,), samples) = seen[0]
    assert metrics["train/reward/mean"] == 0.5
    assert samples.count("\n") == 2


def untimed(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if not name.startswith("timing/")}
