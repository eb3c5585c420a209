"""Recipes: YAML files with inheritance and overrides, read into a closed, frozen schema.

``text`` reads one file and remembers lines, ``files`` follows what it inherits from, ``merge``
makes one of all layers, ``load`` checks it against the ``schema`` through its ``keys``,
``inherited`` says what other files decided, ``explain`` prints every value with its origin.
"""

from posttrain.config.explain import explain, identity
from posttrain.config.load import Loaded, load_recipe
from posttrain.config.schema import Recipe
from posttrain.config.training import SingleRecipe, TrainRecipe

__all__ = [
    "Loaded",
    "Recipe",
    "SingleRecipe",
    "TrainRecipe",
    "explain",
    "identity",
    "load_recipe",
]
