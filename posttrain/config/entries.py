"""What each entry point reads: its schema, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.config.acceptance import AcceptRecipe, VerifyRecipe
from posttrain.config.training import SingleRecipe, TrainRecipe

if TYPE_CHECKING:
    from posttrain.config.keys import Section

# A key of another entry point's schema is an error that names its readers.
ENTRY_POINTS: dict[str, type[Section]] = {
    "train": TrainRecipe,
    "single_controller": SingleRecipe,
    "verify": VerifyRecipe,
    "accept": AcceptRecipe,
}
