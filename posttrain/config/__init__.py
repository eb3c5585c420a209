"""Recipes: YAML files with inheritance and overrides, read into a closed, frozen schema.

``text`` reads one file and remembers lines, ``load`` merges the layers and checks them against the
``schema`` through its ``keys``, ``explain`` prints every value with its origin.
"""

from posttrain.config.explain import explain
from posttrain.config.load import Loaded, load_recipe
from posttrain.config.schema import Recipe

__all__ = ["Loaded", "Recipe", "explain", "load_recipe"]
