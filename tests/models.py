"""Tests of random operations against a model: how many are run, and how many there were.

``CULM_MODELS=N`` runs N times as many examples as ``make test`` does (``make models``). A failure is told as it was
found; with ``CULM_SHRINK=1`` it is made smaller first, which can take many minutes.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

FACTOR = int(os.environ.get("CULM_MODELS", "1"))
SHRINKS = "CULM_SHRINK" in os.environ
MARKS = [pytest.mark.models, pytest.mark.timeout(600 if FACTOR == 1 else 0)]
"""What each module of such tests is marked with."""

COUNTS: Counter[str] = Counter()
"""What was run since the test began, by kind: examples, steps, questions."""


def models(examples: int, **more: Any) -> settings:
    """The settings of a test that runs so many examples with ``make test``."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    phases = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if SHRINKS else [])]
    return settings(max_examples=examples * FACTOR, deadline=None, suppress_health_check=quiet, phases=phases, **more)


def count(kind: str, number: int = 1) -> None:
    """Count what was run."""
    COUNTS[kind] += number
