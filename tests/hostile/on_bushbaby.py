"""Attacks on ``bushbaby://``: by strangers, and by those who know the clump."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache

from culm.bamboo import MAX_U64, Entry, Identity, yamf_hash
from culm.bushbaby import Connection, HaveItem, HaveReceived, WantItem, WantReceived
from culm.bushbaby.messages import BAMBOO, FORKS, HAVE, HELLO, WANT, encode_have_item, encode_want_item
from culm.testing.builders import LogBuilder
from culm.wire.cbor import ARRAY, BYTES, push_head
from culm.wire.stlv import encode_header
from tests.hostile.attack import Attack, Field
from tests.hostile.serving import ended_log, forged_log, forked_logs, sees_the_fork
from tests.hostile.wires import Cut, Gossip, Wire

CUT = "cut off"
MIB = 1024 * 1024


def _array(items: list[bytes]) -> bytes:
    out = bytearray()
    push_head(out, ARRAY, len(items))
    return bytes(out) + b"".join(items)


async def stalls(field: Field) -> str:
    """Connects and says nothing."""
    wire = await Wire.dial(field.target, "bushbaby", field.address)
    await wire.swallow()
    return CUT


async def is_of_another_clump(field: Field) -> str:
    """Says hello in a clump that is not the node's."""
    wire = await Wire.dial(field.target, "bushbaby", field.address)
    connection = Connection(Identity(os.urandom(32)), b"another", random_bytes=os.urandom)
    with suppress(Cut):
        await wire.send(connection.data_to_send())
    await wire.swallow()
    return CUT


async def claims_hello(field: Field) -> str:
    """Claims a hello of 2^60 bytes."""
    wire = await Wire.dial(field.target, "bushbaby", field.address)
    with suppress(Cut):
        await wire.send(encode_header(HELLO, 1 << 60))
    await wire.swallow()
    return CUT


async def reflects(field: Field) -> str:
    """Sends back what the node says."""
    wire = await Wire.dial(field.target, "bushbaby", field.address)
    with suppress(Cut):
        while True:
            await wire.send(await wire.read())
    return CUT


async def _until_cut(gossip: Gossip) -> str:
    await gossip.wire.swallow()
    return CUT


async def replays(field: Field) -> str:
    """Sends a message twice, the same bytes."""
    gossip = await Gossip.join(field.target, field.address)
    gossip.connection.send_want([])
    message = gossip.connection.data_to_send()
    with suppress(Cut):
        await gossip.wire.send(message, message)
    return await _until_cut(gossip)


async def claims_message(field: Field) -> str:
    """Claims a message of 2^60 bytes."""
    gossip = await Gossip.join(field.target, field.address)
    with suppress(Cut):
        await gossip.wire.send(encode_header(BAMBOO, 1 << 60))
    return await _until_cut(gossip)


async def half_messages(field: Field) -> str:
    """Sends all but the last byte of a message of 32 MiB, in sixteen connections."""
    gossips = [await Gossip.join(field.target, field.address) for _ in range(16)]
    for gossip in gossips:
        with suppress(Cut):
            await gossip.wire.send(encode_header(BAMBOO, 32 * MIB), *([bytes(MIB - 1)] * 32))
    for gossip in gossips:
        await _until_cut(gossip)
    return CUT


async def announces(field: Field) -> str:
    """Announces more than a million logs that there are not."""
    gossip = await Gossip.join(field.target, field.address)
    with suppress(Cut):
        for first in range(0, 1_100_000 if field.is_long else 100_000, 25_000):
            author = Identity(os.urandom(32)).public
            items = [encode_have_item(HaveItem(author, first + number, MAX_U64)) for number in range(25_000)]
            await gossip.box(HAVE, _array(items))
    gossip.wire.close()
    return CUT


async def wants_too_much(field: Field) -> str:
    """Wants everything of every log, more than 100,000 times."""
    gossip = await Gossip.join(field.target, field.address)
    item = encode_want_item(WantItem(field.target.author))
    message = _array([item] * 20_000)
    with suppress(Cut):
        for _ in range(7):
            await gossip.box(WANT, message)
    return await _until_cut(gossip)


async def wants_unread(field: Field) -> str:
    """Wants everything and reads nothing."""
    gossip = await Gossip.join(field.target, field.address)
    gossip.wire.stop_reading()
    with suppress(Cut):
        await gossip.box(WANT, _array([encode_want_item(WantItem(field.target.author))] * 1000))
    await field.over.wait()
    gossip.wire.close()
    return CUT


