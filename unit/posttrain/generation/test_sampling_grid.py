"""Log-probabilities of a real engine and of the policy's paths mean the same, all over a grid."""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import compress, product
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams

from posttrain.environment.configure import UNSHAPED
from posttrain.errors import RecipeError
from posttrain.generation.settings import Sampling
from posttrain.generation.worker import GenerationWorker
from posttrain.model.load import load_model, load_tokenizer
from posttrain.policy.batch import make_batch
from posttrain.policy.scoring import make_scorer
from posttrain.sample import Sample
from posttrain.sampling import BACKENDS, FUSED, Distribution, Shaping, recomputed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from posttrain.generation.settings import EngineSettings

    Grid = Sequence[tuple[Shaping, Sample]]
    Exact = Sequence[Sequence[tuple[float, bool]]]

VLLM = BACKENDS["vllm"]
CPU = torch.device("cpu")
TEMPERATURES = (0.0, 1e-6, 0.005, 0.6, 1.0, 1.7)
TOP_P = (1.0, 0.9, 0.5)
TOP_K = (0, 20, 2)
TOKENS = 12
TOGETHER = 16
CALL_S = 60
# Divides the tiny model's logits, which are up to 20.
FLATTER = 60


def tolerance(drawn_from: Distribution) -> float:
    """What float32 may cost on both sides together.

    A log-probability of about -5 is rounded to 5e-7, a few times over; and logits differ by some
    1e-7, which is divided by the temperature. The worst seen was 1e-6 at temperatures from 0.6 on
    and 2e-5 at 0.01.
    """
    return 3e-6 + 5e-7 / drawn_from.divisor


def prompts(folder: Path) -> list[list[int]]:
    """A question that the model was trained on, and one that leaves it at a loss."""
    tokenizer = load_tokenizer(folder)
    message = {"role": "user", "content": "What is 2 + 2?"}
    known = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=False)
    return [known, list(range(40, 80))]


