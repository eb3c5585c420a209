"""The other process of the ledger's check: records a commit, or says how a rollout resolves."""

from __future__ import annotations

import asyncio
import json
import sys

from nemo_gym.token_id_capture.lineage import FileLineageStore
from nemo_gym.token_id_capture.staging import CaptureLedgerCommit

from posttrain.capture.conformance.gym import resolved


def main(root: str, what: str, argument: str) -> None:
    """Do it in this process."""
    ledger = FileLineageStore(root)
    if what == "record":
        asyncio.run(ledger.record(CaptureLedgerCommit.model_validate_json(argument)))
    else:
        sys.stdout.write(json.dumps(asyncio.run(resolved(ledger, argument))))


if __name__ == "__main__":
    main(*sys.argv[1:])
