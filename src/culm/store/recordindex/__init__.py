"""Record indexes as folders of files: sets far larger than memory, to reconcile (docs/spark-fingerprint.md)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm.store.recordindex.storage import IndexStorage

__all__ = ["IndexStorage"]


def __getattr__(name: str) -> object:
    """Load ``IndexStorage`` when it is first used, because it needs numpy, which takes long to load."""
    if name != "IndexStorage":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from culm.store.recordindex.storage import IndexStorage  # noqa: PLC0415 - see above

    return IndexStorage
