"""Finished rollouts as gate and engine leave them behind, made without either.

Ledger, digests and records are Gym's own (`FileLineageStore`, `RolloutTokenCapture`); what an agent
and an environment would add, the scored answer, is written here.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from nemo_gym.token_id_capture.fingerprint import FINGERPRINT_VERSION, assistant_fingerprint
from nemo_gym.token_id_capture.lineage import FileLineageStore
from nemo_gym.token_id_capture.staging import (
    CallRecord,
    CaptureAdmission,
    CaptureLedgerCommit,
    RolloutTokenCapture,
    StageResult,
)
from nemo_gym.token_id_capture.staging.records import RolloutManifest

from posttrain.capture.finalize.words import Scored
from posttrain.capture.staging import rows
from posttrain.capture.staging.attachments import pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nemo_gym.token_id_capture.staging import StagedCallBaseSnapshot, StagedCallRecord

    from posttrain.capture.staging import Store
    from posttrain.dataplane import Row

VOCABULARY = 32_000
# Letters of an answer for each token of it, as English has with a vocabulary of that size.
LETTERS = 4


@dataclass(frozen=True)
class Shape:
    """A rollout's size.

    Attributes:
        turns: calls of the model.
        prompt: new prompt tokens of each call.
        generated: of each call.
    """

    turns: int = 2
    prompt: int = 100
    generated: int = 400

    @property
    def tokens(self) -> int:
        """Tokens of the whole row."""
        return self.turns * (self.prompt + self.generated)


class Kept:
    """A staging area in this process's memory: rows as every store of ours has them.

    There is no input or output. What is fetched is made of its row each time, as by a store.
    """

    def __init__(self) -> None:
        self.records: dict[str, StagedCallRecord] = {}
        self._rows: dict[str, Row] = {}

    def stage(self, record: StagedCallRecord, *, attachments: Any = None) -> StageResult:
        """Keep a record and its row."""
        key = record.staging_key
        self.records[key] = record
        self._rows[key] = rows.encode(record, pack(attachments))
        return StageResult(ok=True, staging_key=key)

    def fetch(self, staging_keys: Sequence[str]) -> list[StagedCallBaseSnapshot]:
        """A new snapshot of each."""
        return [rows.decode(key, self._rows[key]) for key in staging_keys]

    def extras(self, staging_keys: Sequence[str]) -> list[dict[str, Any] | None]:
        """What was staged besides tokens."""
        return [rows.extras(key, self._rows[key]) for key in staging_keys]

    def retire(self, staging_keys: Sequence[str]) -> None:
        """Keep them: every round reads them again."""


class Rollouts:
    """Rollouts of one shape, with the manifests that their gate would tell.

    Args:
        folder: empty; takes the ledger.
        shape: of each rollout.
        count: how many.
    """

    def __init__(self, folder: Path, shape: Shape, count: int) -> None:
        self.folder = folder / "ledger"
        self.shape = shape
        self.kept = Kept()
        self._ledger = FileLineageStore(self.folder)
        self._capture = RolloutTokenCapture(sink=self.kept, weight_version_fn=lambda: 4)
        self._random = np.random.default_rng(0)
        self.answers: dict[str, dict[str, Any]] = {
            f"rollout-{number}": {} for number in range(count)
        }
        asyncio.run(self._roll_all_out())
        self.manifests = asyncio.run(self._read_manifests())

    async def manifest(self, rollout_id: str) -> RolloutManifest:
        """The manifest of a rollout, as ``ManifestClient`` returns it; nothing is asked for it."""
        return self.manifests[rollout_id]

    def scored(self) -> list[Scored]:
        """Every rollout, its answer as if it had just arrived."""
        return [
            Scored(name, row, answer, time.monotonic())
            for row, (name, answer) in enumerate(self.answers.items())
        ]

    def stage_into(self, store: Store) -> None:
        """Stage every call in a store, too."""
        for record in self.kept.records.values():
            result = store.stage(record)
            assert result.ok, result.error

    async def _read_manifests(self) -> dict[str, RolloutManifest]:
        return {
            name: RolloutManifest.model_validate(await self._ledger.manifest(name))
            for name in self.answers
        }

    async def _roll_all_out(self) -> None:
        for name in self.answers:
            self.answers[name] = await self._roll_out(name)

    async def _roll_out(self, name: str) -> dict[str, Any]:
        """Make every call of a rollout; its scored answer."""
        history: list[dict[str, Any]] = []
        chain: list[str] = []
        prompt: list[int] = []
        parent: CallRecord | None = None
        for turn in range(self.shape.turns):
            history.append({"role": "user", "content": "And now? " * (self.shape.prompt // 2)})
            with (self.folder / f"{name}.tokens.intents").open("a", encoding="ascii") as file:
                file.write(f"call-{turn}\n")
            prefix = prompt
            prompt = prefix + self._ids(self.shape.prompt)
            generated = self._ids(self.shape.generated)
            admission = _admission(name, turn, parent, chain, len(prefix))
            coords = self._capture.complete_call(
                self._capture.begin_call(admission, prefix_token_ids=prefix),
                prompt_token_ids=prompt,
                generated_token_ids=generated,
                generated_logprobs=(-5 * self._random.random(len(generated))).tolist(),
            )
            assert coords.disposition == "staged"
            said = self._said()
            chain = [*chain, coords.staging_key]
            parent = CallRecord(
                **coords.model_dump(exclude={"rollout_id", "disposition"}),
                mode=admission.mode,
                response_id=f"{name}-response-{turn}",
                admitted_at=float(turn),
                output_fingerprint=assistant_fingerprint([said]),
                continuation_fingerprint=assistant_fingerprint([*history, said]),
                fingerprint_version=FINGERPRINT_VERSION,
            )
            commit = CaptureLedgerCommit(
                rollout_id=name,
                record=parent,
                staging_chain=chain,
                request_items=history,
                response_items=[said],
            )
            await self._ledger.record(commit)
            history.append(said)
            prompt = prompt + generated
        assert parent is not None
        response = {"id": parent.response_id, "status": "completed", "output": history[1:]}
        return {"response": response, "reward": 1.0}

    def _ids(self, count: int) -> list[int]:
        ids: list[int] = self._random.integers(0, VOCABULARY, count).tolist()
        return ids

    def _said(self) -> dict[str, Any]:
        letters = self._random.integers(97, 123, LETTERS * self.shape.generated, dtype=np.uint8)
        content = [{"type": "output_text", "text": letters.tobytes().decode("ascii")}]
        return {"type": "message", "role": "assistant", "content": content}


def _admission(
    name: str, turn: int, parent: CallRecord | None, chain: Sequence[str], carried: int
) -> CaptureAdmission:
    continued: Mapping[str, Any] = {}
    if parent is not None:
        continued = {
            "parent_call_id": parent.model_call_id,
            "parent_chain_hash": parent.chain_hash,
            "staging_chain": list(chain),
        }
    return CaptureAdmission(
        rollout_id=name,
        model_call_id=f"call-{turn}",
        mode="text" if parent is None else "token_in",
        prev_len=carried,
        **continued,
    )
