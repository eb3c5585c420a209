"""Token capture: staging in the vLLM worker, the gate, the finalizer. Nothing is imported here."""
