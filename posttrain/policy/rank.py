"""One FSDP2 rank of the policy: a shard of the weights and of AdamW's state."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh

from posttrain.checksum import state_checksum
from posttrain.errors import StackError
from posttrain.model.load import load_model
from posttrain.policy.batch import Placed, batches, passes, split
from posttrain.policy.inputs import check_inputs
from posttrain.policy.loss import Clip, clipped_policy_loss
from posttrain.policy.optimizer import make_optimizer
from posttrain.policy.reference import load_reference
from posttrain.policy.rendezvous import make_store, meet
from posttrain.policy.schedule import advance
from posttrain.policy.scoring import make_scorer
from posttrain.policy.sharding import shard
from posttrain.policy.state import load_state, save_state
from posttrain.refit.dispatch import Dispatch
from posttrain.sampling import one_a_sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from transformers import PreTrainedModel

    from posttrain.checkpoint.manifest import Saved
    from posttrain.policy.options import PolicyOptions
    from posttrain.refit.offer import Offer, Request
    from posttrain.sample import Sample
    from posttrain.sampling import Drawn

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


@dataclass(frozen=True)
class _Totals:
    """What the ranks add up: the loss, tokens held by the clip and tokens outside the filters."""

    loss: float
    clipped: float
    outside: float


class PolicyRank:
    """A rank. Every public method but `listen` is collective: all ranks call it, in one order.

    Args:
        options: the policy's settings.
        rank: this rank's number, from 0.
    """

    def __init__(self, options: PolicyOptions, rank: int) -> None:
        self.options = options
        self.rank = rank
        self._steps = 0
        self.dtype = getattr(torch, options.dtype)
        self.device = torch.device("cpu" if options.device == "cpu" else "cuda:0")
        self._store: dist.Store | None = None
        self._dispatch = Dispatch()
        torch.set_num_threads(options.threads)
        torch.manual_seed(options.seed)
        torch.use_deterministic_algorithms(mode=True)

    def listen(self) -> int:
        """Serve the rendezvous on a free port of rank 0's machine, and return the port.

        The port is bound before its number is known to anyone, so that it cannot be in use.
        """
        self._store = make_store(self.options, port=0, serve=True)
        return int(self._store.port)

    def start(self, port: int) -> None:
        """Join the process group through rank 0's `port`, load the model and divide it.

        Raises:
            ModelError: the model's folder holds other weights than its architecture has, or
                `logprobs` names a path that cannot score with it.
        """
        if self.options.host == "127.0.0.1":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # needs no resolvable host name
        if self._store is None:
            self._store = make_store(self.options, port=port, serve=False)
        model = load_model(self.options.model).to(self.device)
        frozen = load_reference(self.options.model, self.device) if self.options.reference else None
        self._scorer = make_scorer(self.options.logprobs, self.options.logprobs_chunk, model)
        meet(self.options, self.rank, self._store)
        dist.init_process_group(
            BACKENDS[self.options.device],
            store=self._store,
            rank=self.rank,
            world_size=self.options.ranks,
            timeout=timedelta(seconds=self.options.collective_timeout_s),
        )
        mesh = init_device_mesh(self.options.device, (self.options.ranks,))
        attach = self._scorer.attach
        self.model = attach(shard(model, mesh, self.dtype))
        self.reference = attach(shard(frozen, mesh, self.dtype)) if frozen else None
        self.optimizer, self.scheduler = make_optimizer(self.model.parameters(), self.options)
        # Counted by the optimizer, not by whoever claims to have called it.
        self.optimizer.register_step_post_hook(self._count_step)

    def _count_step(self, *_: Any) -> None:
        self._steps += 1

    def logprobs(self, samples: Sequence[Sample], drawn_from: Drawn) -> list[list[float]]:
        """Recompute the completion tokens' log-probabilities of this rank's part of `samples`.

        Args:
            samples: all ranks' samples.
            drawn_from: what their completion tokens were drawn from, or one for each sample.

        Returns:
            One list a sample of this rank's part, one value a completion token.

        Raises:
            RecipeError: the path `logprobs` of the options cannot score such tokens.
        """
        return self._score(self.model, samples, drawn_from)

    def reference_logprobs(self, samples: Sequence[Sample], drawn_from: Drawn) -> list[list[float]]:
        """The same as `logprobs` by the frozen reference, that is by the start weights.

        Raises:
            StackError: the options ask for no reference.
        """
        if self.reference is None:
            raise StackError(
                asked="log-probabilities by the reference policy",
                found="ranks that were started without one",
                todo="start them with the option reference=True",
            )
        values = self._score(self.reference, samples, drawn_from)
        # Its outermost parameters stay whole until a backward pass, which never comes.
        self.reference.reshard()
        return values

    def train_step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Sequence[float]],
        old_logprobs: Sequence[Sequence[float]],
        drawn_from: Drawn,
    ) -> dict[str, float]:
        """Take exactly one AdamW step on all ranks' samples, or none at all and raise.

        Args:
            samples: all ranks' samples, at least one.
            advantages: one a completion token.
            old_logprobs: the policy's log-probabilities before the step, one a completion token.
            drawn_from: what the completion tokens were drawn from, or one for each sample.

        Returns:
            The same on all ranks: `loss`, `grad_norm` (before clipping), `lr`, `clip_fraction`
            (of tokens), `optimizer_steps` (during this call, as the optimizer's own hook counted
            them), `completion_tokens` and `tokens_outside_filters` (both of all ranks).

        Raises:
            StackError: the inputs do not belong together, or loss or gradients are not finite;
                weights and optimizer state are then what they were.
        """
        check_inputs(samples, advantages, old_logprobs)
        tokens = sum(len(sample.completion_ids) for sample in samples)
        steps_before = self._steps
        self.optimizer.zero_grad()
        totals = self._backward(samples, advantages, old_logprobs, drawn_from, tokens)
        norm = self._clip_gradients()
        if not (math.isfinite(totals.loss) and math.isfinite(norm)):
            self.optimizer.zero_grad()
            raise StackError(
                asked="an optimizer step with finite loss and gradients",
                found=f"loss {totals.loss}, gradient norm {norm}; no step was taken",
                todo="look at the samples' log-probabilities and advantages of this step",
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {
            "loss": totals.loss,
            "grad_norm": norm,
            "lr": advance(self.scheduler),
            "clip_fraction": totals.clipped / tokens,
            "optimizer_steps": self._steps - steps_before,
            "completion_tokens": tokens,
            "tokens_outside_filters": int(totals.outside),
        }

    def checksum(self) -> str:
        """Return the checksum of the whole model on rank 0, an empty text on the others."""
        state = self._full_state()
        return state_checksum(state.items()) if self.rank == 0 else ""

    def offer_weights(self, request: Request) -> Offer | None:
        """Gather the whole model on rank 0 and make it ready to be sent: see `Dispatch.offer`."""
        state = self._full_state()
        return self._dispatch.offer(state, request) if self.rank == 0 else None

    def send_weights(self) -> None:
        """Let rank 0 send what it offered: see `Dispatch.send`; not collective."""
        if self.rank == 0:
            self._dispatch.send()

    def save_checkpoint(self, folder: Path) -> Saved:
        """Write what a later run needs to go on: see `posttrain.policy.state`."""
        return save_state(folder, self.model, self.optimizer, self.scheduler)

    def load_checkpoint(self, folder: Path) -> int:
        """Go on where another run was; returns the steps it had taken: see `save_checkpoint`."""
        return load_state(folder, self.model, self.optimizer, self.scheduler)

    def to_host(self) -> None:
        """Hand the accelerator's memory over to a colocated engine: keep everything on the host.

        Where the policy computes on the host there is nothing to hand over, and this does nothing.
        """
        self._move(torch.device("cpu"))

    def to_device(self) -> None:
        """Take the accelerator's memory back after `to_host`."""
        self._move(self.device)

    def shutdown(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()
        self._store = None

    def _score(
        self, model: PreTrainedModel, samples: Sequence[Sample], drawn_from: Drawn
    ) -> list[list[float]]:
        collected: list[list[float]] = []
        with torch.no_grad():
            for part, batch in self._batches(samples, drawn_from):
                collected += batch.collect(self._scorer(model, batch).logprobs)[: len(part)]
        return collected

    def _batches(self, samples: Sequence[Sample], drawn_from: Drawn) -> Iterator[Placed]:
        each = one_a_sample(drawn_from, len(samples))
        self._scorer.path.check(each)  # of all ranks' samples, so that all ranks refuse alike
        mine = split(len(samples), self.options.ranks)[self.rank]
        parts = passes(mine, len(samples), self.options.ranks, self.options.micro_batch_size)
        return batches(samples, each, parts, self.device)

    def _backward(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Sequence[float]],
        old_logprobs: Sequence[Sequence[float]],
        drawn_from: Drawn,
        tokens: int,
    ) -> _Totals:
        """Accumulate the gradients of all passes and add the ranks' figures up."""
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for part, batch in self._batches(samples, drawn_from):
            scores = self._scorer(self.model, batch)
            loss = clipped_policy_loss(
                scores.logprobs,
                batch.spread([old_logprobs[index] for index in part]),
                batch.spread([advantages[index] for index in part]),
                batch.mask,
                Clip(self.options.clip_low, self.options.clip_high),
            )
            share = loss.total / tokens
            # FSDP2 divides the summed gradients by the number of ranks.
            (share * self.options.ranks).backward()
            sums += torch.stack([share.detach(), loss.clipped, scores.outside]).to(sums)
        dist.all_reduce(sums)
        return _Totals(*sums.tolist())

    def _clip_gradients(self) -> float:
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.max_grad_norm)
        return float(norm.full_tensor())

    def _full_state(self) -> dict[str, torch.Tensor]:
        """Gather the whole model in host memory of rank 0, with its checkpoint's names."""
        state: dict[str, Any] = get_model_state_dict(
            self.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
        )
        # A checkpoint holds weights that share memory once, under the name they are tied to.
        tied = self.model.all_tied_weights_keys
        return {name: tensor.to(self.dtype) for name, tensor in state.items() if name not in tied}

    def _move(self, device: torch.device) -> None:
        if self.device.type == "cpu":
            return
        self.model.to(device)
        if self.reference is not None:
            self.reference.to(device)
        for state in self.optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, torch.Tensor):
                    state[name] = value.to(device)
        torch.cuda.empty_cache()
