"""What a server's owner has: its file of tenants, and the keys of an issuer whose tokens count there."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import signal
import time
from typing import Any, Callable, Dict

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

ISSUER, AUDIENCE = "https://issuer.example", "kiln"
LEEWAY = 2  # seconds
# Of tenant b, for who would have more.
HANDLES = 40


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def part(said: Any) -> str:
    """Of a token: a JSON object, or bytes that are none."""
    return base64url(said if isinstance(said, bytes) else json.dumps(said).encode())


def sign(head: str, key: ec.EllipticCurvePrivateKey) -> bytes:
    """ES256: the two numbers one after the other."""
    r, s = utils.decode_dss_signature(key.sign(head.encode(), ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


class Owner:
    """Writes the files; the server reads them again when they change, or at reload()."""

    def __init__(self, folder: pathlib.Path, secrets: Dict[str, str]):
        self.folder, self.secrets = folder, dict(secrets)
        self.tenants = folder / "tenants.txtpb"
        self.key = new_key()
        self.write_keys(self.key)
        self.write()

    def write_keys(self, *keys: ec.EllipticCurvePrivateKey) -> None:
        rows = []
        for number, key in enumerate(keys):
            point = key.public_key().public_numbers()
            rows.append({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "key %d" % number,
                         "x": base64url(point.x.to_bytes(32, "big")), "y": base64url(point.y.to_bytes(32, "big"))})  # fmt: skip
        self._put(self.folder / "keys.json", json.dumps({"keys": rows}).encode())

    def write(self, more: bytes = b"") -> None:
        """The file as it should be, and what comes behind that."""
        text = 'issuer { name: "%s" audience: "%s" jwks_file: "%s" leeway_seconds: %d }\n' % (
            ISSUER, AUDIENCE, self.folder / "keys.json", LEEWAY)  # fmt: skip
        for secret, name in self.secrets.items():
            text += 'tenant { name: "%s" token { sha256: "%s" } jwt { issuer: "%s" subject: "system:%s" }%s }\n' % (
                name, hashlib.sha256(secret.encode()).hexdigest(), ISSUER, name,
                " quota { handles: %d }" % HANDLES if name == "b" else "")  # fmt: skip
        self._put(self.tenants, text.encode() + more)

    def put(self, data: bytes) -> None:
        """Another file of tenants, whatever it is."""
        self._put(self.tenants, data)

    def reload(self, server: Any, until: Callable[[], bool]) -> None:
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 20
        while not until():
            assert time.monotonic() < end, "the files are not in force:\n" + "".join(server.log[-5:])
            time.sleep(0.01)

    def claims(self, **other: Any) -> Dict[str, Any]:
        """Of tenant a; None leaves one out."""
        now = int(time.time())
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "system:a", "iat": now, "exp": now + 600, **other}
        return {name: value for name, value in said.items() if value is not None}

    def token(self, key: Any = None, header: Any = None, **claims: Any) -> str:
        head = part(header or {"alg": "ES256", "kid": "key 0"}) + "." + part(self.claims(**claims))
        return head + "." + base64url(sign(head, key or self.key))

    def _put(self, path: pathlib.Path, data: bytes) -> None:
        draft = path.with_suffix(".new")
        draft.write_bytes(data)
        os.replace(draft, path)
