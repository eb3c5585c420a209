"""One rank in a process of its own: python rank_process.py DESCRIPTOR RANK."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from safetensors.torch import save_file

from posttrain.errors import StackError
from posttrain.policy.rank import PolicyRank

if TYPE_CHECKING:
    from pathlib import Path


class SavingRank(PolicyRank):
    """A rank whose weights a test can look at."""

    def save_state(self, path: Path) -> list[str]:
        """Let rank 0 write the whole model; the sorted names there, an empty list elsewhere."""
        state = self._full_state()
        if self.rank == 0:
            save_file(state, path)
        return sorted(state)


def main(descriptor: int, rank: int) -> None:
    with Connection(descriptor) as parent:
        while (session := parent.recv()) is not None:
            options, calls = session
            policy = SavingRank(options, rank)
            if rank == 0:
                port = policy.listen()
                parent.send(port)
            else:
                port = parent.recv()
            policy.start(port)
            results = []
            for method, *arguments in calls:
                try:
                    results.append(getattr(policy, method)(*arguments))
                except StackError as error:
                    results.append(error)
            policy.shutdown()
            parent.send(results)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
