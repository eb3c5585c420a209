"""The policy: FSDP2 ranks that recompute log-probabilities and take optimizer steps."""
