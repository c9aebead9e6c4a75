"""What ``test_kills`` kills: two streams into two Delta tables, one of a live peer and one of a folder.

Each is what stands on the page. It says ``ready`` when Spark has started, waits for a line, and then prints how many
rows its streams have read since, whenever that changes. A stream that fails is started again, as whoever runs one does:
on a busy machine Spark's own failures end a stream now and then, with a worker that took more than ten seconds to
start::

    python -m tests.lakehouse.follower PEER FOLDER WORK
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

from culm.spark import session
from pyspark_culm import DefaultSource
from tests.docs.pages import blocks

PAGE = Path(__file__).parents[2] / "docs" / "spark-stream.md"
LOOK_SECONDS = 0.1  # between two looks at how far the streams are
MOST_FAILURES = 3  # of one stream in a life: what fails each time is a defect


def follow(source: str, work: Path) -> Any:
    """Start the query of the page, from ``source``, with everything that it keeps below ``work``.

    The format is registered anew before, as the page says where it has several streams.
    """
    (text,) = (block.text for block in blocks(PAGE) if 'format("delta")' in block.text)
    page: dict[str, Any] = {"session": session("local[1]")}
    page["session"].dataSource.register(DefaultSource)
    exec(text.replace("culm://KEY@HOST:7979", source).replace("/srv", str(work)), page)
    return page["query"]


def main(peer: str, folder: str, work: str) -> None:
    """Follow until killed, or until a stream has failed too often."""
    session("local[1]")
    say("ready")
    sys.stdin.readline()
    sources = {"live": peer, "drop": folder}
    queries = {name: follow(source, Path(work) / name) for name, source in sources.items()}
    failures = Counter[str]()
    told = -1
    while True:
        for name, query in queries.items():
            try:
                query.awaitTermination(LOOK_SECONDS)
            except StreamingQueryException as error:
                failures[name] += 1
                sys.stderr.write(f"{name} failed: {error}\n")
                if failures[name] > MOST_FAILURES:
                    raise
                queries[name] = follow(sources[name], Path(work) / name)
        rows = sum(progress["numInputRows"] for query in queries.values() for progress in query.recentProgress)
        if rows != told:
            told = rows
            say(rows)


def say(what: object) -> None:
    """Print a line for the test."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
