#!/usr/bin/env bash
# L3: one proven training step on a NeMo Gym environment (contract: gym_training.contract.toml).
source functional/lib.sh

train "$EXACTHEAD_RECIPE" "${overrides[@]}"
