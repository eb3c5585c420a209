"""The clean environment: says where we are, never what is installed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exacthead.environ import clean_environment

DROPPED = [
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONSTARTUP", "PYTHONDONTWRITEBYTECODE"),
    *("PIP_TARGET", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_LINK_MODE", "UV_TARGET", "UV_CONFIG_FILE"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CFLAGS", "LD_PRELOAD", "RAY_ADDRESS", "PYTEST_ADDOPTS"),
]
KEPT = ["HOME", "PATH", "https_proxy", "NO_PROXY", "SSL_CERT_FILE", "UV_CACHE_DIR", "LC_ALL"]


def test_what_decides_an_installation_is_dropped() -> None:
    assert clean_environment(dict.fromkeys(DROPPED, "x")) == {"PYTHONNOUSERSITE": "1"}


def test_what_says_where_we_are_is_kept() -> None:
    given_ = dict.fromkeys(KEPT, "x")
    assert clean_environment(given_) == {**given_, "PYTHONNOUSERSITE": "1"}


@given(st.dictionaries(st.sampled_from([*KEPT, *DROPPED, "OTHER"]), st.text()))
def test_cleaning_twice_is_cleaning_once_and_changes_no_value(environment: dict[str, str]) -> None:
    before = dict(environment)
    clean = clean_environment(environment)
    assert environment == before
    assert clean_environment({**clean, "PYTHONNOUSERSITE": "0"}) == clean
    assert all(environment[name] == clean[name] for name in clean if name != "PYTHONNOUSERSITE")
