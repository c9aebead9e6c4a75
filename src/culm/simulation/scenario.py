"""What is simulated: the parameters of one run, each with its range and with what the command line says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from math import prod
from typing import Any

from culm.errors import ConfigError

PROTOCOLS = ("culm", "bushbaby", "intervals", "proposals", "negentropy")
DIRECTIONS = ("both", "push", "pull")
MOST_SCENARIOS = 100_000
"""Scenarios of a sweep. A few more values for each option multiply to far more than anybody wants to wait for, so the
mistake is caught here."""

# The ranges below: the lower bounds are what makes sense. The upper ones keep arrays within a process's memory (nodes,
# degree, fanout), keep what a node knows within one 64-bit word (origins), or refuse what can only be a slip of the
# keyboard.


def _one_of(default: str, choices: Sequence[str], text: str) -> Any:  # noqa: ANN401 - as dataclasses.field
    return field(default=default, metadata={"choices": choices, "help": text})


def _number(default: float, least: float, most: float, text: str, option: str = "") -> Any:  # noqa: ANN401
    return field(default=default, metadata={"least": least, "most": most, "help": text, "option": option})


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: ``entries`` new entries with payloads of ``payload`` bytes, in ``origins`` logs, each at another node.

    ``logs`` and ``log_entries``: how many logs all nodes hold at the beginning, and entries in each; comparing them
    costs bytes in every session. ``leave`` and ``rejoin`` are probabilities by round, ``loss`` is one by call.
    ``ConfigError`` names a parameter that is out of range.
    """

    nodes: int = _number(1000, 2, 10_000_000, "number of nodes")
    protocol: str = _one_of("bushbaby", PROTOCOLS, ", ".join(PROTOCOLS))
    degree: int = _number(8, 0, 256, "neighbours of a node, an even number; 0: a node can call any other")
    fanout: int = _number(1, 1, 64, "number of peers that a node calls in a round")
    direction: str = _one_of("both", DIRECTIONS, "both, push or pull")
    loss: float = _number(0.0, 0.0, 1.0, "the chance that a link is down in a round")
    leave: float = _number(0.0, 0.0, 1.0, "the chance that a node goes offline in a round", option="churn")
    rejoin: float = _number(0.2, 0.0, 1.0, "the chance that an offline node comes back in a round")
    entries: int = _number(100, 1, 10**9, "number of new entries")
    origins: int = _number(1, 1, 64, "logs that have grown, each at one node (up to 64)")
    payload: int = _number(1000, 0, 2**40, "size of a payload, in bytes")
    logs: int = _number(100, 1, 10**7, "number of logs that all nodes have")
    log_entries: int = _number(100, 0, 10**9, "number of entries of each of these logs")
    bandwidth: float = _number(1.25e6, 1.0, 1e15, "bytes a second that a node sends and receives together")
    latency: float = _number(0.05, 0.0, 1e6, "time a message takes one way, in seconds")
    interval: float = _number(1.0, 0.0, 1e9, "shortest time from round to round, in seconds")
    max_rounds: int = _number(500, 1, 100_000, "number of rounds after which a simulation stops")
    seed: int = _number(1, 0, 2**63 - 1, "of all chance")

    def __post_init__(self) -> None:
        """Check all parameters."""
        for one in fields(self):
            value, limits = getattr(self, one.name), one.metadata
            if "choices" in limits:
                if value not in limits["choices"]:
                    known = ", ".join(limits["choices"])
                    raise ConfigError(f"there is no {one.name} {value!r}; choose one of {known}")
            elif not limits["least"] <= value <= limits["most"]:
                accepted = f"{limits['least']} to {limits['most']}"
                raise ConfigError(f"a simulation with {one.name} {value}; accepted: {accepted}")
        if self.degree % 2 or (self.degree and self.degree >= self.nodes):
            raise ConfigError(f"a degree of {self.degree} among {self.nodes} nodes; accepted: 0 or a lower even number")
        if self.origins > min(self.entries, self.nodes, self.logs):
            raise ConfigError(f"{self.origins} origins; accepted: not more than entries, nodes or logs")
        if self.entries % self.origins:
            raise ConfigError(f"{self.entries} entries cannot be divided evenly among {self.origins} origins")

    @property
    def session(self) -> tuple[str, int, int, int, int, int]:
        """What the cost of its sessions depends on; third, how many new entries each log that grew has."""
        return self.protocol, self.origins, self.entries // self.origins, self.payload, self.logs, self.log_entries


PARAMETERS = {one.name: one for one in fields(Scenario)}
"""The fields of a scenario. Their ``metadata`` has ``help`` and, where it has another name there, the ``option``."""


def sweep_of(parameters: Mapping[str, Sequence[Any]]) -> list[Scenario]:
    """A scenario for every combination of the values.

    ``ConfigError`` if there are more than ``MOST_SCENARIOS``, or if one of them makes no sense.
    """
    count = prod(map(len, parameters.values()))
    if count > MOST_SCENARIOS:
        raise ConfigError(f"the options combine to {count} scenarios; accepted: at most {MOST_SCENARIOS}")
    return [Scenario(**dict(zip(parameters, values, strict=True))) for values in product(*parameters.values())]
