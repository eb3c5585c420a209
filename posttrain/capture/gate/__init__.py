"""The gate: Gym's model server with its ledger, as the trainer configures, bounds and reads it."""
