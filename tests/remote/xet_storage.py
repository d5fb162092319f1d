"""The storage behind Xet: chunks in xorbs, and shards that say which make up a file."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field

from http_servers import Answer, ranged

_HEADER = 48  # bytes of each entry of a shard
_HAS_VERIFICATION, _HAS_METADATA = 1 << 31, 1 << 30
_END = b"\xff" * 32

Term = tuple[str, int, int, int]  # xorb, bytes, first chunk, end of chunks


def _hex(number: bytes) -> str:
    """A hash as its four little-endian 64-bit numbers."""
    return "".join(f"{part:016x}" for part in struct.unpack("<4Q", number))


@dataclass
class XetStorage:
    """What was uploaded."""

    xorbs: dict[str, bytes] = field(default_factory=dict)
    terms: dict[str, list[Term]] = field(default_factory=dict)  # by Xet hash of a file
    hashes: dict[str, str] = field(default_factory=dict)  # SHA-256 of a file → its Xet hash

    def answer(
        self, method: str, path: str, body: bytes, headers: dict[str, str], url: str
    ) -> Answer:
        parts = path.strip("/").split("/")
        if parts[:2] == ["v1", "xorbs"] and method == "POST":
            self.xorbs[parts[3]] = body
            return 200, b'{"was_inserted": true}', {"Content-Type": "application/json"}
        if parts[:2] == ["v1", "shards"] and method == "POST":
            self._add_shard(body)
            return 200, b'{"result": 1}', {"Content-Type": "application/json"}
        if parts[:2] == ["v1", "reconstructions"]:
            return self._reconstruction(parts[2], headers, url)
        if parts[0] == "bytes":
            return self._bytes(parts[1], headers)
        return 404, b"", {}

    def content(self, sha256: str) -> bytes:
        """Decodes a file, to see that what came is what was sent."""
        import lz4.frame

        found = b""
        for xorb, _, first, end in self.terms[self.hashes[sha256]]:
            for start, size, kind, plain in self._chunks(xorb)[first:end]:
                data = self.xorbs[xorb][start + 8 : start + 8 + size]
                if kind:
                    data = lz4.frame.decompress(data)
                if kind == 2:  # groups of every fourth byte
                    sizes = [(plain + 3 - i) // 4 for i in range(4)]
                    starts = [sum(sizes[:i]) for i in range(4)]
                    grouped, data = data, bytearray(plain)
                    for i in range(4):
                        data[i::4] = grouped[starts[i] : starts[i] + sizes[i]]
                assert len(data) == plain
                found += bytes(data)
        return found

    def _chunks(self, xorb: str) -> list[tuple[int, int, int, int]]:
        """Start, stored bytes, compression and plain bytes of each chunk."""
        data, at, found = self.xorbs[xorb], 0, []
        while at + 8 <= len(data) and data[at] == 0:
            size = int.from_bytes(data[at + 1 : at + 4], "little")
            plain = int.from_bytes(data[at + 5 : at + 8], "little")
            found.append((at, size, data[at + 4], plain))
            at += 8 + size
        return found

    def _add_shard(self, shard: bytes) -> None:
        at = _HEADER
        while shard[at : at + 32] != _END:
            number, flags, count = struct.unpack_from("<32sII", shard, at)
            at += _HEADER
            terms = []
            for i in range(count):
                entry = struct.unpack_from("<32sIIII", shard, at + i * _HEADER)
                terms.append((_hex(entry[0]), *entry[2:]))
            at += count * _HEADER * (2 if flags & _HAS_VERIFICATION else 1)
            assert flags & _HAS_METADATA
            self.terms[_hex(number)] = terms
            self.hashes[_hex(shard[at : at + 32])] = _hex(number)
            at += _HEADER

    def _reconstruction(self, number: str, headers: dict[str, str], url: str) -> Answer:
        if number not in self.terms:
            return 404, b"", {}
        terms = self.terms[number]
        first, end = 0, sum(size for _, size, _, _ in terms)
        if "range" in headers:
            begin, last = headers["range"].removeprefix("bytes=").split("-")
            if int(begin) >= end:
                return 416, b"", {}
            first, end = int(begin), min(end, int(last) + 1)
        used, at, skipped = [], 0, 0
        for term in terms:
            if at + term[1] > first and at < end:
                if not used:
                    skipped = first - at
                used.append(term)
            at += term[1]
        fetched: dict[str, list[object]] = {}
        for xorb, _, start, stop in used:
            chunks = self._chunks(xorb)
            last_chunk = chunks[stop - 1]
            bounds = {"start": chunks[start][0], "end": last_chunk[0] + 8 + last_chunk[1] - 1}
            place = f"{url}/xet/bytes/{xorb}"
            entry = {"range": {"start": start, "end": stop}, "url": place, "url_range": bounds}
            fetched.setdefault(xorb, []).append(entry)
        shown = [
            {"hash": xorb, "unpacked_length": size, "range": {"start": start, "end": stop}}
            for xorb, size, start, stop in used
        ]
        found = {"offset_into_first_range": skipped, "terms": shown, "fetch_info": fetched}
        return 200, json.dumps(found).encode(), {"Content-Type": "application/json"}

    def _bytes(self, xorb: str, headers: dict[str, str]) -> Answer:
        return ranged(self.xorbs[xorb], headers["range"])
