from __future__ import annotations

import json
import math

from exacthead.contracts.series import Metrics, Point
from exacthead.report.charts import Figure, chart, of_metrics, thinned


def metrics(steps: int, **series: object) -> Metrics:
    return Metrics(
        tuple(range(1, steps + 1)),
        {
            name: tuple(Point(step, values) for step in range(1, steps + 1))
            if not isinstance(values, list)
            else tuple(Point(step, value) for step, value in enumerate(values, 1))
            for name, values in series.items()
        },
    )


def test_a_script_gets_numbers_and_a_table_says_the_same() -> None:
    made = chart(Figure("Loss", "step", " x"), [1, 2, 3], {"loss": [0.5, math.nan, None]}, [2])
    assert json.loads(made.data) == {
        "over": "step",
        "x": [1, 2, 3],
        "xs": None,
        "series": [{"name": "loss", "y": [0.5, None, None]}],
        "marks": [3],
        "unit": " x",
    }
    assert made.rows == (("1", "0.5 x"), ("2", "nan x"), ("3 (change)", "none"))


def test_places_that_are_texts_stand_side_by_side() -> None:
    drawn = json.loads(chart(Figure("t", "head"), ["abc", "def"], {"a": [1, 2]}, [1]).data)
    assert (drawn["x"], drawn["xs"], drawn["marks"]) == ([0, 1], ["abc", "def"], [1])


def test_a_leg_of_one_step_has_no_curves() -> None:
    assert of_metrics(metrics(1, **{"train/loss": 0.1})) == ()


def test_the_curves_of_training_in_the_order_of_reading() -> None:
    made = of_metrics(
        metrics(3, **{"timing/refit": 0.2, "train/loss": [3.0, 2.0, 1.0], "train/reward/mean": 1,
                      "train/token_mult_prob_error": 1.0, "refit/transport": "shm"})
    )  # fmt: skip
    assert [each.title.partition(":")[0] for each in made] == ["Reward", "Loss", "Parity", "Refit"]
    assert made[1].rows == (("1", "3"), ("2", "2"), ("3", "1"))


def test_a_metric_of_texts_is_no_curve_and_a_huge_integer_no_point() -> None:
    assert of_metrics(metrics(2, **{"train/loss": ["a", "b"]})) == ()
    (made,) = of_metrics(metrics(2, **{"train/loss": [10**400, 1]}))
    assert json.loads(made.data)["series"][0]["y"] == [None, 1.0]


def test_long_series_are_thinned_and_keep_their_ends() -> None:
    steps = thinned(range(1, 100_001))
    assert (len(steps), steps[0], steps[-1]) == (500, 1, 100_000)
    assert list(steps) == sorted(set(steps))
    (made,) = of_metrics(metrics(2000, **{"train/loss": 0.5}))
    assert made.note == "500 of 2000 steps"
