"""Checkpoints: what a run needs to go on to the bit, whole or not at all.

``manifest`` says what a checkpoint holds and proves it, ``store`` writes, lists and prunes them,
``identity`` says what must be the same for a run to go on, ``resume`` finds the one to go on from,
``cut`` takes back what a killed run wrote after it, ``keeper`` saves and restores in a run.
"""
