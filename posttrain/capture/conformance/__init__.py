"""What a staging sink and source must do, as checks that any implementation can be put through.

From a shell: ``python -m posttrain.capture.conformance module:factory``. From a test::

    @pytest.mark.parametrize("name", CHECKS)
    def test_my_sink(name, tmp_path):
        check(name, Subject("my_package.sinks:factory", str(tmp_path)))

Needs Gym's ``nemo_gym.token_id_capture`` and numpy, but no vLLM, Ray or torch of its own.
"""

from posttrain.capture.conformance.subject import Subject
from posttrain.capture.conformance.suite import CHECKS, Failed, Outcome, check, run

__all__ = ["CHECKS", "Failed", "Outcome", "Subject", "check", "run"]
