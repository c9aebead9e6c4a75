"""Conformance checks: conversations that find out what a peer, ours or another's, does and does not do.

``SUITES`` has the checks of each protocol, by its name. ``outcome_of`` makes one of them over a ``Line``, which its
caller implements. The command ``culm wire check`` runs them against an address.

Specification: docs/specs/intervals.md, docs/specs/proposals.md, docs/specs/bushbaby.md.
"""

from typing import Any

from culm.conformance import bushbaby, intervals, proposals
from culm.conformance.check import Check, Line, Outcome, Refused, Result, Subject, Suite, outcome_of

SUITES: dict[str, Suite[Any]] = {
    "bushbaby": bushbaby.SUITE,
    "intervals": intervals.SUITE,
    "proposals": proposals.SUITE,
}
"""The checks by protocol, in the order in which they are made."""

__all__ = ["SUITES", "Check", "Line", "Outcome", "Refused", "Result", "Subject", "Suite", "outcome_of"]