async def tiny_messages(field: Field) -> str:
    """Sends empty messages, as many as a connection takes."""
    gossip = await Gossip.join(field.target, field.address)
    count = 0
    with suppress(Cut):
        for _ in field.rounds(10):
            for _ in range(1000):
                gossip.connection.send_want([])
            count += 1000
            await gossip.flush()
            if field.over.is_set():
                break
    gossip.wire.close()
    return f"{count} messages"


@lru_cache(1)
def _lying_log() -> tuple[LogBuilder, list[bytes]]:
    """A log, and its entries with signatures that are not its author's."""
    log = LogBuilder(Identity(os.urandom(32)))
    wrong = []
    for number in range(300):
        data = bytearray(log.append(b"%d" % number).encoded)
        data[-1] ^= 1
        wrong.append(bytes(data))
    return log, wrong


async def forges(field: Field) -> str:
    """Sends 300 entries with signatures that are not their author's."""
    gossip = await Gossip.join(field.target, field.address)
    log, wrong = _lying_log()
    items = [data + log.payloads[entry.hash] for data, entry in zip(wrong, log.entries, strict=True)]
    with suppress(Cut):
        for item in items:
            writer = gossip.connection.start_bamboo([len(item)])
            writer.write(item)
            writer.send()
        await gossip.flush()
    return await _until_cut(gossip)


async def without_path(field: Field) -> str:
    """Sends entries that no path leads to."""
    gossip = await Gossip.join(field.target, field.address)
    identity = Identity(os.urandom(32))
    link = b"\x00\x40" + bytes(64)
    count = 0
    with suppress(Cut):
        for first in field.rounds(8):
            sizes, items = [], []
            for number in range(256):
                log = LogBuilder(identity, first * 256 + number)
                entry = log.make(50_000, bytes(500), backlink=link, lipmaalink=link)
                items.append(entry.encoded + bytes(500))
                sizes.append(len(items[-1]))
            writer = gossip.connection.start_bamboo(sizes)
            for item in items:
                writer.write(item)
            writer.send()
            await gossip.flush()
            count += 256
            if field.over.is_set():
                break
    gossip.wire.close()
    return f"{count} entries"


async def _sent(field: Field, log: LogBuilder) -> Gossip:
    """A member who has sent all of a log."""
    gossip = await Gossip.join(field.target, field.address)
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    writer = gossip.connection.start_bamboo([len(item) for item in items])
    for item in items:
        writer.write(item)
    writer.send()
    await gossip.flush()
    return gossip


async def _are_told(field: Field, *logs: LogBuilder) -> str:
    """Send histories of one log, each as another member; what others see of it."""
    gossips = [await _sent(field, log) for log in logs]
    told = await sees_the_fork(field, (logs[0].identity.public, logs[0].log_id))
    for gossip in gossips:
        gossip.wire.close()
    return "a fork, told to others" if told else "believed"


async def two_faces(field: Field) -> str:
    """Sends one history of a log as one member, another one as another."""
    return await _are_told(field, *forked_logs()[0])


async def behind_the_end(field: Field) -> str:
    """Sends entries behind the end of their log: they contradict the end, as a fork does."""
    return await _are_told(field, ended_log()[0])


@lru_cache(1)
def _crowded_log() -> tuple[LogBuilder, list[Entry]]:
    """A log, many further entries of its last number, and one that contradicts entry 4."""
    log = LogBuilder(Identity(os.urandom(32)))
    for number in range(13):
        log.append(b"%d" % number)
    crowd = [log.make(13, b"variant %d" % number) for number in range(20)]
    return log, [*crowd, log.make(13, b"lower", lipmaalink=yamf_hash(b"another entry 4"))]


async def crowds(field: Field) -> str:
    """Sends as many entries 13 of a log as a node keeps, and then one that contradicts entry 4."""
    log, crowd = _crowded_log()
    gossip = await _sent(field, log)
    for entry in crowd:
        item = entry.encoded + log.payloads[entry.hash]
        writer = gossip.connection.start_bamboo([len(item)])
        writer.write(item)
        writer.send()
    await gossip.flush()
    position = 13
    while position != 4:
        for event in gossip.connection.receive_data(await gossip.wire.read(), 0.0):
            if isinstance(event, HaveReceived):
                position = min([item.fork for item in event.items if item.fork], default=position)
    gossip.wire.close()
    return f"a fork at {position}"


async def claims_forks(field: Field) -> str:
    """Announces the node's own logs, each time with another tip and another fork that there is not."""
    gossip = await Gossip.join(field.target, field.address)
    count = 0
    with suppress(Cut):
        for number in field.rounds(200):
            fork = 1 + number % 20
            items = [HaveItem(*log, 20, os.urandom(8), fork) for log in field.target.logs]
            await gossip.box(HAVE, _array([encode_have_item(item) for item in items]))
            asked = None
            while asked is None:
                events = gossip.connection.receive_data(await gossip.wire.read(), 0.0)
                asked = next((len(event.items) for event in events if isinstance(event, WantReceived)), None)
            count += asked
            if field.over.is_set():
                break
    gossip.wire.close()
    return f"asked for {count}"


