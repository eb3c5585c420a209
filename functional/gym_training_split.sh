#!/usr/bin/env bash
# L3: one proven training step with generation apart (contract: gym_training_split.contract.toml).
source functional/lib.sh

train "$EXACTHEAD_RECIPE" "${overrides[@]}"
