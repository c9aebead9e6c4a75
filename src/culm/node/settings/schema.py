"""Every key of ``culm.toml``: its kind, its default, and its meaning; and the pages that are made from them.

The meanings are read by people in the example file, in the docs and in ``culm config``, so each is a phrase that stands
alone: unit first, then what is counted, then special values.
"""

from dataclasses import dataclass, fields
from typing import Any

from culm.bamboo.verification import Verify
from culm.bushbaby import Dialect, Limits
from culm.node.config import NodeLimits
from culm.node.settings import kinds
from culm.node.settings.kinds import Kind


@dataclass(frozen=True)
class Key:
    """A setting. If ``default`` is None there is none, and the example file shows ``sample``."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    sample: Any = None


@dataclass(frozen=True)
class Section:
    """A table of the file, or with ``is_list`` a list of tables. The top level has the empty name."""

    name: str
    meaning: str
    keys: tuple[Key, ...]
    is_list: bool = False

    def full_name(self, key: str) -> str:
        """The name of a key among all settings, such as ``limits.max_logs``."""
        return f"{self.name}.{key}" if self.name else key


_NODE = NodeLimits()
_PROTOCOL = Limits()
_MEANINGS = {
    "max_logs": "most logs that a peer can announce in one connection",
    "max_wants": "most requests of a peer that wait to be served",
    "handshake_seconds": "seconds that a peer has to prove its identity",
    "idle_seconds": "seconds without a byte received from a peer, or taken by it, until the connection is closed;"
    " not so for a live session by intervals that waits for news",
    "keepalive_seconds": "seconds of silence until a keep-alive message is sent",
    "settle_seconds": "seconds of silence until a one-time sync ends, for protocols without an end of their own",
    "max_sessions": "most connections at once",
    "max_rate": "bytes a second received from one peer; 0: no limit",
    "max_send_rate": "bytes a second sent to one peer; 0: no limit",
    "max_address_sessions": "most connections at once from one address",
    "max_address_calls": "connections a minute from one address; as many are accepted in one burst",
    "max_unfinished": "bytes of incomplete messages in memory, over all connections; half for one address",
    "penalty_seconds": "seconds that a peer which broke the protocol is refused, doubled each time; 0: never",
    "max_penalty_seconds": "longest such time for an identity; for an address a tenth of it",
    "first_retry_seconds": "seconds until the next attempt to reach a peer, doubled after each failure",
    "max_retry_seconds": "longest time between two attempts",
    "max_message": "most bytes of a Bushbaby message",
    "max_entries_per_message": "most entries in one Bushbaby message",
    "max_have_items": "most logs in one Bushbaby announcement",
    "max_want_items": "most requests in one Bushbaby message",
    "max_boxes": "Bushbaby messages either way before a new connection is made",
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
        Key("clump_hex", kinds.HEX, None, "the clump, as bytes in hex, instead of clump", "0a0b"),
        Key("identity", kinds.TEXT, None, "name of the identity to show to peers; none: the default one", "default"),
        Key("listen", kinds.LISTENERS, (), "addresses to listen at, of any protocols (port 0: any free port)"),
        Key("lan", kinds.FLAG, False, "find nodes of the clump on the same network, and be found by them (culm serve)"),
        Key("lan_at", kinds.IPS, (), "addresses of this machine on whose networks lan is used; none: all networks"),
        Key("lan_weak", kinds.FLAG, False,
            "use lan with a clump of under 16 bytes, which an observer of the network can guess"),
        Key("interval", kinds.INTERVAL, 30.0, "seconds between connections to a peer, if they end without an error"),
        Key("download", kinds.RATE, 0, "bytes a second received from all peers together; 0: no limit"),
        Key("upload", kinds.RATE, 0, "bytes a second sent to all peers together; 0: no limit"),
        Key("scrub_days", kinds.DAYS, 0.0, "days in which the node reads all payloads once, to find damage; 0: never"),
        Key("verify", kinds.choice(*(way.value for way in Verify)), Verify.BATCHES.value,
            "how signatures are checked: many at once where the native core is, or one by one"),
        Key("hoard", kinds.FLAG, False, "ask for everything that peers announce, not only for what you follow"),
        Key("relay", kinds.FLAG, False, "also ask for what culm:// peers want, on their behalf"),
        Key("quota", kinds.SIZE, 0, "bytes that the logs of others may take in the clump (culm serve); 0: no limit"),
        Key("author_quota", kinds.SIZE, 0,
            "bytes that the logs of each other author may take in the clump (culm serve); 0: no limit"),
        Key("promote", kinds.LOGS, (), "logs that are sent to every peer, even unasked"),
        Key("dialect", kinds.choice(*(dialect.value for dialect in Dialect)), None,
            "the only dialect of the Bushbaby protocol to speak; none: each peer's own", Dialect.DEPLOYED.value),
        Key("wait_for_hello", kinds.FLAG, None,
            "let callers send their hello first (Bushbaby); none: only with an allow list", True),
        Key("wait_for_auth", kinds.FLAG, None,
            "let callers prove their identity first (Bushbaby); none: only with an allow list", True),
        Key("withhold_have", kinds.FLAG, False,
            "announce nothing to Bushbaby peers; what they ask for, and what is promoted, is sent"),
        Key("ignore_want", kinds.FLAG, False, "send Bushbaby peers nothing that they ask for, only what is promoted"),
        Key("stateless", kinds.FLAG, False,
            "answer intervals:// requests with what is held now, and keep none open for news"),
        Key("refuse_ranges", kinds.FEATURES, (),
            "features of ranges that culm:// peers must not use when they say what they want"),
        Key("avoid_ranges", kinds.FEATURES, (),
            "features of ranges that are not used when culm:// peers are told what is wanted"),
        Key("http", kinds.HOST_PORT, None, "address of the status page", "127.0.0.1:8484"),
        Key("http_token_file", kinds.TEXT, None, "file with the token that viewers of the status page must present",
            "/etc/culm/http-token"),
        Key("http_payloads", kinds.FLAG, False, "viewers of the status page can also read payloads"),
        Key("web_origins", kinds.ORIGINS, (),
            'origins of web pages that may read at ws:// and wss:// listeners; "*": of any site'),
        Key("web_exchange", kinds.FLAG, False,
            "programs that call at ws:// and wss:// may bring entries, too; web pages only read"),
        Key("web_token_file", kinds.TEXT, None,
            "file with tokens, one a line; readers at ws:// and wss:// must present one", "/etc/culm/web-tokens"),
        Key("web_certificate_file", kinds.TEXT, None, "certificate of wss:// listeners, with its chain, as PEM",
            "/etc/culm/fullchain.pem"),
        Key("web_key_file", kinds.TEXT, None, "private key of that certificate, as PEM", "/etc/culm/privkey.pem"),
        Key("verbose", kinds.FLAG, False, "also log what succeeds"),
        Key("log_format", kinds.choice("text", "json"), "text", "log lines as text, or one JSON object a line"),
    ),
)  # fmt: skip
LIMITS = Section("limits", "limits on what a peer, or all peers together, can cost", (*NODE_LIMITS, *PROTOCOL_LIMITS))
PROPOSALS = Section(
    "proposals",
    "how to talk to proposals:// peers",
    (
        Key("greedy", kinds.FLAG, False, "pass on payloads before they are verified, and accept such payloads"),
        Key("window", kinds.SIZE, 0, "bytes of history to compress payloads with; 0: no compression"),
        Key("profile", kinds.choice("normal", "small"), "normal", "small uses less memory"),
        Key("mandatory", kinds.FLAG, False, "have peers say that they lack a payload before they leave it out"),
        Key("notify_only", kinds.FLAG, False, "only learn which entries peers have, and fetch none"),
        Key("notify_above", kinds.SIZE, None, "only learn of payloads larger than this, and do not fetch them", "10MB"),
    ),
)
PEERS = Section(
    "peers",
    "peers to stay connected to, a table for each",
    (
        Key("url", kinds.PEER, None, "address that the peer listens at; required", "bushbaby://alice.example:7878"),
        Key("name", kinds.TEXT, None, "name of the peer in log lines; none: its address", "alice"),
        Key("download", kinds.RATE, None, "bytes a second received from it; none: limits.max_rate", "1MB"),
        Key("upload", kinds.RATE, None, "bytes a second sent to it; none: limits.max_send_rate", "1MB"),
        Key("token_file", kinds.TEXT, None, "file with the token that the peer wants (ws, wss)", "/etc/culm/token"),
        Key("newest", kinds.NEWEST, None, "ask for so many of the newest entries of each log at most (intervals)", 100),
        Key("newest_first", kinds.FLAG, None, "ask for the newest entries first (intervals)", True),
        Key("unverified", kinds.FLAG, None, "also take entries that the peer has not verified (intervals)", True),
        Key(
            "fork", kinds.choice("default", "local"), None, "how the peer answers for a forked log (intervals)", "local"
        ),
        Key(
            "anchor",
            kinds.ANCHOR,
            None,
            "an entry of the branch to trust, with fork local (intervals)",
            f"5:{64 * 'ab'}",
        ),
        Key("min_payload", kinds.SIZE, None, "leave out smaller payloads (intervals, proposals)", "100"),
        Key("max_payload", kinds.SIZE, None, "leave out larger payloads (intervals, proposals)", "1MB"),
        *(
            Key(key.name, key.kind, None, f"as in [proposals], for this peer: {key.meaning}", key.sample or key.default)
            for key in PROPOSALS.keys
        ),
    ),
    is_list=True,
)
PEER_LIMITS = Section(
    "peers.limits", "limits for this peer, which override [limits]", tuple(
        Key(key.name, key.kind, None, key.meaning, key.default)
        for key in NODE_LIMITS
        if key.name in ("max_logs", "max_wants", "handshake_seconds", "idle_seconds", "keepalive_seconds",
                        "settle_seconds", "first_retry_seconds", "max_retry_seconds")
    ),
)  # fmt: skip
SECTIONS = (NODE, LIMITS, PROPOSALS, PEERS, PEER_LIMITS)


def example() -> str:
    """A file with every setting as a comment, with its default or an example value, to be uncommented where needed."""
    lines = [
        "# Culm's configuration: HOME/culm.toml, or --config FILE.",
        "# Every setting is listed with its default, or with an example if it has no default.",
    ]
    for section in SECTIONS:
        lines += ["", f"# {section.meaning[:1].upper()}{section.meaning[1:]}."]
        if section.name:
            lines.append(f"#{_header(section)}")
        for key in section.keys:
            shown = key.kind.read(key.sample) if key.default is None else key.default
            line = f"#{key.name} = {written(key, shown)}"
            lines.append(f"{line:<44} # {key.meaning}")
    return "\n".join(lines) + "\n"


def _header(section: Section) -> str:
    return f"[[{section.name}]]" if section.is_list else f"[{section.name}]"


def written(key: Key, value: object) -> str:
    """A setting's value as TOML; the empty string for None."""
    return "" if value is None else key.kind.write(value)


def tables() -> str:
    """The settings as tables in Markdown, for ``docs/configuration.md``."""
    parts = []
    for section in SECTIONS:
        title = f"`{_header(section)}`: {section.meaning}" if section.name else f"At the top: {section.meaning}"
        rows = [
            f"| `{key.name}` | {key.kind.expected.replace('|', chr(92) + '|')} | {_default(key)} | {key.meaning} |"
            for key in section.keys
        ]
        parts.append("\n".join([f"### {title}", "", "| key | value | default | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _default(key: Key) -> str:
    return "none" if key.default is None else f"`{written(key, key.default)}`"
