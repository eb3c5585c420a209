"""From the legs of a job to items of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.errors import HarnessError, nearest
from exacthead.plan import Item

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.config import Harness
    from exacthead.tables import Job


def leg_items(harness: Harness, job_name: str, legs: Iterable[str] = ()) -> tuple[Item, ...]:
    """The legs of a job (all, or the named ones) in the order that harness.toml gives.

    That its files are there is preflight's to say.

    Raises:
        HarnessError: an unknown job or leg.
    """
    job = harness.job(job_name)
    named = tuple(dict.fromkeys(legs))
    for leg in named:
        if leg not in job.legs:
            raise HarnessError(
                f"leg {leg!r} of job {job_name!r}", "no such leg", nearest(leg, job.legs)
            )
    return tuple(
        Item(
            id=f"{job_name}.{leg}",
            kind="leg",
            command=("bash", job.script, leg),
            workers=job.legs[leg].workers,
            environment={**_recipe(job, leg), **job.legs[leg].environment},
            timeout_s=job.timeout_s,
            contract=job.contract_of(leg),
            network=job.network,
            cpus=job.cpus,
            memory_gb=job.memory_gb,
            accelerators=job.accelerators,
            needs=job.needs,
            secrets=job.secrets,
            required=job.required,
        )
        for leg in named or job.legs
    )


def _recipe(job: Job, leg: str) -> dict[str, str]:
    """What tells a leg's script its recipe; one override a line."""
    if not job.recipe:
        return {}
    overrides = "\n".join(job.overrides_of(leg))
    return {"EXACTHEAD_RECIPE": job.recipe, "EXACTHEAD_OVERRIDES": overrides}
