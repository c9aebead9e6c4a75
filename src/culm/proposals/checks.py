"""What speaks against a proposal of the peer, and what a cancellation must prove.

Specification: docs/specs/proposals.md, "Proposals", "Cancellations".
"""

from culm.bamboo import Entry, ForkProof, are_authentic, path
from culm.errors import EncodingError, RemoteProtocolError
from culm.proposals.messages import Cancel, Code, Proposal
from culm.proposals.sequence import is_self_contained, outer_seq
from culm.transfer import Source, entry_at
from culm.types import Log


def fault_at(channel: str, at: int, error: EncodingError | RemoteProtocolError) -> RemoteProtocolError:
    """A fault with its place: a byte of the channel, counted from 0. ``at``: where the message begins."""
    if isinstance(error, EncodingError):
        where = f"the {channel} channel at byte {at + error.offset}"
        return RemoteProtocolError(f"the peer broke the format of {where}: {error}")
    return RemoteProtocolError(f"{error} (message at byte {at} of the {channel} channel)")


def what_is_wrong(proposal: Proposal) -> str | None:
    """Why a proposal cannot be meant; None if it can."""
    start, lower = proposal.start, proposal.lower
    if lower is not None and (lower > start or lower not in path(start, 1)):
        return f"entry {lower} is not in the lower certificate pool of entry {start}"
    if proposal.end is not None and proposal.end < start:
        return f"the range begins at entry {start} and ends before it, at {proposal.end}"
    if proposal.end is not None and proposal.upper is not None and proposal.upper < proposal.end:
        return f"the upper pool ends at entry {proposal.upper}, before the range, which ends at {proposal.end}"
    return None


def fork_up_to(proposal: Proposal, seq: int, source: Source) -> Cancel | None:
    """A cancellation that shows the lowest known fork up to an entry of the log; None if there is none."""
    proofs = (proof for proof in source.proofs(proposal.log) if proof.position <= seq)
    proof = min(proofs, key=lambda proof: proof.position, default=None)
    return None if proof is None else Cancel(proposal.id, Code.FORKED, (proof.first, proof.second))


def objection(proposal: Proposal, source: Source) -> Cancel | None:
    """What of what is held speaks against a proposal, so that it is cancelled; None if nothing does."""
    log, start, lower = proposal.log, proposal.start, proposal.lower
    if (fork := fork_up_to(proposal, start, source)) is not None:
        return fork
    end = source.held(log).end()
    if end is not None and end.seq < start:
        return Cancel(proposal.id, Code.END_OF_LOG, seq=end.seq)
    outer = outer_seq(proposal)
    held = None if outer is None else _shown(source, log, outer)
    if held is not None and held.hash != proposal.hash:
        return Cancel(proposal.id, Code.HASH_DIFFERS, (held,))
    if outer is not None and held is None and lower is not None:
        above = _shown(source, log, lower)
        if above is not None and dict(above.links)[outer] != proposal.hash:
            return Cancel(proposal.id, Code.DO_NOT_RETRY)
    if lower is None:
        held = entry_at(source, log, start)
        if held is not None and (proposal.offset or 0) > held.size:
            return Cancel(proposal.id, Code.DO_NOT_RETRY)
    return None


def can_rebuild(proposal: Proposal, source: Source) -> bool:
    """Whether the entries that a proposal brings could be put together, with what is held.

    Another entry than the one whose hash the proposal names is of no use for that. Nothing but this says so if it must
    not be shown to the peer, because then ``objection`` may not name it.
    """
    outer = outer_seq(proposal)
    if proposal.payload_only:
        run = source.held(proposal.log).entries_around(proposal.start)
        return proposal.end is not None and run is not None and proposal.end <= run[1]
    if proposal.lower is not None and is_self_contained(proposal):
        return True
    held = None if outer is None else entry_at(source, proposal.log, outer)
    return held is not None and held.hash == proposal.hash


def _shown(source: Source, log: Log, seq: int) -> Entry | None:
    """An entry that may be shown to this peer: of a forked log, only those below the fork are."""
    return None if source.held(log).entries_around(seq) is None else entry_at(source, log, seq)


def check_cancel(proposal: Proposal, cancel: Cancel) -> None:
    """``RemoteProtocolError`` if the entries of a cancellation do not show what they are to show."""
    entries = cancel.entries
    if not entries:
        return
    if any(entry.log != proposal.log for entry in entries) or not all(are_authentic(entries)):
        raise RemoteProtocolError("the peer cancelled with entries of another log, or with a bad signature")
    if cancel.code is Code.HASH_DIFFERS:
        if entries[0].seq != outer_seq(proposal) or entries[0].hash == proposal.hash:
            raise RemoteProtocolError("the peer cancelled because of a hash, with an entry that has the expected hash")
    elif ForkProof.of(*entries) is None:
        raise RemoteProtocolError("the peer cancelled because of a fork, with entries that agree")
