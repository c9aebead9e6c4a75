"""What a target is, and how one input is judged."""

from __future__ import annotations

import hashlib
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import culm

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
CULM = str(Path(culm.__file__).parent)  # where it was imported from: an installed one, and a mutant, are elsewhere
_OURS = CULM, str(ROOT / "fuzz" / "topics")


@dataclass(frozen=True)
class Target:
    """A place that reads foreign bytes.

    ``name`` is ``TOPIC.WHAT``. ``run`` feeds it bytes: it returns, or raises one of ``allowed``, its documented errors;
    whatever else leaves it is a finding. ``seeds`` are valid inputs: ``run`` returns for each. ``longest`` bounds what
    a guided run makes, in bytes; ``share`` is how much of the time it gets, beside others with 1.
    """

    name: str
    run: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]
    longest: int = 4096
    share: float = 1.0

    def outcome(self, data: bytes) -> Exception | None:
        """Run one input; None if all is as documented, or the error that should not have come."""
        try:
            self.run(data)
        except self.allowed:
            return None
        except Exception as error:  # noqa: BLE001 - whatever comes is the finding
            return error
        return None


def signature(name: str, error: BaseException) -> str:
    """A short name of a finding: the target, and a digest of what was raised where, the same for the same cause."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_OURS)] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    digest = hashlib.sha256(f"{type(error).__name__} {place}".encode()).hexdigest()
    return f"{name}-{type(error).__name__}-{digest[:8]}"
