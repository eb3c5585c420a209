"""Masked: what logs grow by reaches whoever watches a run without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exacthead.mask import Masker, Stream
    from exacthead.runs.result import ItemResult
    from exacthead.runs.watch import Watch

# Of a log's bytes that are no UTF-8, and of half a character.
_LOST = "backslashreplace"


class MaskedWatch:
    """Passes everything on to another watch, texts masked. As thread-safe as that is.

    An unfinished line is held back until it goes on or its item ends, so that a secret in two
    writes is one.

    Args:
        watch: who is told.
        masker: what is a secret.
    """

    def __init__(self, watch: Watch, masker: Masker) -> None:
        self._watch = watch
        self._masker = masker
        # Each is used by its item's own thread alone.
        self._streams: dict[str, Stream] = {}

    def begin(self, item_id: str) -> None:
        """An item is started."""
        self._streams[item_id] = self._masker.stream()
        self._watch.begin(item_id)

    def write(self, item_id: str, text: str) -> None:
        """Take what its log grew by."""
        self._pass_on(item_id, self._streams[item_id].feed(text.encode(errors=_LOST)))

    def end(self, result: ItemResult) -> None:
        """Give out what was held back, and the result, which holds no secret any more."""
        if stream := self._streams.pop(result.item_id, None):
            self._pass_on(result.item_id, stream.finish())
        self._watch.end(result)

    def _pass_on(self, item_id: str, text: bytes) -> None:
        if text:
            self._watch.write(item_id, text.decode(errors=_LOST))
