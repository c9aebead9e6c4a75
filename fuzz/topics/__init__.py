"""What is fuzzed, by topic: each module has its ``TARGETS``. A topic is loaded when one of its targets is wanted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
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
    "node",
    "nodes",
    "spark",
    "cli",
)


def targets() -> list[Target]:
    """All targets, in the order of the topics."""
    return [target for topic in TOPICS for target in of_topic(topic)]


def of_topic(topic: str) -> tuple[Target, ...]:
    """The targets of a topic."""
    return cast("tuple[Target, ...]", import_module(f"fuzz.topics.{topic}").TARGETS)


def load(name: str) -> Target:
    """One target, loading nothing but its topic; KeyError if there is none of that name."""
    topic = name.split(".", 1)[0]
    if topic not in TOPICS:
        raise KeyError(name)
    return {target.name: target for target in of_topic(topic)}[name]
