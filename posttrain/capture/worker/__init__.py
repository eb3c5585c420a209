"""Capture inside the vLLM worker: enter a parent's tokens, prove it, stage before the answer."""
