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
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from posttrain.checksum import state_checksum
from posttrain.errors import StackError
from posttrain.model.load import load_model
from posttrain.policy.batch import Batch, make_batch, passes, split
from posttrain.policy.logprobs import token_logprobs
from posttrain.policy.loss import Clip, clipped_policy_loss
from posttrain.policy.parity import token_mult_prob_error
from posttrain.refit.transport import publish

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.policy.options import PolicyOptions
    from posttrain.sample import Sample

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


@dataclass(frozen=True)
class _Totals:
    """What the ranks add up after their passes: the loss, and tokens held by the clip."""

    loss: float
    clipped: float


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
        torch.set_num_threads(options.threads)
        torch.manual_seed(options.seed)
        torch.use_deterministic_algorithms(mode=True)

    def listen(self) -> int:
        """Serve the rendezvous on a free port of rank 0's machine, and return the port.

        The port is bound before its number is known to anyone, so that it cannot be in use.
        """
        self._store = self._make_store(port=0, serve=True)
        return int(self._store.port)

    def start(self, port: int) -> None:
        """Join the process group through rank 0's `port`, load the model and divide it.

        Raises:
            ModelError: the model's folder holds other weights than its architecture has.
        """
        if self.options.host == "127.0.0.1":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # needs no resolvable host name
        if self._store is None:
            self._store = self._make_store(port=port, serve=False)
        model = load_model(self.options.model).to(self.device)
        self._meet(self._store)
        dist.init_process_group(
            BACKENDS[self.options.device],
            store=self._store,
            rank=self.rank,
            world_size=self.options.ranks,
            timeout=timedelta(seconds=self.options.collective_timeout_s),
        )
        self.model = model
        mesh = init_device_mesh(self.options.device, (self.options.ranks,))
        precision = MixedPrecisionPolicy(param_dtype=self.dtype, reduce_dtype=torch.float32)
        for layer in self.model.base_model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=precision)
        fully_shard(self.model, mesh=mesh, mp_policy=precision)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=self.options.learning_rate,
            betas=self.options.betas,
            eps=self.options.adam_epsilon,
            weight_decay=self.options.weight_decay,
        )
        # Counted by the optimizer, not by whoever claims to have called it.
        self.optimizer.register_step_post_hook(self._count_step)

    def _count_step(self, *_: Any) -> None:
        self._steps += 1

    def logprobs(self, samples: Sequence[Sample], temperature: float) -> list[list[float]]:
        """Recompute the completion tokens' log-probabilities of this rank's part of `samples`.

        Args:
            samples: all ranks' samples.
            temperature: the temperature at which they were generated.

        Returns:
            One list a sample of this rank's part, one value a completion token.
        """
        collected: list[list[float]] = []
        with torch.no_grad():
            for part in self._passes(len(samples)):
                batch = make_batch([samples[index] for index in part], self.device)
                values = self._forward(batch, temperature)
                collected += batch.collect(values)[: len(part)]
        return collected

    def train_step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[float],
        old_logprobs: Sequence[Sequence[float]],
        temperature: float,
    ) -> dict[str, float]:
        """Take exactly one AdamW step on all ranks' samples, or none at all and raise.

        Args:
            samples: all ranks' samples, at least one.
            advantages: one a sample.
            old_logprobs: the policy's log-probabilities before the step, one a completion token.
            temperature: the temperature at which the samples were generated.

        Returns:
            The same on all ranks: `loss`, `grad_norm` (before clipping), `lr`, `clip_fraction`
            (of tokens), `token_mult_prob_error` (generation against `old_logprobs`),
            `optimizer_steps` (during this call, as the optimizer's own hook counted them) and
            `completion_tokens` (of all ranks).

        Raises:
            StackError: the inputs do not belong together, or loss or gradients are not finite;
                weights and optimizer state are then what they were.
        """
        _check_inputs(samples, advantages, old_logprobs)
        tokens = sum(len(sample.completion_ids) for sample in samples)
        steps_before = self._steps
        self.optimizer.zero_grad()
        totals = self._backward(samples, advantages, old_logprobs, temperature, tokens)
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
            "lr": float(self.optimizer.param_groups[0]["lr"]),
            "clip_fraction": totals.clipped / tokens,
            "token_mult_prob_error": token_mult_prob_error(
                [sample.logprobs for sample in samples], old_logprobs
            ),
            "optimizer_steps": self._steps - steps_before,
            "completion_tokens": tokens,
        }

    def checksum(self) -> str:
        """Return the checksum of the whole model on rank 0, an empty text on the others."""
        state = self._full_state()
        return state_checksum(state.items()) if self.rank == 0 else ""

    def publish_state(self, path: Path) -> list[str]:
        """Let rank 0 write the whole model to `path` as safetensors, complete or not at all.

        Returns:
            The sorted names of the tensors on rank 0, an empty list on the others.

        Raises:
            StackError: the file system is too full, or refuses the file.
        """
        state = self._full_state()
        if self.rank != 0:
            return []
        return publish(state, path)

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

    def _make_store(self, *, port: int, serve: bool) -> dist.TCPStore:
        return dist.TCPStore(
            self.options.host,
            port,
            self.options.ranks,
            is_master=serve,
            wait_for_workers=False,
            timeout=timedelta(seconds=self.options.start_timeout_s),
        )

    def _meet(self, store: dist.Store) -> None:
        """Wait until every rank has imported and loaded: a collective's patience is shorter."""
        names = [f"loaded/{rank}" for rank in range(self.options.ranks)]
        store.set(names[self.rank], "")
        store.wait(names, timedelta(seconds=self.options.start_timeout_s))

    def _passes(self, count: int) -> list[range]:
        mine = split(count, self.options.ranks)[self.rank]
        return passes(mine, count, self.options.ranks, self.options.micro_batch_size)

    def _forward(self, batch: Batch, temperature: float) -> torch.Tensor:
        logits = self.model(batch.input_ids, use_cache=False).logits[:, :-1]
        return token_logprobs(logits, batch.targets, temperature)

    def _backward(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[float],
        old_logprobs: Sequence[Sequence[float]],
        temperature: float,
        tokens: int,
    ) -> _Totals:
        """Accumulate the gradients of all passes and add the ranks' figures up."""
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for part in self._passes(len(samples)):
            batch = make_batch([samples[index] for index in part], self.device)
            weights = [advantages[index] for index in part] or [0.0]
            loss = clipped_policy_loss(
                self._forward(batch, temperature),
                batch.spread([old_logprobs[index] for index in part]),
                torch.tensor(weights, dtype=torch.float32, device=self.device),
                batch.mask,
                Clip(self.options.clip_low, self.options.clip_high),
            )
            share = loss.total / tokens
            # FSDP2 divides the summed gradients by the number of ranks.
            (share * self.options.ranks).backward()
            sums += torch.stack([share.detach(), loss.clipped]).to(sums)
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
        for state in self.optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, torch.Tensor):
                    state[name] = value.to(device)
        torch.cuda.empty_cache()


def _check_inputs(
    samples: Sequence[Sample], advantages: Sequence[float], old_logprobs: Sequence[Sequence[float]]
) -> None:
    lengths = [len(sample.completion_ids) for sample in samples]
    if not samples or len(advantages) != len(samples) or lengths != list(map(len, old_logprobs)):
        raise StackError(
            asked="samples with one advantage each and one old log-probability a completion token",
            found=f"{len(samples)} samples with {lengths} completion tokens, {len(advantages)}"
            f" advantages and {list(map(len, old_logprobs))} old log-probabilities",
            todo="pass the log-probabilities recomputed from these very samples",
        )
