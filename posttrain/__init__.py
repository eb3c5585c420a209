"""A small, real RL post-training stack: FSDP2 policy, vLLM generation, NeMo Gym environments."""
