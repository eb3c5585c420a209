"""Refit as a ratio to the slowest link that it needs, for the tiny model and for a larger one.

    PYTHONPATH=. PYTHON bench/step_refit.py --generation PYTHON [--megabytes 200] [--refits 10]

where the first PYTHON is the `policy` worker's. A refit is what the controller does after a step:
gather the ranks' shards, digest them, send them through shared memory, have one engine load them,
read its live weights back, digest those and compare. The links are measured alone, on as many
bytes: a copy in memory, a write to and a read from shared memory, and SHA-256. None of them can be
left out; the refit needs some of them more than once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import step_work as work
from bench.step_stack import Pythons, Stack, make_recipe, stack
from posttrain.model.revision import content_revision
from posttrain.refit.acknowledgement import check_acknowledgements
from posttrain.starting import refit_request

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a link that is measured
# Four bytes a weight; a layer of this width has 12.8 million of them.
WIDTH, INNER, HEADS = 1024, 2816, 16
LAYER_MB = 4 * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER) / 1e6


def make_model(folder: Path, megabytes: float) -> None:
    """Write a Llama of about that size with random weights and the tiny model's tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from posttrain.model.load import load_tokenizer

    torch.manual_seed(0)
    config = LlamaConfig.from_pretrained(work.MODEL)
    config.hidden_size, config.intermediate_size = WIDTH, INNER
    config.num_attention_heads = config.num_key_value_heads = HEADS
    config.head_dim = WIDTH // HEADS
    config.num_hidden_layers = max(1, round(megabytes / LAYER_MB))
    LlamaForCausalLM(config).save_pretrained(folder)
    load_tokenizer(work.MODEL).save_pretrained(folder)


def median(call: Callable[[], object], times: int) -> float:
    """Median seconds of ``times`` calls, after one that is not counted."""
    call()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def links(size: int, times: int) -> dict[str, float]:
    """Seconds that each link takes for ``size`` bytes."""
    source = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    target = np.empty_like(source)
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        path = Path(folder) / "bytes"

        def read() -> None:
            with path.open("rb") as file:
                file.readinto(target.data)

        return {
            "copy": median(lambda: np.copyto(target, source), times),
            "shared memory write": median(lambda: path.write_bytes(source.data), times),
            "shared memory read": median(read, times),
            "sha256": median(lambda: hashlib.sha256(source.data).digest(), times),
        }


def refits(running: Stack, times: int) -> dict[str, Any]:
    """Median seconds of a proven refit and of its parts, and the bytes that it moved."""
    parts: dict[str, list[float]] = {
        "gather and digest": [],
        "send, load and prove": [],
        "refit": [],
    }
    size = 0
    engines = running.generation
    for version in range(1, times + 2):
        started = time.perf_counter()
        request = refit_request(running.recipe, engines.receivers, version)
        offer = running.policy.offer_weights(request)
        offered = time.perf_counter()
        with running.policy.sending():
            answers = engines.refit(offer)
        check_acknowledgements(answers, engines.names, offer.names, offer.checksum, version)
        ended = time.perf_counter()
        size = offer.nbytes
        if version > 1:
            parts["gather and digest"].append(offered - started)
            parts["send, load and prove"].append(ended - offered)
            parts["refit"].append(ended - started)
    return {"bytes": size, **{name: statistics.median(each) for name, each in parts.items()}}


def measure(pythons: Pythons, megabytes: float | None, times: int) -> dict[str, Any]:
    """Measure one model: the tiny one, or a larger one that is made for it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, more = Path(temporary), []
        if megabytes is not None:
            make_model(folder / "model", megabytes)
            revision = content_revision(folder / "model")
            more = [f"model.path={folder / 'model'}", f"model.revision={revision}"]
        recipe = make_recipe(pythons, work.Size(2, 1, 1), folder / "run", *more)
        with stack(recipe) as running:
            taken = refits(running, times)
    alone = links(taken["bytes"], times)
    slowest = max(alone, key=lambda name: alone[name])
    return {
        "megabytes": taken.pop("bytes") / 1e6,
        **taken,
        **alone,
        "slowest": slowest,
        "ratio": taken["refit"] / alone[slowest],
    }


def main() -> None:
    """Print one JSON object a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--generation", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, help="of a larger model; else the tiny one")
    parser.add_argument("--refits", type=int, default=10)
    options = parser.parse_args()
    policy = Path(sys.executable)
    # No Gym server is started here; any interpreter does.
    pythons = Pythons(policy, options.generation, policy)
    print(json.dumps(measure(pythons, options.megabytes, options.refits)))


if __name__ == "__main__":
    main()
