"""Whether a node is well: asks ``/healthz`` of the status page that its configuration names. Exit code 0 or 1.

Where the configuration names no status page there is nothing to ask: that the program runs is all that is known.
"""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

from culm.errors import ConfigError
from culm.node.settings.reading import load

_SECONDS = 4.0
_ANY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - what is listened at, to be asked from inside


def main(config: str) -> int:
    """Ask; the exit code."""
    try:
        place = load(Path(config), must_exist=False)["http"]
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    if place is None:
        return 0
    host, _, port = place.rpartition(":")
    url = f"http://{_ANY.get(host, host)}:{port}/healthz"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except OSError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
