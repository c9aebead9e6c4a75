"""Every key of ``culm.toml``: its kind, its default, and what it means."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from culm.bushbaby import Dialect, Limits
from culm.node.config import NodeLimits
from culm.node.settings import kinds

if TYPE_CHECKING:
    from culm.node.settings.kinds import Kind


@dataclass(frozen=True)
class Key:
    """A setting. ``default`` None: there is none; then ``sample`` stands in the example."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    sample: Any = None


@dataclass(frozen=True)
class Section:
    """A table of the file, or (``is_list``) one that may stand there several times. The first has no name."""

    name: str
    meaning: str
    keys: tuple[Key, ...]
    is_list: bool = False


_NODE = NodeLimits()
_PROTOCOL = Limits()
_MEANINGS = {
    "max_logs": "logs that a peer may announce in one connection",
    "max_wants": "requests of a peer that wait to be served",
    "handshake_seconds": "seconds until a peer has proved who it is",
    "idle_seconds": "seconds without a word from a peer, or without it taking anything, until it is dropped",
    "keepalive_seconds": "seconds of silence until a sign of life is sent",
    "settle_seconds": "seconds of silence until a one-time sync counts as done, if the peer does not say when",
    "max_sessions": "connections at once",
    "max_rate": "bytes a second taken from one peer; 0: any",
    "max_send_rate": "bytes a second sent to one peer; 0: any",
    "max_address_sessions": "connections at once that come from one address",
    "max_address_calls": "connections a minute from one address; a burst of as many is taken",
    "max_unfinished": "bytes of messages that have begun to come, in all connections; half for one address",
    "penalty_seconds": "seconds that one who broke the rules is refused, doubled each time; 0: none",
    "max_penalty_seconds": "the most of them, for an identity; for an address a tenth of that",
    "first_retry_seconds": "seconds until a peer that was not reached is tried again, doubled each time",
    "max_retry_seconds": "the most of them",
    "max_message": "bytes of a Bushbaby message",
    "max_entries_per_message": "entries in one Bushbaby message",
    "max_have_items": "logs in one Bushbaby announcement",
    "max_want_items": "requests in one Bushbaby message",
    "max_boxes": "Bushbaby messages either way before a connection is made anew",
}
_KINDS = {"max_rate": kinds.RATE, "max_send_rate": kinds.RATE, "max_message": kinds.SIZE}


def _limit(name: str, default: float) -> Key:
    kind = _KINDS.get(name) or (kinds.SECONDS if name.endswith("_seconds") else kinds.COUNT)
    return Key(name, kind, default, _MEANINGS[name])


NODE_LIMITS = tuple(_limit(item.name, getattr(_NODE, item.name)) for item in fields(NodeLimits))
PROTOCOL_LIMITS = tuple(_limit(item.name, getattr(_PROTOCOL, item.name)) for item in fields(Limits))

NODE = Section(
    "",
    "the node",
    (
        Key("clump", kinds.TEXT, None, "the clump, as text", "observatory"),
        Key("clump_hex", kinds.HEX, None, "the clump, as any bytes, in place of clump", "0a0b"),
        Key("identity", kinds.TEXT, None, "name of the identity to be to peers; none: the default one", "default"),
        Key("listen", kinds.LISTENERS, (), "where to listen, in as many protocols as wanted (port 0: any)"),
        Key("interval", kinds.INTERVAL, 30.0, "seconds between contacts with a peer that ends them well"),
        Key("download", kinds.RATE, 0, "bytes a second taken from all peers together; 0: any"),
        Key("upload", kinds.RATE, 0, "bytes a second sent to all peers together; 0: any"),
        Key("hoard", kinds.FLAG, False, "ask for everything announced, whatever is followed"),
        Key("promote", kinds.LOGS, (), "logs that are sent to every peer unasked"),
        Key("dialect", kinds.choice(*(dialect.value for dialect in Dialect)), Dialect.DEPLOYED.value,
            "of the Bushbaby protocol: that of the deployed peer, or that of its document"),
        Key("wait_for_hello", kinds.FLAG, None,
            "callers say first who they are (Bushbaby); none: where there is an allow list", True),
        Key("wait_for_auth", kinds.FLAG, None, "callers prove first who they are (Bushbaby); none: as above", True),
        Key("http", kinds.HOST_PORT, None, "where the status page is served", "127.0.0.1:8484"),
        Key("http_token_file", kinds.TEXT, None, "file with the token that readers of the status page need",
            "/etc/culm/http-token"),
        Key("verbose", kinds.FLAG, False, "log what goes well, too"),
        Key("log_format", kinds.choice("text", "json"), "text", "lines for people, or one JSON object a line"),
    ),
)  # fmt: skip
LIMITS = Section("limits", "what a peer, or all of them, may cost", (*NODE_LIMITS, *PROTOCOL_LIMITS))
PROPOSALS = Section(
    "proposals",
    "how to talk to proposals:// peers",
    (
        Key("greedy", kinds.FLAG, False, "pass on payloads before they are checked, and take such"),
        Key("window", kinds.SIZE, 0, "bytes of history to compress payloads with; 0: do not"),
        Key("profile", kinds.choice("normal", "small"), "normal", "small: cost the node little memory"),
    ),
)
PROPOSAL_KEYS = PROPOSALS.keys
PEERS = Section(
    "peers",
    "peers to keep contact with, a table for each",
    (
        Key("url", kinds.PEER, None, "where the peer listens; always needed", "bushbaby://alice.example:7878"),
        Key("name", kinds.TEXT, None, "what it is called in logs; none: its address", "alice"),
        Key("download", kinds.RATE, None, "bytes a second taken from it; none: limits.max_rate", "1MB"),
        Key("upload", kinds.RATE, None, "bytes a second sent to it; none: limits.max_send_rate", "1MB"),
    ),
    is_list=True,
)
PEER_LIMITS = Section(
    "peers.limits", "what this peer may cost: what stands here wins over [limits]", tuple(
        Key(key.name, key.kind, None, key.meaning, key.default)
        for key in NODE_LIMITS
        if key.name in ("max_logs", "max_wants", "handshake_seconds", "idle_seconds", "keepalive_seconds",
                        "settle_seconds", "first_retry_seconds", "max_retry_seconds")
    ),
)  # fmt: skip
SECTIONS = (NODE, LIMITS, PROPOSALS, PEERS, PEER_LIMITS)