@pytest.fixture(scope="module")
def folder(
    settings: Callable[..., EngineSettings], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tiny model with logits so near each other that no temperature decides everything."""
    path = tmp_path_factory.mktemp("model")
    shutil.copytree(settings().model, path, dirs_exist_ok=True)
    weights = load_file(path / "model.safetensors")
    weights["lm_head.weight"] /= FLATTER
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return path


@pytest.fixture(scope="module")
def worker(folder: Path, settings: Callable[..., EngineSettings]) -> Iterator[GenerationWorker]:
    live = GenerationWorker("generation-0", deadline_s=CALL_S)
    try:
        live.start(settings(model=str(folder)))
        yield live
    finally:
        live.shutdown()


@pytest.fixture(scope="module")
def grid(worker: GenerationWorker, folder: Path) -> Grid:
    """What the engine generated, many kinds of requests in each of its batches."""
    asked = [
        (Shaping(temperature, top_p, top_k), prompt)
        for temperature, top_p, top_k in product(TEMPERATURES, TOP_P, TOP_K)
        for prompt in prompts(folder)
    ]

    def generate(number: int) -> tuple[Shaping, Sample]:
        shaping, prompt = asked[number]
        sampling = Sampling(
            shaping.temperature, shaping.top_p, shaping.top_k, TOKENS, seed=number, ignore_eos=True
        )
        ((ids, values),) = worker.generate([prompt], sampling)
        return shaping, Sample(number, tuple(prompt), ids, values, 0.0, truncated=True)

    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(generate, range(len(asked))))


def reference(logits: torch.Tensor, drawn_from: Distribution, token: int) -> tuple[float, bool]:
    """One token's log-probability in float64, by another way to filter than the stack's.

    The second value is whether the border of the filters is where rounding cannot move it.
    """
    scaled = logits.double() / drawn_from.divisor
    order = scaled.argsort(descending=True)
    clear = True
    if drawn_from.top_k:
        kth, next_one = scaled[order[drawn_from.top_k - 1]], scaled[order[drawn_from.top_k]]
        clear = bool(kth - next_one > tolerance(drawn_from))
        order = order[: drawn_from.top_k]
    if drawn_from.top_p < 1:
        mass = scaled[order].softmax(-1)
        before = mass.cumsum(-1) - mass
        clear = clear and float((before - drawn_from.top_p).abs().min()) > tolerance(drawn_from)
        order = order[before < drawn_from.top_p]
    return float(scaled[token] - scaled[order].logsumexp(-1)), clear


@pytest.fixture(scope="module")
def exact(folder: Path, grid: Grid) -> list[list[tuple[float, bool]]]:
    """The reference of each token of the grid."""
    model = load_model(folder).double()
    found = []
    for shaping, sample in grid:
        with torch.no_grad():
            logits = model(torch.tensor([sample.prompt_ids + sample.completion_ids])).logits[0]
        pairs = zip(logits[len(sample.prompt_ids) - 1 : -1], sample.completion_ids, strict=True)
        drawn_from = recomputed(shaping, VLLM)
        found.append([reference(row, drawn_from, token) for row, token in pairs])
    return found


def policy(
    path: str, folder: Path, grid: Grid, drawn_from: Sequence[Distribution] | None = None
) -> tuple[list[list[float]], int]:
    """What one of the policy's paths says, requests of every kind in each of its batches."""
    model = load_model(folder)
    scorer = make_scorer(path, 50, model)
    scorer.attach(model)
    values: list[list[float]] = []
    outside = 0
    each = drawn_from or [recomputed(shaping, VLLM) for shaping, _ in grid]
    for start in range(0, len(grid), TOGETHER):
        part = slice(start, start + TOGETHER)
        batch = make_batch([sample for _, sample in grid[part]], CPU, each[part])
        with torch.no_grad():
            scores = scorer(model, batch)
        values += batch.collect(scores.logprobs)
        outside += int(scores.outside)
    return values, outside


def differences(
    sample: Sample, values: Sequence[float], exact: Sequence[tuple[float, bool]]
) -> list[float]:
    """How far the values are from the engine's, where the filters' border is clear."""
    return [
        abs(own - engine)
        for own, engine, (_, clear) in zip(values, sample.logprobs, exact, strict=True)
        if clear
    ]


def worst(grid: Grid, values: Sequence[Sequence[float]], exact: Exact) -> dict[float, float]:
    """The largest difference from the engine's log-probabilities at each temperature."""
    found: dict[float, float] = defaultdict(float)
    for (shaping, sample), row, own in zip(grid, values, exact, strict=True):
        apart = max(differences(sample, row, own), default=0.0)
        found[shaping.temperature] = max(found[shaping.temperature], apart)
    return found


def limit(temperature: float) -> float:
    return tolerance(recomputed(Shaping(temperature), VLLM))


def check(name: str, grid: Grid, values: Sequence[Sequence[float]], exact: Exact) -> None:
    """Print the worst error at each temperature, and hold it to the tolerance."""
    found = worst(grid, values, exact)
    for temperature, apart in found.items():
        sys.stdout.write(
            f"vLLM against {name} at temperature {temperature:g}:"
            f" {apart:.1e} of {limit(temperature):.0e}\n"
        )
    assert all(apart <= limit(temperature) for temperature, apart in found.items())


def test_the_engine_scores_as_a_plain_forward_pass_in_float64_does(
    grid: Grid, exact: Exact
) -> None:
    assert len(grid) == len(TEMPERATURES) * len(TOP_P) * len(TOP_K) * 2
    check("transformers in float64", grid, [[value for value, _ in row] for row in exact], exact)
    unclear = sum(not clear for row in exact for _, clear in row)
    sys.stdout.write(f"{unclear} of {len(grid) * TOKENS} tokens near a filter's border\n")
    assert unclear <= len(grid) * TOKENS / 25


def test_the_plain_path_scores_as_the_engine_does_at_every_point(
    grid: Grid, folder: Path, exact: Exact
) -> None:
    values, outside = policy("plain", folder, grid)
    check("the plain path", grid, values, exact)
    assert outside <= sum(not clear for row in exact for _, clear in row)


def test_the_fused_path_scores_as_the_engine_does_where_it_is_allowed_to(
    grid: Grid, folder: Path, exact: Exact
) -> None:
    allowed = [not recomputed(shaping, VLLM).filtered for shaping, _ in grid]
    chosen = list(compress(grid, allowed))
    assert {shaping.temperature for shaping, _ in chosen} == set(TEMPERATURES)
    values, _ = policy("fused", folder, chosen)
    check("the fused path", chosen, values, list(compress(exact, allowed)))
    for (shaping, _), may in zip(grid, allowed, strict=True):
        if not may:
            with pytest.raises(RecipeError, match="by the path 'fused'"):
                FUSED.check([recomputed(shaping, VLLM)])


@pytest.mark.parametrize(
    ("mistake", "noticed"),
    [
        # Temperatures as the recipe writes them, without what vLLM makes of them.
        (lambda asked, _: replace(asked, divisor=1e-6), {1e-6}),
        (lambda asked, _: replace(asked, divisor=0.005), {0.005}),
        (lambda _asked, _: Distribution(), {1e-6, 0.005, 0.6, 1.0, 1.7}),
        (lambda asked, _: replace(asked, top_p=1.0), {1e-6, 0.005, 0.6, 1.0, 1.7}),
        (lambda asked, _: replace(asked, top_k=0), {1e-6, 0.005, 0.6, 1.0, 1.7}),
        (lambda _, shaping: Distribution(1.0, shaping.top_p, shaping.top_k), {0.0}),
    ],
    ids=["1e-6 as it is", "0.005 as it is", "nothing", "no top-p", "no top-k", "filters at 0"],
)
def test_each_wrong_meaning_is_far_beyond_the_bound(
    grid: Grid,
    folder: Path,
    exact: Exact,
    mistake: Callable[[Distribution, Shaping], Distribution],
    noticed: set[float],
) -> None:
    wrong = [mistake(recomputed(shaping, VLLM), shaping) for shaping, _ in grid]
    values, _ = policy("plain", folder, grid, wrong)
    found = worst(grid, values, exact)
    assert all(found[temperature] > 100 * limit(temperature) for temperature in noticed)


@pytest.mark.parametrize("temperature", [*TEMPERATURES, 1e-30, 0.00999, 0.01, 2.0])
def test_vllm_makes_of_a_temperature_what_its_declaration_says(temperature: float) -> None:
    params = SamplingParams(temperature=temperature, top_p=0.5, top_k=3)
    found = Distribution(params.temperature or 1.0, params.top_p, params.top_k)
    assert recomputed(Shaping(temperature, 0.5, 3), VLLM) == found


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf"), 2.01])
def test_what_vllm_refuses_is_refused_before_it_is_asked(temperature: float) -> None:
    with pytest.raises(VLLMValidationError):
        SamplingParams(temperature=temperature)
    with pytest.raises(RecipeError):
        recomputed(Shaping(temperature), VLLM)


def test_what_gym_pins_over_http_is_what_the_policy_recomputes(
    worker: GenerationWorker, folder: Path, http: Callable[..., tuple[int, dict[str, Any]]]
) -> None:
    shaping = Shaping(temperature=0.6, top_p=0.9, top_k=20)
    # In this order Gym makes a request: the row's wishes, then what the recipe pins over them.
    body = {
        "model": "policy",
        "messages": [{"role": "user", "content": "Which of them?"}],
        "logprobs": True,
        "return_token_ids": True,
        "min_tokens": 40,
        "logit_bias": {"70": 50.0},
        "seed": 3,
        "max_tokens": TOKENS,
        **UNSHAPED,
        "temperature": shaping.temperature,
        "top_p": shaping.top_p,
        "top_k": shaping.top_k,
    }
    status, answer = http(f"{worker.base_url}/chat/completions", body)
    assert status == 200, answer
    (choice,) = answer["choices"]
    values = tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
    prompt, ids = tuple(answer["prompt_token_ids"]), tuple(choice["token_ids"])
    sample = Sample(0, prompt, ids, values, 0.0, truncated=False)
    found, outside = policy("plain", folder, [(shaping, sample)])
    assert outside == 0
    assert found[0] == pytest.approx(values, abs=limit(0.6))
