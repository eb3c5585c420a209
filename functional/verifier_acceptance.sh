#!/usr/bin/env bash
# L1: Gym's verifiers alone, without a model (contract: verifier_acceptance.contract.toml).
source functional/lib.sh

verify "$EXACTHEAD_RECIPE" "${overrides[@]}"
