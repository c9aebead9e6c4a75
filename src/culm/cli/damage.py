"""What a command does about payloads that it finds damaged on the disk."""

from collections.abc import Iterable

from culm.cli.output import note
from culm.errors import CulmError, PayloadDamaged
from culm.node.home import Home


def count_as_missing(home: Home, damages: Iterable[PayloadDamaged]) -> None:
    """Delete the damaged bytes, so that the payloads are fetched again, and tell the user."""
    names = home.names()
    for damage in damages:
        where = names.place(damage.place)
        try:
            with home.store() as store:
                dropped = store.drop_damaged(damage)
        except CulmError as error:  # for example a home on a disk that is mounted for reading only
            note(f"the payload of {where} stays as it is: {error}")
        else:
            if dropped:
                note(f"the payload of {where} counts as missing now; sync with a peer that has it, or import it")
