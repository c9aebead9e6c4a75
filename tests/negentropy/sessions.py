"""Running whole sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.negentropy import ArrayStorage, Negentropy, even

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.negentropy import Split

Item = tuple[int, bytes]
MAX_ROUNDS = 1000


def reconcile(
    ours: Iterable[Item],
    theirs: Iterable[Item],
    limits: tuple[int, int] = (0, 0),
    *,
    reference_bytes: bool = False,
    splits: tuple[Split, Split] = (even, even),
) -> tuple[Negentropy, list[bytes]]:
    """A session to its end: the initiator, and all messages, the initiator's first."""
    client, server = (
        Negentropy(ArrayStorage.of(items), limit, reference_bytes=reference_bytes, split=split)
        for items, limit, split in zip((ours, theirs), limits, splits, strict=True)
    )
    message: bytes | None = client.initiate()
    messages: list[bytes] = []
    while message is not None:
        assert len(messages) < 2 * MAX_ROUNDS, "the session does not end"
        messages.append(message)
        answer = server.reconcile(message)
        assert answer is not None
        messages.append(answer)
        message = client.reconcile(answer)
    return client, messages
