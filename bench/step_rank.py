"""One FSDP2 rank of the floor: log-probabilities, clipped loss, AdamW, and the full state."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench import step_work as work

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import torch


@dataclass(frozen=True)
class Share:
    """A rank's part of a step.

    Attributes:
        sequences: prompt and completion of each rollout, all equally long.
        prompt: tokens of a prompt.
        advantages: one a rollout.
        tokens: completion tokens of all ranks together.
        path: where rank 0 writes the weights after the step.
    """

    sequences: list[list[int]]
    prompt: int
    advantages: list[float]
    tokens: int
    path: str


class Rank:
    """A shard of the model and of AdamW's state."""

    def __init__(self, rank: int, port: int) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from transformers import AutoModelForCausalLM

        self.rank = rank
        torch.set_num_threads(work.THREADS)
        dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=work.RANKS
        )
        model = AutoModelForCausalLM.from_pretrained(
            work.MODEL, dtype=torch.float32, attn_implementation="sdpa"
        )
        mesh = init_device_mesh("cpu", (work.RANKS,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        self.model = fully_shard(model, mesh=mesh).eval()
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=work.LEARNING_RATE,
            betas=work.BETAS,
            eps=work.ADAM_EPSILON,
            weight_decay=0.0,
        )

    def step(self, share: Share) -> float:
        """Take one optimizer step, and write the whole model; this rank's part of the loss."""
        import torch
        from safetensors.torch import save_file
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        ids = torch.tensor(share.sequences)
        advantages = torch.tensor(share.advantages).unsqueeze(-1)
        with torch.no_grad():
            old = self._logprobs(ids, share.prompt)
        self.optimizer.zero_grad()
        ratio = (self._logprobs(ids, share.prompt) - old).exp()
        held = ratio.clamp(1 - work.CLIP, 1 + work.CLIP)
        loss = -torch.minimum(ratio * advantages, held * advantages).sum() / share.tokens
        # FSDP2 divides the summed gradients by the number of ranks.
        (loss * work.RANKS).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), work.MAX_GRAD_NORM)
        self.optimizer.step()
        state: dict[str, Any] = get_model_state_dict(
            self.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
        )
        if self.rank == 0:
            save_file(state, share.path)
        return float(loss.detach())

    def _logprobs(self, ids: torch.Tensor, prompt: int) -> torch.Tensor:
        """Log-probabilities of the completion tokens, shape (sequences, new tokens)."""
        logits = self.model(ids, use_cache=False).logits[:, :-1] / work.TEMPERATURE
        chosen = logits.log_softmax(dim=-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        return chosen[:, prompt - 1 :]


def serve(rank: int, port: int, connection: Connection) -> None:
    """A rank's process: answer each share with this rank's part of the loss, until None comes."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    own = Rank(rank, port)
    connection.send(None)
    while (share := connection.recv()) is not None:
        connection.send(own.step(share))
