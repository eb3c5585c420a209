"""The metrics of the single controller and its data plane (docs/controller.md)."""

from __future__ import annotations

from posttrain.metrics.metric import Metric

CONTROLLER: tuple[Metric, ...] = (
    Metric(
        "controller/groups_reserved",
        "count",
        "groups of rollouts that were admitted since the step before, each attempt by itself",
    ),
    Metric("controller/groups_committed", "count", "groups whose rows the data plane took"),
    Metric("controller/groups_trained", "count", "groups that the step was trained on"),
    Metric(
        "controller/dropped_prompts",
        "count",
        "prompts of which nothing is trained: their group was too old, or failed for reasons of"
        " data; another prompt took the place of each",
    ),
    Metric("controller/dropped_stale", "count", "those of them whose group was beyond the window"),
    Metric(
        "controller/retries_infrastructure",
        "count",
        "groups that failed for reasons of infrastructure and were tried again with fresh ids",
    ),
    Metric(
        "controller/retries_data",
        "count",
        "groups that failed for reasons of data, in whose place another prompt was tried",
    ),
    Metric(
        "controller/placeholders",
        "count",
        "rollouts of the trained groups that have a cause instead of a sample and were left out",
    ),
    Metric(
        "controller/rollouts_in_flight_max", "count", "most rollouts that were in flight at once"
    ),
    Metric(
        "controller/staleness_mean",
        "versions",
        "how far the weights behind the trained groups were behind the policy's",
        "mean over groups of (policy's version - version of the group's oldest token)",
    ),
    Metric(
        "controller/staleness_max",
        "versions",
        "the same of the oldest group; at most `controller.staleness`",
    ),
    Metric(
        "dataplane/storage_units",
        "count",
        "storage units that answer for the rows' data plane; 0 where rows are in memory",
    ),
    Metric("dataplane/<n>/puts", "count", "put requests that storage unit n served so far"),
    Metric("dataplane/<n>/gets", "count", "get requests that it served so far"),
    Metric("dataplane/<n>/rows", "count", "rows that it holds after the step"),
)
