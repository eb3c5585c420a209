"""Refit: the policy's weights to generation, with a proof from each worker that serves them."""
