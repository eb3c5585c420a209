"""Node ids of pytest, taken apart: file, classes, function, parameters."""

from __future__ import annotations


def file_of(nodeid: str) -> str:
    """The path before the first ``::``; the whole id of a file that could not be collected."""
    return nodeid.partition("::")[0]


def within(nodeid: str) -> str:
    """What follows the file: classes, function and parameters."""
    return nodeid.partition("::")[2]


def function_of(nodeid: str) -> str:
    """The id without its parameters, which may themselves hold ``::`` and brackets."""
    return file_of(nodeid) + "::" + within(nodeid).partition("[")[0]


def class_of(nodeid: str) -> str:
    """The outermost class in its file; the function where there is no class."""
    names = within(nodeid).partition("[")[0].split("::")
    return file_of(nodeid) + "::" + names[0]
