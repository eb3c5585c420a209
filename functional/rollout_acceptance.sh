#!/usr/bin/env bash
# L2: rollouts through vLLM and Gym, without training (contract: rollout_acceptance.contract.toml).
source functional/lib.sh

accept "$EXACTHEAD_RECIPE" "${overrides[@]}"
