"""The finalizer: from a scored rollout to a verified row, or to a placeholder with its cause."""
