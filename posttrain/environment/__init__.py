"""NeMo Gym's servers: their configuration, their process, and its whole life.

``configure`` says what the servers are to be, ``servers`` starts and ends them from the trainer's
environment, ``serve`` is what the ``gym`` worker's interpreter runs.
"""
