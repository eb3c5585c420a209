"""Where in a rendered conversation the last answer ends, and what comes after it: token ids only.

A continuation is computed from the tokens that its parent has, not from the parent's text, which
need not become the same tokens again. Only what follows the parent's answer is taken from the
rendered conversation. The place is proven, not guessed: the conversation is also rendered with
another text for the answer, and what follows must come out the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.capture.errors import UnprovenPrefixError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_TODO = "the call is answered, and its rollout is not trained; look at the model's chat template"


@dataclass(frozen=True)
class Renderings:
    """Token ids of one conversation, rendered three times by the model's chat template.

    Attributes:
        whole: all messages, as the request would be rendered without capture.
        answered: the messages up to the last answer (assistant message), and nothing after it.
        replaced: as ``whole``, with another text for the last answer.
    """

    whole: Sequence[int]
    answered: Sequence[int]
    replaced: Sequence[int]


def tail(prefix: Sequence[int], renderings: Renderings, closing: Collection[int]) -> list[int]:
    """What the engine is given after a parent's tokens.

    Args:
        prefix: the parent's prompt and generated tokens.
        renderings: of the request's messages.
        closing: token ids that can end a message.

    Returns:
        The tokens after the last answer, generation prompt included. They begin with the token
        that closes the answer unless the parent generated it itself.

    Raises:
        UnprovenPrefixError: the end of the last answer cannot be found for certain.
    """
    count = sum(token in closing for token in renderings.answered)
    if count == 0:
        raise _unproven(f"no token of {sorted(closing)} ends a message in the rendered answer")
    after = _from_closing(renderings.whole, count, closing)
    if not after or after != _from_closing(renderings.replaced, count, closing):
        raise _unproven(
            f"what follows the {count}th of the tokens {sorted(closing)} depends on the answer's"
            " own text"
        )
    return after[1:] if prefix[-1] == after[0] else after


def _from_closing(tokens: Sequence[int], count: int, closing: Collection[int]) -> list[int]:
    """The tokens from the ``count``-th closing one on; none when there are fewer."""
    places = [place for place, token in enumerate(tokens) if token in closing]
    return list(tokens[places[count - 1] :]) if len(places) >= count else []


def _unproven(found: str) -> UnprovenPrefixError:
    return UnprovenPrefixError("the place where the last answer ends", found, _TODO)
