"""What a worker says after a refit, and the check that every worker said it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.errors import RefitError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

REMEDY = "don't generate with these workers; start them again from a checkpoint"


@dataclass(frozen=True)
class Acknowledgement:
    """One worker's answer to a refit. Plain Python, so that it passes between environments.

    Attributes:
        worker: the worker's name.
        ok: whether it loaded everything and serves exactly that.
        names: checkpoint names of the tensors that it loaded, sorted.
        checksum: of the live weights, read back after loading (``posttrain.checksum``).
        weight_version: the version that its answers now carry.
    """

    worker: str
    ok: bool
    names: tuple[str, ...]
    checksum: str
    weight_version: int


@dataclass(frozen=True)
class Served:
    """What a worker serves. Plain Python.

    Attributes:
        version: of its weights.
        checksum: of its live weights, read back.
    """

    version: int
    checksum: str


def check_acknowledgements(
    acks: Sequence[object],
    expected_workers: Sequence[str],
    names: Collection[str],
    checksum: str,
    version: int,
) -> int:
    """Accept a refit only when each expected worker acknowledged it exactly once.

    Args:
        acks: what the workers answered; anything but an ``Acknowledgement`` is refused.
        expected_workers: the name of each worker, once.
        names: checkpoint names that the policy sent.
        checksum: of the policy's weights.
        version: of these weights, which each worker must state: the answer to an earlier refit is
            none to this one, even where the weights did not change.

    Returns:
        How many workers were updated: always ``len(expected_workers)``.

    Raises:
        RefitError: naming every problem at once.
    """
    asked = f"acknowledgements from {', '.join(expected_workers) or 'at least one worker'}"
    if not expected_workers or not acks:
        raise RefitError(
            asked,
            f"{len(acks)} acknowledgements for {len(expected_workers)} expected workers",
            "a refit needs workers, and an explicit answer from each",
        )
    valid = [ack for ack in acks if isinstance(ack, Acknowledgement)]
    problems = [
        f"{ack!r} is no acknowledgement" for ack in acks if not isinstance(ack, Acknowledgement)
    ]
    problems += _attendance(valid, expected_workers)
    for ack in valid:
        problems += _content(ack, names, checksum)
    problems += [
        f"{ack.worker} states weight version {ack.weight_version!r}, not {version}"
        for ack in valid
        if type(ack.weight_version) is not int or ack.weight_version != version
    ]
    if problems:
        raise RefitError(asked, "; ".join(problems), REMEDY)
    return len(valid)


def check_sampled_with(
    served: Mapping[str, Served],
    checksum: str,
    versions: Sequence[int | None],
    staleness: int = 0,
) -> int:
    """Accept a batch for training only when every worker sampled it with the policy's weights.

    A sample states the version that its worker had before it was generated. No version is given
    twice, and none is served again once another was: a worker that still has it has had no other
    in between. Samples of weights that the policy had ``staleness`` steps ago at most are accepted
    where the caller says so.

    Args:
        served: what each worker serves now, after the samples, by its name.
        checksum: of the policy's weights.
        versions: of the weights that generated each sample; the oldest of them, where it was more.
        staleness: how many versions a sample may be behind those that are served.

    Returns:
        The one version that is served.

    Raises:
        RefitError: naming every worker that serves other weights, every version that a sample
            should not have, or that there is no worker or no sample.
    """
    wrong = [
        f"{name} serves {each.checksum!r}"
        for name, each in served.items()
        if each.checksum != checksum
    ]
    now = {each.version for each in served.values()}
    newest = min(now, default=0)
    good = range(newest - staleness, newest + 1)
    stale = Counter(version for version in versions if version not in good or len(now) > 1)
    wrong += [
        f"{count} of {len(versions)} samples are of version {version}, the workers serve"
        f" {', '.join(map(str, sorted(now)))}"
        for version, count in stale.items()
    ]
    if wrong or not served or not checksum or not versions:
        raise RefitError(
            f"samples by generation workers that serve the policy's weights {checksum!r}",
            "; ".join(wrong) or f"{len(served)} workers, {len(versions)} samples",
            "nothing was trained; check that policy and generation load one revision in one dtype,"
            " and that only the run's controller has them refitted",
        )
    (version,) = now
    return version


def _attendance(acks: Sequence[Acknowledgement], expected: Sequence[str]) -> list[str]:
    """Say who is missing, unknown, or answered twice."""
    counts = Counter(ack.worker for ack in acks)
    problems = [f"no acknowledgement from {name}" for name in expected if name not in counts]
    problems += [f"{name} is not an expected worker" for name in counts if name not in expected]
    problems += [f"{name} answered {count} times" for name, count in counts.items() if count > 1]
    problems += [
        f"{name} is expected {count} times"
        for name, count in Counter(expected).items()
        if count > 1
    ]
    return problems


def _content(ack: Acknowledgement, names: Collection[str], checksum: str) -> list[str]:
    """Say how what ``ack`` states differs from what was sent."""
    problems = []
    if ack.ok is not True:
        problems.append(f"{ack.worker} did not load the weights (ok is {ack.ok!r})")
    loaded, sent = set(ack.names), set(names)
    if missing := sorted(sent - loaded):
        problems.append(f"{ack.worker} did not load {', '.join(missing)}")
    if extra := sorted(loaded - sent):
        problems.append(f"{ack.worker} loaded {', '.join(extra)}, which was not sent")
    if twice := sorted(name for name, count in Counter(ack.names).items() if count > 1):
        problems.append(f"{ack.worker} loaded {', '.join(twice)} more than once")
    if not sent:
        problems.append("no names were sent")
    if ack.checksum != checksum or not checksum:
        problems.append(f"{ack.worker} serves {ack.checksum!r}, the policy has {checksum!r}")
    return problems
