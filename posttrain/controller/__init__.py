"""Controllers: who has prompts rolled out, the policy updated and the engines refitted, and when.

``synchronous`` does one after the other; ``single`` does them at the same time, as pumps on one
event loop (docs/controller.md). A step itself is the same for both: ``learner``, ``record``.
"""
