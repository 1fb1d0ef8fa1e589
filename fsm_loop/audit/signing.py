"""Ed25519 signatures over the last hash of a turn: who can check one needs no secret, and cannot make one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm_loop.errors import FsmLoopError, MissingExtra, TrailError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def signer(private_key: str | os.PathLike[str]) -> Callable[[str], str]:
    """What signs a hash with the private key of this PEM file (PKCS 8, not encrypted); a sink takes it as `sign`.

    Raises TrailError where the file holds no such key, and MissingExtra without `cryptography`.
    """
    return signs_with(_private(private_key))


def signs_with(key: Ed25519PrivateKey) -> Callable[[str], str]:
    """What signs a hash with this key."""
    return lambda digest: key.sign(bytes.fromhex(digest)).hex()


def checker(public_key: str | os.PathLike[str]) -> Callable[[str, str], bool]:
    """What says whether a signature is that of a hash, by the public key of this PEM file.

    Raises TrailError where the file holds no such key, and MissingExtra without `cryptography`.
    """
    return checks_with(_public(public_key))


def checks_with(key: Ed25519PublicKey) -> Callable[[str, str], bool]:
    """What says whether a signature is that of a hash, by this key."""
    from cryptography.exceptions import InvalidSignature

    def check(digest: str, signature: str) -> bool:
        try:
            key.verify(bytes.fromhex(signature), bytes.fromhex(digest))
        except InvalidSignature:
            return False
        return True

    return check


def _private(path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    serialization, ed25519 = _library()
    text = _read(path)
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError) as error:  # a TypeError is a key that is encrypted
        raise _no_key(path, "private", error) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise _no_key(path, "private", type(key).__name__)
    made: Ed25519PrivateKey = key
    return made


def _public(path: str | os.PathLike[str]) -> Ed25519PublicKey:
    serialization, ed25519 = _library()
    text = _read(path)
    try:
        key = serialization.load_pem_public_key(text)
    except ValueError as error:
        raise _no_key(path, "public", error) from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise _no_key(path, "public", type(key).__name__)
    made: Ed25519PublicKey = key
    return made


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise TrailError(msg) from error


def _no_key(path: str | os.PathLike[str], which: str, why: object) -> FsmLoopError:
    words = " ".join(str(why).split())[:120]
    made = {
        "private": "openssl genpkey -algorithm ed25519 -out key.pem",
        "public": "openssl pkey -in key.pem -pubout -out key.pub",
    }[which]
    return TrailError(f"{path}: holds no {which} Ed25519 key in PEM ({words}); `{made}` makes one")


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        msg = "signatures need cryptography: pip install 'fsm-loop[sign]'"
        raise MissingExtra(msg) from error
    return serialization, ed25519
