"""What the plane uses of TransferQueue: the one module that imports it."""

import os

# The library limits torch's threads round each request; by default it would raise them.
os.environ.setdefault("TQ_NUM_THREADS", "1")

from transfer_queue.client import AsyncTransferQueueClient
from transfer_queue.controller import TransferQueueController
from transfer_queue.metadata import BatchMeta
from transfer_queue.sampler import SequentialSampler
from transfer_queue.storage import StorageKeyNotFoundError
from transfer_queue.storage.simple_storage import KEY_NOT_FOUND_MARKER, SimpleStorageUnit
from transfer_queue.utils.enum_utils import Role
from transfer_queue.utils.zmq_utils import (
    METRICS_COLLECTOR_IDENTITY_PREFIX,
    STORAGE_MANAGER_IDENTITY_PREFIX,
    ZMQMessage,
    ZMQRequestType,
    ZMQServerInfo,
    create_zmq_socket,
)

__all__ = [
    "KEY_NOT_FOUND_MARKER",
    "METRICS_COLLECTOR_IDENTITY_PREFIX",
    "STORAGE_MANAGER_IDENTITY_PREFIX",
    "AsyncTransferQueueClient",
    "BatchMeta",
    "Role",
    "SequentialSampler",
    "SimpleStorageUnit",
    "StorageKeyNotFoundError",
    "TransferQueueController",
    "ZMQMessage",
    "ZMQRequestType",
    "ZMQServerInfo",
    "create_zmq_socket",
]
