"""Parts of Dagster that may change: data versions of ops, observed inputs, checks of partitions.

The version range in pyproject.toml bounds what they can change to.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def unstable() -> Iterator[None]:
    """Use such a part without telling every user's terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield
