"""Reproduce: one item of an earlier run again, or until it fails, or in ever shorter orders."""

from exacthead.reproduce.again import plan_again
from exacthead.reproduce.checkout import checkout
from exacthead.reproduce.past import Past, find
from exacthead.reproduce.repeat import reproduce_item

__all__ = ["Past", "checkout", "find", "plan_again", "reproduce_item"]
