"""The store against a dictionary, under any sequence of operations by two writers while others read."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from tests.models import MARKS, count, models
from tests.store.machine_transfers import Transfers

pytestmark = MARKS

SEEDS = st.integers(0, 2**48)
"""What a step does in detail follows from a number, so that all there is to do has its share."""

ADDING = ["add_part", "add_part", "add_share", "add_of_all_logs", "add_proof"]
CHANGING = [
    "append",
    "append",
    "append_in_a_row",
    "append_in_a_row",
    "forget",
    "forget",
    "want_again",
    "undo",
    "disk_is_full",
    "open_again",
    "sweep_up",
]
BRINGING = ["begin_transfer", *(["write"] * 3), *(["end_transfer"] * 2), "replace"]
READING = ["walk", "walk", "walk", "reconcile", "reconcile", "news", "verify", "move"]


class Machine(Transfers):
    """Anything may happen at any time, each by chances of its own."""

    def _do(self, what: list[str]) -> None:
        chosen = self.rng.choice(what)
        count("operations")
        getattr(self, chosen)(self.rng.randrange(3))

    @rule(seed=SEEDS)
    def adding(self, seed: int) -> None:
        """Entries come."""
        self.rng.seed(seed)
        self._do(ADDING)

    @rule(seed=SEEDS)
    def changing(self, seed: int) -> None:
        """Somebody publishes, or changes what is held; something breaks off."""
        self.rng.seed(seed)
        self._do(CHANGING)

    @precondition(lambda self: any(model.payloads for model in self.model))
    @rule(seed=SEEDS)
    def bringing(self, seed: int) -> None:
        """A payload comes piece by piece."""
        self.rng.seed(seed)
        for _ in range(self.rng.randint(1, 4)):
            self._do(BRINGING if self.transfers else ["begin_transfer"])

    @rule(seed=SEEDS)
    def reading(self, seed: int) -> None:
        """Somebody reads."""
        self.rng.seed(seed)
        self._do(READING)


def test_the_store_is_a_dictionary() -> None:
    """After every step of any sequence of operations the store says what the dictionary says, to every question."""
    run_state_machine_as_test(Machine, settings=models(12, stateful_step_count=40))
