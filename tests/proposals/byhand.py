"""Bytes of the protocol page's example log as a peer sends them, written out: no encoder of ours had a part in them.

They are those of docs/specs/proposals.md, "Worked examples": entries 1 to 5 of one log (5 ends it), and ``M2_OTHER``,
another entry 2 of the same author, which forks the log.
"""

SAFE, GREEDY = bytes.fromhex("000000"), bytes.fromhex("030000")  # setups without compression
GRANTS = bytes.fromhex("2000020004020100100000")  # credit for 4 proposals, and for 1 MiB of data

M1 = bytes.fromhex(  # metadata of entry 1
    "80140040b5d405514d6a4556fe8f5f8c6d462b07d5ef33127317a8906db1695a5ea3b0a662272418c3c2fa0646395c3c6182fea41b15"
    "608f68be96c841eaa9fcca2cb04f872c199d5b4a714768f37abbc52fa319679643b22d932ecf440490603126864e01980dce71519804"
    "742c9dc09ab2bab9df91b74c167366ab3de549c093561000"
)
M2 = bytes.fromhex(  # metadata of entry 2
    "800300409de15d13fdf65a3e7e4319104aeaa507008f8d3c10cda62d893f2ed86d4f0fe72bafef51d81e87f5df422972fbd22fea9fda"
    "60eee0e8117911394311050db5c4ad6af02dbeff934c99c145a1e312029b1121d26a28e026bc5b3a9d734eca887d6ee0dc48b1c04208"
    "bab0c808f83a5d6fb573e2a0a2e58cf604a5cbff982b6708"
)
M3 = bytes.fromhex(  # metadata of entry 3
    "80000040786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419d25e1031afee585313896444934eb04b903a"
    "685b1448b755d56f701afe9be2cec3c457ec210a1bd04b76f36258c1dd0c946d41a74ef840471ceaba8bbe799b2fc6f7460f7874dc2f"
    "d87f553aba1dce84ecdb41f1082dd1976ba0e070be4fe90b"
)
M4 = bytes.fromhex(  # metadata of entry 4
    "80040040c500d7ce3369dfd284c6af2e1d45b6703813e83c4da0bb37886575569755efbfb70f64a5ee1e91f9c2f28c38bcb5d58f3965"
    "73ad5a962c65dc5e760b5a961efb25fef5dd0e50a1dd62e3d87fa263c9c4c901e0fdcaf559fadc5c5770e36ae9fbd719865a372abbeb"
    "a72f7e8aa23f77329ecc75e700aca342a966c2454e4e8803"
)
M5 = bytes.fromhex(  # metadata of entry 5
    "81040040f203421efccd8b560f1bb1a4d7b1c8a9019523d0687110669ee60cf40a2bab89bd30d4e40dbc1c7f8dcb23909456681833f0"
    "ffd3a191b2ec66408df2bac84e8872726f1934a80faf13bb564d129617f5ff51bef75023271894947b0b05789c51fcba7f0eac54c935"
    "a7e109684bd35d8635f779d71b826c45c26b132a9c59600e"
)
M2_OTHER = bytes.fromhex(  # metadata of the other entry 2
    "80030040d506fa0be9cdab5f16bad6aa8c62757037847b032d3ca7d7079817123abdd4237ded69c896ebe5b4d501e4cd5a32f69e6a9d"
    "e2fb97209d1f6c6dab1b5d2fee7134c7b787bac0b6b8e62bf3a080ae1a255ab572a6276b7cb66e88ee2b0890a6647585ced4bc71ff31"
    "9d823b84f53389f4c5e241f737998cc1b3e9f0eb729de30a"
)
E2 = bytes.fromhex(  # entry 2, whole
    "0003a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b800020040e48935fc7e7f711cd3332f47a74765e09a"
    "c3a1d15ad7615c1a14dbad79b936856e7d7a4a31f294d94fa2ab1e94b9f1438b47866e338c9cd002debabf7c869c8d0300409de15d13"
    "fdf65a3e7e4319104aeaa507008f8d3c10cda62d893f2ed86d4f0fe72bafef51d81e87f5df422972fbd22fea9fda60eee0e811791139"
    "4311050db5c4ad6af02dbeff934c99c145a1e312029b1121d26a28e026bc5b3a9d734eca887d6ee0dc48b1c04208bab0c808f83a5d6f"
    "b573e2a0a2e58cf604a5cbff982b6708"
)
E2_OTHER = bytes.fromhex(  # the other entry 2, whole
    "0003a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b800020040e48935fc7e7f711cd3332f47a74765e09a"
    "c3a1d15ad7615c1a14dbad79b936856e7d7a4a31f294d94fa2ab1e94b9f1438b47866e338c9cd002debabf7c869c8d030040d506fa0b"
    "e9cdab5f16bad6aa8c62757037847b032d3ca7d7079817123abdd4237ded69c896ebe5b4d501e4cd5a32f69e6a9de2fb97209d1f6c6d"
    "ab1b5d2fee7134c7b787bac0b6b8e62bf3a080ae1a255ab572a6276b7cb66e88ee2b0890a6647585ced4bc71ff319d823b84f53389f4"
    "c5e241f737998cc1b3e9f0eb729de30a"
)
P1 = bytes.fromhex("081462616d626f6f2062616d626f6f2062616d626f6f")  # payload 1, raw
P2 = bytes.fromhex("080374776f")  # payload 2, raw
P3 = bytes.fromhex("0800")  # payload 3, raw
P4 = bytes.fromhex("0804666f7572")  # payload 4, raw
P5 = bytes.fromhex("080466697665")  # payload 5, raw
P2_OTHER = bytes.fromhex("080354574f")
REQUEST_1_TO_3 = bytes.fromhex(  # proposal 0: entries 1 to 3, everything, as T12
    "f00003a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b800010100ffffffffffffffffff0303"
)
REQUEST_1_FOR_EVER = bytes.fromhex(  # proposal 0: everything from entry 1 on
    "e00003a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b800010100ffffffffffffffffff"
)
UP_TO_5_BYTES = bytes.fromhex(  # the same, but for payloads of more than 5 bytes
    "e00003a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b80001010005"
)
MANDATORY_1_FOR_EVER = b"\xe1" + REQUEST_1_FOR_EVER[1:]
CONFIRMED = bytes.fromhex("7000")  # proposal 0: everything, payloads may be left out
SWITCH = bytes.fromhex("0000")  # to proposal 0


def control(*messages: bytes) -> bytes:
    """Messages of the control channel in a bymux packet: 21 00, the length in two bytes, the messages."""
    return b"\x21\x00" + len(b"".join(messages)).to_bytes(2, "big") + b"".join(messages)


def data(*messages: bytes) -> bytes:
    """The same for the data channel: 21 01."""
    return b"\x21\x01" + len(b"".join(messages)).to_bytes(2, "big") + b"".join(messages)
