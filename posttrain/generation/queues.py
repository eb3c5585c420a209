"""The message queues between an engine and its tensor-parallel ranks, and their end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import zmq
from vllm.distributed.device_communicators.shm_broadcast import SpinCondition
from vllm.v1.executor.multiproc_executor import MultiprocExecutor

if TYPE_CHECKING:
    from threading import Event
    from typing import Any

    from vllm.v1.executor import Executor

# How long a failed executor may take to end the ranks that are left: vLLM itself gives them nine.
BURIAL_S = 15.0


@dataclass(frozen=True)
class Queues:
    """The ZMQ sockets of an executor's message queues, to be closed when it has ended.

    vLLM leaves them to the collector. A cycle (an exception and its frames are one) then holds
    sockets together with their context, and collecting the context first waits without end for
    sockets that nobody closes: pyzmq knows them by weak references, which are gone by then.
    """

    executor: Executor
    sockets: tuple[zmq.Socket[Any], ...] = ()

    @classmethod
    def of(cls, executor: Executor) -> Queues:
        """List the sockets of ``executor``; none if its ranks have no processes of their own."""
        if not isinstance(executor, MultiprocExecutor):
            return cls(executor)
        queues = [queue for queue in (executor.rpc_broadcast_mq, *executor.response_mqs) if queue]
        values = [value for queue in queues for value in vars(queue).values()]
        for spin in [value for value in values if isinstance(value, SpinCondition)]:
            values.extend(vars(spin).values())
        return cls(executor, tuple(value for value in values if isinstance(value, zmq.Socket)))

    def close(self, buried: Event) -> None:
        """Close the sockets and their contexts, once no thread uses them any more.

        Args:
            buried: set by the executor's failure callback, which vLLM calls last when a rank has
                died. Where it is not set in time the sockets stay open.
        """
        failed = isinstance(self.executor, MultiprocExecutor) and self.executor.is_failed
        if failed and not buried.wait(BURIAL_S):
            return
        contexts = {id(socket.context): socket.context for socket in self.sockets}
        for socket in self.sockets:
            socket.close(linger=0)
        for context in contexts.values():
            context.term()
