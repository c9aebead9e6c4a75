"""What is fuzzed, by topic: each module has its ``TARGETS``. A topic is loaded when one of its targets is wanted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuzz.target import Target

TOPICS = (
    "bamboo",
    "wire",
    "ranges",
    "negentropy",
    "bushbaby",
    "intervals",
    "proposals",
    "session",
    "store",
    "sealing",
    "node",
    "nodes",
    "spark",
    "cli",
)


def targets() -> list[Target]:
    """All targets, in the order of the topics."""
    return [target for topic in TOPICS for target in of_topic(topic)]


def chosen(names: Iterable[str]) -> list[Target]:
    """The targets of these names, or topics, in order; KeyError for one that is neither. Loads no other topic."""
    wanted = list(dict.fromkeys(names))
    found = [target for topic in TOPICS if _topics(wanted, topic) for target in of_topic(topic)]
    for name in wanted:
        if name not in TOPICS and name not in {target.name for target in found}:
            raise KeyError(name)
    return [target for target in found if {target.name, target.name.split(".")[0]} & set(wanted)]


def _topics(names: Iterable[str], topic: str) -> bool:
    return any(name.split(".")[0] == topic for name in names)


def of_topic(topic: str) -> tuple[Target, ...]:
    """The targets of a topic."""
    return cast("tuple[Target, ...]", import_module(f"fuzz.topics.{topic}").TARGETS)


def load(name: str) -> Target:
    """One target, loading nothing but its topic; KeyError if there is none of that name."""
    topic = name.split(".", 1)[0]
    if topic not in TOPICS:
        raise KeyError(name)
    return {target.name: target for target in of_topic(topic)}[name]
