"""Mails as Outlook saves them: OLE compound files with a stream for each property."""

import struct
from collections.abc import Mapping

_SECTOR = 512
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_SENT = 0x0039
Tree = Mapping[str, "bytes | Tree"]


def outlook_mail(
    texts: Mapping[int, str],
    recipients: list[tuple[str, str]] | None = None,
    attached: list[str] | None = None,
    sent: int | None = None,
) -> bytes:
    """Return a .msg file of text properties by tag, such as 0x0037 for the subject.

    `sent` counts 100 nanoseconds from 1601.
    """
    people, files = recipients or [], attached or []
    header = struct.pack("<8x4I8x", len(people), len(files), len(people), len(files))
    root: dict[str, bytes | Tree] = _storage(texts, header, sent)
    for number, (name, address) in enumerate(people):
        own = _storage({0x3001: name, 0x39FE: address}, bytes(8))
        root[f"__recip_version1.0_#{number:08X}"] = own
    for number, name in enumerate(files):
        root[f"__attach_version1.0_#{number:08X}"] = _storage({0x3707: name}, bytes(8))
    return compound_file(root)


def _storage(
    texts: Mapping[int, str], header: bytes, sent: int | None = None
) -> dict[str, "bytes | Tree"]:
    streams: dict[str, bytes | Tree] = {}
    properties = header
    for tag, text in texts.items():
        raw = text.encode("utf-16-le")
        streams[f"__substg1.0_{tag:04X}001F"] = raw
        properties += struct.pack("<HHIII", 0x001F, tag, 6, len(raw) + 2, 0)
    if sent is not None:
        properties += struct.pack("<HHIQ", 0x0040, _SENT, 6, sent)
    streams["__properties_version1.0"] = properties
    return streams


def compound_file(root: Tree) -> bytes:
    """Return an OLE compound file of streams, each under 4,096 bytes, and storages."""
    entries: list[list[object]] = [["Root Entry", 5, _FREE, _FREE, b""]]

    def add(tree: Tree, parent: int) -> None:
        before = None
        for name, value in sorted(tree.items(), key=lambda item: (len(item[0]), item[0])):
            number = len(entries)
            content = value if isinstance(value, bytes) else b""
            entries.append([name, 2 if isinstance(value, bytes) else 1, _FREE, _FREE, content])
            if before is None:
                entries[parent][3] = number
            else:
                entries[before][2] = number  # a chain of siblings to the right
            before = number
            if not isinstance(value, bytes):
                add(value, number)

    add(root, 0)
    # Streams of less than 4,096 bytes stand in one stream of their own, in sectors of 64 bytes.
    small, chains = b"", []
    starts = []
    for entry in entries:
        content = entry[4]
        assert isinstance(content, bytes)
        assert len(content) < 4096
        count = -(-len(content) // 64)
        starts.append(len(chains) if content else _END)
        chains += [*range(len(chains) + 1, len(chains) + count), _END] if content else []
        small += content.ljust(64 * count, b"\0")
    links = struct.pack(f"<{len(chains)}I", *chains)
    parts = [b"\0" * 128 * len(entries), small, links]
    table: list[int] = [_FAT]
    first = []
    for part in parts:
        sectors = -(-len(part) // _SECTOR)
        first.append(len(table))
        table += [*range(len(table) + 1, len(table) + sectors), _END]
    starts[0], sizes = first[1], [len(small), *(len(e[4]) for e in entries[1:])]  # type: ignore[arg-type]
    packed = b""
    for (name, kind, right, child, _), start, size in zip(entries, starts, sizes, strict=True):
        encoded = f"{name}\0".encode("utf-16-le")
        packed += encoded.ljust(64, b"\0") + struct.pack(
            "<HBBIII16xI16xIQ", len(encoded), kind, 1, _FREE, right, child, 0, start, size
        )
    parts[0] = packed
    assert len(table) <= _SECTOR // 4
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + struct.pack(
        "<16xHHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, first[0], 0, 4096, first[2],
        -(-len(links) // _SECTOR), _END, 0, 0,
    )  # fmt: skip
    sectors_of = [part.ljust(-(-len(part) // _SECTOR) * _SECTOR, b"\xff") for part in parts]
    fat = struct.pack(f"<{len(table)}I", *table).ljust(_SECTOR, b"\xff")
    return b"".join([head.ljust(_SECTOR, b"\xff"), fat, *sectors_of])
