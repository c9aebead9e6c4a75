"""An audit log for somebody who trusts neither its keeper nor the way it came.

Shows: stores without a node, export files, verification, tampering, forks.

    python examples/audit_log.py

A clerk appends events and hands out an export. An auditor, who knows nothing but the clerk's public key, reads it into
a store of her own: what is in there is authentic, complete, and in order. Then the file is changed on its way; and then
the clerk tries to tell two stories.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from culm import Identity, Store
from culm.store.exchange import Importer, export_bundle

EVENTS = 1  # the log's id


def export(store: Store, author: bytes) -> bytes:
    """The whole log, payloads included, as a file's content."""
    file = io.BytesIO()
    export_bundle(store, [(author, EVENTS)], file)
    return file.getvalue()


def audit(store: Path, author: bytes, file: bytes) -> str:
    """Take a file into the auditor's store, and say what it is worth."""
    with Store(store) as mine:
        report = Importer(mine).run(io.BytesIO(file))
        if report.refused:
            _, reason = report.refused[0]
            return f"refused: {reason}"
        for proof in mine.fork_proofs((author, EVENTS)):
            return f"two stories from entry {proof.position} on: {proof.explain()}"
        check = mine.verify()
        entries = [stored.entry.seq for stored in mine.entries((author, EVENTS))]
        if check.problems or entries != list(range(1, len(entries) + 1)):
            return "incomplete"
        return f"authentic and complete, entries 1 to {len(entries)}"


def main(folder: Path) -> None:
    """The clerk, the auditor, and what can go wrong."""
    clerk = Identity.create()
    with Store(folder / "clerk.db") as store:
        for event in ("door opened", "door closed", "alarm armed"):
            store.append(clerk, EVENTS, [event.encode()])
        honest = export(store, clerk.public)
    print("an honest export:", audit(folder / "auditor.db", clerk.public, honest))

    changed = honest.replace(b"door opened", b"door forced")
    print("a changed export:", audit(folder / "second.db", clerk.public, changed))

    shutil.copy(folder / "clerk.db", folder / "twin.db")  # the same log, to be gone on with in another way
    for path, event in (("clerk.db", "alarm rang"), ("twin.db", "nothing happened")):
        with Store(folder / path) as store:
            store.append(clerk, EVENTS, [event.encode()])
            verdict = audit(folder / "auditor.db", clerk.public, export(store, clerk.public))
        print(f"told {event!r}:", verdict)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
