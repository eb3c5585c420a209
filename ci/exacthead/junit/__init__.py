"""JUnit files: written for our own results, read and merged whoever wrote them."""

from exacthead.junit.cases import Case, write_cases
from exacthead.junit.merging import Totals, merge
from exacthead.junit.read import CaseRecord, Problem, ResultRecord, SuiteRecord, read_junit
from exacthead.junit.results import write_results
from exacthead.junit.text import xml_text
from exacthead.junit.times import seconds

__all__ = [
    "Case",
    "CaseRecord",
    "Problem",
    "ResultRecord",
    "SuiteRecord",
    "Totals",
    "merge",
    "read_junit",
    "seconds",
    "write_cases",
    "write_results",
    "xml_text",
]
