"""What an input reaches: pairs of lines of Culm that follow each other; and the fewest inputs that reach as much.

Done with the interpreter's own tracing, so that a saved corpus can be made, and does the same, without the guided
fuzzer.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from typing import TYPE_CHECKING

from fuzz.target import CULM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from _typeshed import TraceFunction

    from fuzz.target import Target

Arc = tuple[str, int, int]


def reached(target: Target, content: bytes) -> frozenset[Arc]:
    """The pairs of lines that one input reaches; of each function the first line follows 0."""
    arcs: set[Arc] = set()

    def trace(frame: FrameType, _: str, __: object) -> TraceFunction | None:
        name = frame.f_code.co_filename
        if not name.startswith(CULM):
            return None
        before = 0

        def line(frame: FrameType, event: str, _: object) -> TraceFunction:
            nonlocal before
            if event == "line":
                arcs.add((name, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line

    previous, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # A collection would run finalizers of what others left, and their lines would count.
    sys.settrace(trace)
    try:
        target.outcome(content)
    finally:
        sys.settrace(previous)
        if collects:
            gc.enable()
    return frozenset(arcs)


def fewest(target: Target, contents: Iterable[bytes], room: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Of some inputs small ones that together reach, beyond the seeds, what all of them do, as far as there is room."""
    known = {arc for seed in target.seeds for arc in reached(target, seed)}
    kept: dict[bytes, frozenset[Arc]] = {}
    for content in sorted(set(contents), key=lambda content: (len(content), content)):
        new = reached(target, content) - known
        if new and room([*kept, content]):
            kept[content] = new
            known |= new
    # What a small one reached first, larger ones may reach besides.
    all_of = {content: reached(target, content) for content in kept}
    counts = Counter(arc for arcs in all_of.values() for arc in arcs)
    seeds = {arc for seed in target.seeds for arc in reached(target, seed)}
    for content in sorted(kept, key=len):
        if all(counts[arc] > 1 for arc in all_of[content] - seeds):
            counts.subtract(all_of[content])
            del kept[content]
    return list(kept)
