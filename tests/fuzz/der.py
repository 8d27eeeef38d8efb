"""Just enough DER to put certificates and keys together that no library would write."""

from __future__ import annotations

from base64 import encodebytes

ED25519 = bytes.fromhex("300506032b6570")


def item(tag: int, *contents: bytes) -> bytes:
    """One item; the length is as short as can be."""
    body = b"".join(contents)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def sequence(*contents: bytes) -> bytes:
    return item(0x30, *contents)


def integer(value: int) -> bytes:
    return item(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def bits(data: bytes) -> bytes:
    return item(0x03, b"\0", data)


def octets(data: bytes) -> bytes:
    return item(0x04, data)


def pem(label: str, der: bytes) -> bytes:
    return f"-----BEGIN {label}-----\n{encodebytes(der).decode()}-----END {label}-----\n".encode()
