"""Every fuzz target takes its seeds and its saved corpus, as documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.run import corpus
from fuzz.topics import TOPICS, load, of_topic, targets

ALL = sorted(file.stem for file in corpus.SAVED.glob("*"))
"""The targets, by their saved corpora: loading them takes a second, and every process that runs tests collects all."""
MOST_BYTES = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_seeds_are_valid(name: str) -> None:
    """A seed is a valid input: nothing is raised, not even what may be."""
    target = load(name)
    assert target.seeds
    for content in target.seeds:
        target.run(content)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_the_saved_corpus_has_no_finding(name: str) -> None:
    """Every input that once reached something new has a documented outcome."""
    target = load(name)
    for content in corpus.saved(name):
        error = target.outcome(content)
        assert error is None, (content.hex(), error)


def test_targets_belong_to_topics() -> None:
    """A target is called after its topic, once, and every module of the folder is a topic."""
    names = [target.name for target in targets()]
    assert len(set(names)) == len(names)
    for topic in TOPICS:
        assert all(target.name.startswith(f"{topic}.") for target in of_topic(topic))
    folder = Path(corpus.__file__).parents[1] / "topics"
    assert sorted(TOPICS) == sorted(file.stem for file in folder.glob("*.py") if file.stem != "__init__")
    with pytest.raises(KeyError):
        load("nothing.at_all")


def test_saved_corpora_are_small() -> None:
    """Each target has its file, and there are no others. The files are bounded, and all of them together are."""
    files = list(corpus.SAVED.glob("*"))
    assert {file.name for file in files} == {f"{target.name}.txt" for target in targets()}
    sizes = [file.stat().st_size for file in files]
    assert max(sizes) <= 2 * corpus.MOST_TEXT
    assert sum(sizes) <= MOST_BYTES
