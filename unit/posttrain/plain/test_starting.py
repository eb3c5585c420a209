"""Every value of a recipe arrives where it decides something."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from posttrain.config import Recipe, load_recipe
from posttrain.generation.settings import engine_environment
from posttrain.policy.group import rank_environment
from posttrain.policy.schedule import Schedule
from posttrain.starting import engine_settings, gym_config, policy_options

ROOT = Path(__file__).parents[3]
MODEL = Path("/models/resolved")


def recipe(*overrides: str) -> Recipe:
    given = ["run.dir=r", *(f"interpreters.{kind}=p" for kind in ("policy", "generation", "gym"))]
    path = ROOT / "functional" / "recipes" / "gym_training.yaml"
    return load_recipe(path, [*given, *overrides]).recipe


def started_with(*overrides: str) -> dict[str, Any]:
    """What engines, Gym and ranks are started with, by dotted name."""
    loaded = recipe("generation.ports=[8101, 8102]", *overrides)
    engines = engine_settings(loaded, MODEL)
    gym, policy = gym_config(loaded, engines), policy_options(loaded, MODEL)
    found = {f"engine.{name}": value for name, value in vars(engines[0]).items()}
    found |= {f"policy.{name}": value for name, value in vars(policy).items()}
    found |= {f"sampling.{name}": value for name, value in gym.sampling.items()}
    return found | {"engines": len(engines), "gym.urls": gym.engine_urls}


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("run.seed=7", {"engine.seed": 7, "policy.seed": 7}),
        ("policy.ranks=1", {"policy.ranks": 1}),
        ("policy.dtype=bfloat16", {"engine.dtype": "bfloat16", "policy.dtype": "bfloat16"}),
        ("policy.lr=0.5", {"policy.learning_rate": 0.5}),
        ("policy.optimizer.betas=[0.1, 0.2]", {"policy.betas": (0.1, 0.2)}),
        ("policy.optimizer.eps=0.5", {"policy.adam_epsilon": 0.5}),
        ("policy.optimizer.weight_decay=0.5", {"policy.weight_decay": 0.5}),
        ("policy.max_grad_norm=0.5", {"policy.max_grad_norm": 0.5}),
        ("policy.micro_batch_size=3", {"policy.micro_batch_size": 3}),
        ("policy.threads=3", {"policy.threads": 3}),
        ("policy.clip.low=0.5", {"policy.clip_low": 0.5}),
        ("policy.clip.high=0.5", {"policy.clip_high": 0.5}),
        ("generation.tensor_parallel=2", {"engine.tensor_parallel": 2}),
        ("policy.logprobs=fused", {"policy.logprobs": "fused"}),
        ("policy.logprobs_chunk=3", {"policy.logprobs_chunk": 3}),
        ("generation.temperature=0.5", {"sampling.temperature": 0.5}),
        ("generation.top_p=0.5", {"sampling.top_p": 0.5}),
        ("generation.top_k=3", {"sampling.top_k": 3}),
        ("generation.max_new_tokens=5", {"sampling.max_tokens": 5}),
        ("generation.max_model_len=99", {"engine.max_model_len": 99}),
        ("generation.kv_cache_mb=3", {"engine.kv_cache_bytes": 3 << 20}),
        ("generation.block_size=64", {"engine.block_size": 64}),
        ("generation.threads=3", {"engine.threads": 3}),
        (
            "generation.ports=[8103, 8104]",
            {
                "engine.port": 8103,
                "gym.urls": ("http://127.0.0.1:8103/v1", "http://127.0.0.1:8104/v1"),
            },
        ),
        ("rollouts.concurrency=5", {"engine.max_num_seqs": 5}),
        ("timeouts.start_s=5", {"policy.start_timeout_s": 5}),
        ("timeouts.train_s=70", {"policy.collective_timeout_s": 70}),
        ("timeouts.checkpoint_s=80", {"policy.collective_timeout_s": 80}),
        ("timeouts.train_s=5", {}),  # a rank may still need longer for a checkpoint
        (
            "policy.schedule={kind: linear, warmup_steps: 2, steps: 9, final: 0.5}",
            {"policy.schedule": Schedule("linear", 2, 9, 0.5)},
        ),
        (
            "cluster.accelerators=2",
            {"policy.device": "cuda", "engine.sleep_mode": True},
        ),
    ],
)
def test_a_key_changes_what_is_started_and_nothing_else(
    override: str, changed: dict[str, Any]
) -> None:
    before, after = started_with(), started_with(override)
    assert {name: after[name] for name in after if after[name] != before[name]} == changed


def test_policy_and_engines_load_the_one_resolved_folder() -> None:
    found = started_with()
    assert (found["engine.model"], found["policy.model"]) == (str(MODEL), MODEL)


def test_without_ports_every_engine_gets_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXACTHEAD_PORTS", raising=False)
    ports = {settings.port for settings in engine_settings(recipe(), MODEL)}
    assert len(ports) == 2
    assert 0 not in ports


def test_rollouts_are_not_all_given_one_seed() -> None:
    loaded = recipe("generation.temperature=1.0")
    assert "seed" not in gym_config(loaded, engine_settings(loaded, MODEL)).sampling


def test_threads_are_set_on_purpose_in_every_process() -> None:
    assert rank_environment(3)["OMP_NUM_THREADS"] == "3"
    assert engine_environment(3)["OMP_NUM_THREADS"] == "3"
    assert engine_environment()["OMP_NUM_THREADS"] == "1"
    # Nothing of it is set behind the driver's back.
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") is None
