"""Generation: vLLM engines with their own OpenAI-compatible servers, one process a worker."""
