"""The finalizer in the trainer's worker: Gym's own ledger and capture, no server and no engine."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nemo_gym.token_id_capture.fingerprint import FINGERPRINT_VERSION, assistant_fingerprint
from nemo_gym.token_id_capture.lineage import FileLineageStore
from nemo_gym.token_id_capture.staging import (
    CallRecord,
    CaptureAdmission,
    CaptureLedgerCommit,
    RolloutTokenCapture,
)
from nemo_gym.token_id_capture.staging.records import RolloutManifest

from posttrain.capture.errors import StagingError
from posttrain.capture.finalize.causes import CAUSES
from posttrain.capture.finalize.finalizer import Finalizer
from posttrain.capture.finalize.words import Finalized, Scored
from posttrain.capture.settings import CaptureSettings
from posttrain.capture.staging import Store, open_store
from posttrain.capture.staging.plane import PlaneStore
from posttrain.dataplane import MemoryPlane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAW = settings(max_examples=25, deadline=None)
part = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=6)
# What float32 keeps exactly, and what it rounds.
logprob = st.one_of(
    st.integers(-64, 0).map(lambda number: number / 64), st.floats(-50, 0, width=32)
)


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[list[int], list[int], list[float]]]:
    """(new prompt tokens, generated tokens, their log-probabilities), one a turn."""
    turns = []
    for _ in range(draw(st.integers(1, 4))):
        generated = draw(part)
        size = len(generated)
        logprobs = draw(st.lists(logprob, min_size=size, max_size=size))
        turns.append((draw(part), generated, logprobs))
    return turns


@dataclass
class Rollouts:
    """Rollouts as gate and engine make them, call by call.

    Attributes:
        folder: of the ledger.
        change: applied to the snapshots that are fetched.
        staged: where calls are staged; None for files.
    """

    folder: Path
    change: Callable[[list[Any]], list[Any]] = field(default=lambda snapshots: snapshots)
    staged: Store | None = None

    def __post_init__(self) -> None:
        self.ledger = FileLineageStore(self.folder / "ledger")
        self.store = self.staged or open_store(CaptureSettings(folder=str(self.folder / "staged")))
        self._capture = RolloutTokenCapture(sink=self.store, weight_version_fn=lambda: 4)

    async def manifest(self, rollout_id: str) -> RolloutManifest:
        return RolloutManifest.model_validate(await self.ledger.manifest(rollout_id))

    def fetch(self, staging_keys: list[str]) -> list[Any]:
        return self.change(self.store.fetch(staging_keys))

    def extras(self, staging_keys: list[str]) -> list[Any]:
        return self.store.extras(staging_keys)

    def retire(self, staging_keys: list[str]) -> None:
        self.store.retire(staging_keys)

    def intent(self, rollout_id: str, call: str) -> None:
        with (self.folder / "ledger" / f"{rollout_id}.tokens.intents").open("a") as file:
            file.write(f"{call}\n")

    def roll_out(self, rollout_id: str, turns: list[Any]) -> dict[str, Any]:
        """Make every call of a conversation; returns the last response."""
        history: list[dict[str, Any]] = []
        prefix: list[int] = []
        chain: list[str] = []
        parent: CallRecord | None = None
        for number, (new, generated, logprobs) in enumerate(turns):
            call = f"call-{number}"
            self.intent(rollout_id, call)
            history.append({"role": "user", "content": f"Question {number}?"})
            admission = CaptureAdmission(
                rollout_id=rollout_id,
                model_call_id=call,
                parent_call_id=parent.model_call_id if parent else None,
                prev_len=len(prefix),
                mode="token_in" if parent else "text",
                staging_chain=chain,
                parent_chain_hash=parent.chain_hash if parent else None,
            )
            prompt = prefix + new
            coords = self._capture.complete_call(
                self._capture.begin_call(admission, prefix_token_ids=prefix),
                prompt_token_ids=prompt,
                generated_token_ids=generated,
                generated_logprobs=logprobs,
            )
            assert coords.disposition == "staged"
            answer = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"Answer {number}."}],
            }
            chain = [*chain, coords.staging_key]
            parent = CallRecord(
                **coords.model_dump(exclude={"rollout_id", "disposition"}),
                mode=admission.mode,
                response_id=f"response-{number}",
                admitted_at=float(number),
                output_fingerprint=assistant_fingerprint([answer]),
                continuation_fingerprint=assistant_fingerprint([*history, answer]),
                fingerprint_version=FINGERPRINT_VERSION,
            )
            commit = CaptureLedgerCommit(
                rollout_id=rollout_id,
                record=parent,
                staging_chain=chain,
                request_items=history,
                response_items=[answer],
            )
            asyncio.run(self.ledger.record(commit))
            history = [*history, answer]
            prefix = prompt + generated
        assert parent is not None
        return {"id": parent.response_id, "status": "completed", "output": history[1:]}

    def finalize(self, rollout_id: str, response: dict[str, Any]) -> Finalized:
        finalizer = Finalizer(self, self, self.folder / "ledger", 60.0)
        answer = {"response": response, "reward": 0.25}
        return asyncio.run(finalizer.finalize(Scored(rollout_id, 7, answer, time.monotonic())))


@contextmanager
def rollouts(staged: Store | None = None) -> Iterator[Rollouts]:
    with tempfile.TemporaryDirectory() as folder:
        yield Rollouts(Path(folder), staged=staged)


@LAW
@given(conversations())
def test_a_row_is_exactly_what_was_staged(turns: list[Any]) -> None:
    with rollouts() as made:
        found = made.finalize("r", made.roll_out("r", turns))
    assert found.cause is None, found.detail
    assert found.sample is not None
    whole = [token for new, generated, _ in turns for token in (*new, *generated)]
    assert list(found.sample.token_ids) == whole
    ids = found.sample.token_ids
    spans = [list(ids[start:end]) for start, end in found.sample.spans]
    assert spans == [generated for _, generated, _ in turns]
    assert list(found.sample.logprobs) == [value for _, _, own in turns for value in own]
    assert (found.sample.row, found.sample.reward, found.sample.weight_version) == (7, 0.25, 4)
    assert found.staging_keys == tuple(f"r/call-{number}" for number in range(len(turns)))
    assert (found.continuations, found.token_in) == (len(turns) - 1,) * 2
    assert found.staged_bytes == 16 * len(whole)


MUTATIONS: dict[str, Callable[[Any], Any]] = {
    "token_ids_delta": lambda ids: [*ids[:-1], ids[-1] + 1],
    "token_mask_delta": lambda mask: [1.0 - mask[0], *mask[1:]],
    "generation_log_probs_delta": lambda values: [*values[:-1], values[-1] - 1.0],
    "weight_version": lambda version: version + 1,
    "prev_len": lambda length: length + 1,
    "delta_len": lambda length: length + 1,
    "cum_len": lambda length: length + 1,
    "rollout_id": lambda name: f"{name}x",
    "model_call_id": lambda name: f"{name}x",
    "parent_call_id": lambda name: f"{name}x",
    "mode": lambda mode: "text" if mode == "token_in" else "token_in",
    "digest": lambda digest: digest[::-1],
    "chain_hash": lambda digest: digest[::-1],
    "cumulative_hash": lambda digest: digest[::-1],
    "extras_digest": lambda digest: digest[::-1],
}


@LAW
@given(conversations(), st.sampled_from(sorted(MUTATIONS)), st.data())
def test_no_record_that_was_changed_in_any_field_becomes_a_row(
    turns: list[Any], name: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(turns) - 1))

    def change(snapshots: list[Any]) -> list[Any]:
        value = MUTATIONS[name](getattr(snapshots[place], name))
        snapshots[place] = snapshots[place].model_copy(update={name: value})
        return snapshots

    with rollouts() as made:
        response = made.roll_out("r", turns)
        made.change = change
        found = made.finalize("r", response)
    assert found.sample is None
    assert CAUSES[found.cause or ""].origin == "receipt"


@LAW
@given(conversations(), st.randoms(use_true_random=False))
def test_records_in_another_order_or_number_become_no_row(turns: list[Any], random: Any) -> None:
    def change(snapshots: list[Any]) -> list[Any]:
        kind = random.choice(["short", "long", "swapped"])
        if kind == "short":
            return snapshots[:-1]
        if kind == "long" or len(snapshots) == 1:
            return [*snapshots, snapshots[-1]]
        return [snapshots[-1], *snapshots[:-1]]

    with rollouts() as made:
        response = made.roll_out("r", turns)
        made.change = change
        found = made.finalize("r", response)
    assert found.cause in {"row_count_mismatch", "snapshot_order_mismatch"}


@LAW
@given(conversations(), st.data())
def test_an_intent_without_an_end_masks_the_rollout_wherever_it_stands(
    turns: list[Any], data: st.DataObject
) -> None:
    with rollouts() as made:
        response = made.roll_out("r", turns)
        path = made.folder / "ledger" / "r.tokens.intents"
        calls = path.read_text().split()
        calls.insert(data.draw(st.integers(0, len(calls))), "lost")
        path.write_text("".join(f"{call}\n" for call in calls))
        found = made.finalize("r", response)
    assert found.cause == "missing_entry"
    assert "call lost" in found.detail
    assert "r/lost" in found.staging_keys


@pytest.mark.parametrize("reason", sorted(n for n, c in CAUSES.items() if c.origin == "ledger"))
def test_a_failed_call_poisons_the_rollout_with_its_reason(reason: str) -> None:
    with rollouts() as made:
        response = made.roll_out("r", [([1], [2], [0.0])])
        made.intent("r", "bad")
        asyncio.run(made.ledger.record_failure("r", "bad", reason))
        found = made.finalize("r", response)
    assert found.cause == reason


def test_the_first_of_several_causes_counts() -> None:
    with rollouts() as made:
        response = made.roll_out("r", [([1], [2], [0.0])])
        for call in ("b", "lost", "a"):
            made.intent("r", call)
        asyncio.run(made.ledger.record_failure("r", "a", "unresolved_parent"))
        asyncio.run(made.ledger.record_failure("r", "b", "worker_capture_failed"))
        asyncio.run(made.ledger.record_failure("r", "b", "unresolved_parent"))
        found = made.finalize("r", {**response, "status": "failed"})
    assert found.cause == "worker_capture_failed"
    assert found.continuations == 3


def test_a_reason_that_nobody_knows_is_named_in_the_detail() -> None:
    with rollouts() as made:
        response = made.roll_out("r", [([1], [2], [0.0])])
        asyncio.run(made.ledger.record_failure("r", "x", "solar_flare"))
        found = made.finalize("r", response)
    assert (found.cause, found.detail) == ("unknown_reason", "call x: solar_flare")


def test_a_group_has_as_many_results_as_rollouts_whatever_became_of_them() -> None:
    with rollouts() as made:
        good = made.roll_out("good", [([1], [2], [-0.5]), ([3], [4], [-0.25])])
        lost = made.roll_out("lost", [([1], [2], [-0.5])])
        made.store.retire(["lost/call-0"])
        finalizer = Finalizer(made, made, made.folder / "ledger", 60.0)
        scored = [
            Scored("lost", 0, {"response": lost, "reward": 1.0}, 0.0),
            Scored("never", 0, {"response": good, "reward": 1.0}, 0.0),
            Scored("good", 0, {"response": good, "reward": 1.0}, 0.0),
        ]
        found = asyncio.run(finalizer.finalize_group(scored))
    assert [each.sample_id for each in found] == ["lost", "never", "good"]
    assert [each.cause for each in found] == ["staged_missing", "no_records", None]


def test_a_record_that_a_plane_has_cleared_is_evicted_and_not_just_missing() -> None:
    plane = MemoryPlane()
    with rollouts(PlaneStore(plane)) as made:
        responses = {it: made.roll_out(it, [([1], [2], [-0.5])]) for it in ("gone", "kept")}
        plane.clear("capture", ["gone/call-0"])
        found = [made.finalize(rollout, response) for rollout, response in responses.items()]
    assert [each.cause for each in found] == ["staged_evicted", None]


def fail(error: Exception) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError("boom"), "staging_failed"),
        (KeyError("row"), "staging_failed"),
        (ConnectionResetError("gone"), "staging_failed"),
        (TimeoutError("slow"), "staging_late"),
    ],
)
def test_whatever_a_store_of_somebody_elses_raises_is_a_cause(error: Exception, cause: str) -> None:
    with rollouts() as made:
        response = made.roll_out("r", [([1], [2], [0.0])])
        made.change = fail(error)
        found = made.finalize("r", response)
    assert (found.cause, found.detail) == (cause, f"{type(error).__name__}: {error}")
    assert found.staging_keys == ("r/call-0",)


@pytest.mark.parametrize(
    "change",
    [
        lambda _: [None],
        lambda _: ["text"],
        lambda _: None,
        lambda them: [them[0].model_copy(update={"token_ids_delta": None})],
        lambda them: [them[0].model_copy(update={"token_ids_delta": ["1", "2"]})],
        lambda them: [them[0].model_copy(update={"token_mask_delta": [0.0, None]})],
        lambda them: [them[0].model_copy(update={"delta_len": "2"})],
    ],
)
def test_what_a_source_gives_instead_of_records_is_no_row(change: Callable[[Any], Any]) -> None:
    with rollouts() as made:
        response = made.roll_out("r", [([1], [2], [0.0])])
        made.change = change
        found = made.finalize("r", response)
    assert found.sample is None
    assert CAUSES[found.cause or ""].origin == "receipt"


def test_a_store_of_somebody_elses_that_cannot_retire_is_named() -> None:
    with rollouts() as made:
        finalizer = Finalizer(made, made, made.folder / "ledger", 60.0)
        made.store.retire = fail(RuntimeError("boom"))  # type: ignore[method-assign]
        with pytest.raises(StagingError) as caught:
            asyncio.run(finalizer.retire(["r/a", "r/b"]))
    assert (caught.value.asked, caught.value.found) == (
        "2 staged calls retired",
        "RuntimeError: boom",
    )


@pytest.mark.parametrize(
    ("response", "cause"),
    [
        ({"status": "failed"}, "no_response"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "no_response",
        ),
        ({"output": "text"}, "no_response"),
        *(
            (
                {"output": [{"type": "message", "role": "assistant", "content": content}]},
                "no_response",
            )
            for content in (None, "text", [None], [{"type": "output_text", "text": 5}])
        ),
    ],
)
def test_a_response_that_is_not_whole_is_no_row(response: dict[str, Any], cause: str) -> None:
    with rollouts() as made:
        whole = made.roll_out("r", [([1], [2], [0.0])])
        found = made.finalize("r", whole | response)
    assert found.cause == cause


def test_an_answer_cut_at_its_length_is_a_row_that_says_so() -> None:
    with rollouts() as made:
        whole = made.roll_out("r", [([1], [2], [0.0])])
        cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        found = made.finalize("r", whole | cut)
    assert found.sample is not None
    assert found.sample.truncated


def test_two_branches_without_a_witness_are_ambiguous() -> None:
    with rollouts() as made:
        made.roll_out("r", [([1], [2], [0.0]), ([3], [4], [0.0])])
        manifest = asyncio.run(made.manifest("r"))
        twin = manifest.records[1].model_copy(
            update={"model_call_id": "twin", "staging_key": "r/twin", "response_id": "twin"}
        )
        both = manifest.model_copy(update={"records": [*manifest.records, twin]})

        async def manifests(_: str) -> RolloutManifest:
            return both

        made.manifest = manifests
        found = made.finalize("r", {"id": "none", "status": "completed", "output": []})
    assert found.cause == "ambiguous_terminal"
