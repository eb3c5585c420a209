"""Save and restore in a run: the ranks' state, the dataset's position and the step, as one."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.checkpoint.cut import cut_results
from posttrain.checkpoint.identity import identity
from posttrain.checkpoint.manifest import CheckpointError, Manifest
from posttrain.checkpoint.resume import Start, find_start
from posttrain.checkpoint.store import CheckpointStore
from posttrain.dataset import Position
from posttrain.disk import writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posttrain.config import TrainRecipe
    from posttrain.data import Row
    from posttrain.dataset import Prompts
    from posttrain.policy.group import PolicyGroup

STATE = "policy"


def plan_checkpoints(recipe: TrainRecipe, rows: Sequence[Row]) -> Checkpoints:
    """Find out where a run begins, before anything is started.

    Args:
        recipe: the recipe.
        rows: what it trains on.

    Raises:
        CheckpointError: see ``find_start``.
    """
    own, about = recipe.checkpoint, identity(recipe, rows)
    store = CheckpointStore(Path(own.dir).resolve())
    start = Start() if not (own.every or own.resume) else find_start(store, own.resume, about)
    return Checkpoints(store, start, about, own.every or 0, own.keep, recipe.run.steps)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run.

    Attributes:
        store: where they are.
        start: where the run begins.
        identity: what a run must agree with to go on from them.
        every: steps from one to the next, besides the one after the last step; 0 for none at all.
        keep: how many of them stay; None for all.
        last_step: the run's last step.
        damaged: steps whose checkpoints are known to be damaged, until they are written again.
    """

    store: CheckpointStore
    start: Start
    identity: Mapping[str, Any] = field(default_factory=dict)
    every: int = 0
    keep: int | None = None
    last_step: int = 0
    damaged: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.damaged.update(step for step, _ in self.start.damaged)

    @contextmanager
    def opened(self, run_dir: Path) -> Iterator[int | None]:
        """Hold the folder while the run lasts, and leave of its results only what stays true.

        Args:
            run_dir: the run's folder.

        Yields:
            The step after which the results that are there go on, None for a new run.

        Raises:
            StackError: another run writes there, or the disk refuses.
        """
        if not (self.every or self.start.folder or self.start.continues):
            yield None
            return
        with ExitStack() as held:
            with writing("checkpoints", self.store.folder):
                held.enter_context(self.store.held())
            if self.start.continues:
                with writing("results", run_dir):
                    cut_results(run_dir, self.start.step)
            yield self.start.step if self.start.continues else None

    def due(self, step: int) -> bool:
        """Whether one is to be written after a step."""
        return bool(self.every) and (step % self.every == 0 or step == self.last_step)

    def restore(self, policy: PolicyGroup, prompts: Prompts) -> None:
        """Bring ranks and dataset to where the run goes on, if it goes on from somewhere.

        Raises:
            CheckpointError: what the ranks hold then is not what the checkpoint is of.
        """
        folder, manifest = self.start.folder, self.start.manifest
        if folder is None or manifest is None:
            return
        step = policy.load_checkpoint(folder / STATE)
        weights = policy.checksum()
        if (step, weights) != (manifest.step, manifest.weights):
            raise CheckpointError(
                f"the policy of step {manifest.step} with weights {manifest.weights}",
                f"ranks at step {step} with weights {weights} after loading {folder}",
                "go on from an earlier checkpoint",
            )
        prompts.resume(Position(**{**manifest.position, "late": tuple(manifest.position["late"])}))

    def save(self, step: int, weights: str, policy: PolicyGroup, prompts: Prompts) -> None:
        """Write the checkpoint of a step, and remove those that are not kept any more.

        Args:
            step: the step that was taken.
            weights: checksum of the policy's weights.
            policy: the ranks.
            prompts: the dataset.

        Raises:
            StackError: it could not be written; those before it are what they were.
        """
        with writing(f"checkpoint {step}", self.store.folder):
            with self.store.writing(step) as partial:
                (partial / STATE).mkdir()
                saved = policy.save_checkpoint(partial / STATE)
                manifest = Manifest(
                    step=step,
                    weights=weights,
                    position=asdict(prompts.position),
                    identity=self.identity,
                    versions=saved.versions,
                    files={f"{STATE}/{name}": it for name, it in saved.files.items()},
                )
                self.store.publish(partial, manifest)
            self.damaged.discard(step)
            self.store.prune(step, self.keep, self.damaged)