async def forges_forks(field: Field) -> str:
    """Shows 400 fork proofs with signatures that are not the author's."""
    gossip = await Gossip.join(field.target, field.address)
    log, wrong = _lying_log()
    item = bytearray()
    other = bytearray(log.make(1, b"another").encoded)
    other[-1] ^= 1
    both = sorted([wrong[0], bytes(other)])
    push_head(item, BYTES, sum(map(len, both)))
    item += b"".join(both)
    with suppress(Cut):
        for _ in range(10):
            await gossip.box(FORKS, _array([bytes(item)] * 40))
    return await _until_cut(gossip)


async def claims_newest(field: Field) -> str:
    """Claims to hold the newest entry of the node's own log, and shows a forged one."""
    gossip = await Gossip.join(field.target, field.address)
    log = field.target.own_log
    (forged,) = forged_log(log).entries
    asked = 0
    for _ in range(2):  # The second answer shows that the forged entry was looked at.
        with suppress(Cut):
            await gossip.box(HAVE, _array([encode_have_item(HaveItem(*log, 1))]))
            while not (items := await _wanted(gossip)):
                pass
            asked += (*log, 1, 1) in [(item.author, item.log_id, item.low, item.high) for item in items]
            writer = gossip.connection.start_bamboo([len(forged.encoded) + forged.size])
            writer.write(forged.encoded + b"mine")
            writer.send()
            await gossip.flush()
    gossip.wire.close()
    return f"asked for it {asked} times"


async def wrong_payload(field: Field) -> str:
    """Announces an entry with a payload of 1 MB again and again, and sends a wrong one whenever it is asked for it."""
    gossip = await Gossip.join(field.target, field.address)
    log, payload = LogBuilder(Identity(os.urandom(32))), bytes(MIB)
    entry = log.append(payload)
    asked = 0
    with suppress(Cut):
        for _ in range(20):
            await gossip.box(HAVE, _array([encode_have_item(HaveItem(*entry.log, 1))]))
            if not await _wanted(gossip):  # Every HAVE is answered, if only with an empty WANT.
                continue
            asked += 1
            writer = gossip.connection.start_bamboo([len(entry.encoded) + MIB])
            writer.write(entry.encoded + payload[:-1] + b"x")
            writer.send()
            await gossip.flush()
    gossip.wire.close()
    return f"asked {asked} times"


async def _wanted(gossip: Gossip) -> list[WantItem]:
    events = gossip.connection.receive_data(await gossip.wire.read(), 0.0)
    return [item for event in events if isinstance(event, WantReceived) for item in event.items]


ATTACKS = [
    Attack("bushbaby", "newest entry claimed", claims_newest, "signature", gets="asked for it [12]"),
    Attack("bushbaby", "many entries of a number", crowds, None, gets="a fork at 4"),
    Attack("bushbaby", "forks that there are not", claims_forks, None, gets="asked for"),
    Attack("bushbaby", "forged fork proofs", forges_forks, "wrong entries"),
    Attack("bushbaby", "two faces", two_faces, None, gets="told to others"),
    Attack("bushbaby", "behind the end", behind_the_end, None, gets="told to others"),
    Attack("bushbaby", "stalled handshake", stalls, "did not finish the handshake"),
    Attack("bushbaby", "another clump", is_of_another_clump, "another clump"),
    Attack("bushbaby", "size claimed by a stranger", claims_hello, "with 1152"),
    Attack("bushbaby", "reflected messages", reflects, "claims to be ourselves"),
    Attack("bushbaby", "replayed message", replays, "a replay"),
    Attack("bushbaby", "size claimed by a member", claims_message, "with 1152"),
    Attack("bushbaby", "half messages", half_messages, None, memory=90.0, connections=20),
    Attack("bushbaby", "announcements", announces, None, memory=60.0, cpu=8.0),
    Attack("bushbaby", "too many requests", wants_too_much, "faster than we serve", memory=100.0, cpu=5.0),
    Attack(
        "bushbaby", "requests without reading", wants_unread, "has not read|sent nothing|stopped taking", memory=100.0
    ),
    Attack("bushbaby", "tiny messages", tiny_messages, None, gets="messages"),
    Attack("bushbaby", "forged entries", forges, "wrong entries"),
    Attack("bushbaby", "wrong payload again and again", wrong_payload, ".", gets="^asked 1 times"),
    Attack("bushbaby", "entries without a path", without_path, None, gets="entries"),
]
