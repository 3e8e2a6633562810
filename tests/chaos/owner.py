"""What the server's owner has: the file of tenants, with their tokens, and the certificate; and what he does to them."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import pathlib
import secrets
from typing import Dict, List, NamedTuple, Tuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

MIB = 1 << 20
YEARS = datetime.timedelta(days=3650)


class Tenant(NamedTuple):
    """A row of the file. `quota`: of fields of kiln.v1.Quota."""

    quota: Dict[str, int]
    more: str = ""
    weight: int = 1


# Of who is not there to meet limits: more than the load can want.
ROOM = {"device_bytes": 256 * MIB, "host_bytes": 256 * MIB, "handles": 4000, "sessions": 64, "streams": 64,
        "requests_in_flight": 512, "compiles_at_once": 32, "program_bytes": 4 * MIB, "disk_bytes": 2 * MIB}  # fmt: skip

TENANTS = {
    "alpha": Tenant(ROOM),
    "beta": Tenant(ROOM, "class: INTERACTIVE", weight=3),
    "apart": Tenant({name: limit for name, limit in ROOM.items() if name != "disk_bytes"}, "isolation: PROCESS"),
    "dated": Tenant(ROOM),  # whose token ends one day
    "greedy": Tenant({**ROOM, "device_bytes": 4 * MIB, "handles": 40, "sessions": 4, "streams": 4}),
    "mortal": Tenant(ROOM),  # whose clients die
    "spy": Tenant(ROOM),
    "operator": Tenant({}, "right: EXECUTE_RIGHT right: DEBUG_RIGHT right: ADMIN_RIGHT"),
}


class Owner:
    """Of one folder. What he writes replaces what was there as a whole."""

    def __init__(self, folder: pathlib.Path, dated_until: datetime.datetime):
        self.folder, self._dated_until = folder, dated_until
        self.tenants = folder / "tenants.txtpb"
        self.authority, self.certificate, self.key = (folder / name for name in ("ca.pem", "server.pem", "server.key"))
        self._secrets: Dict[str, str] = {}
        self._also: Dict[str, List[str]] = {}
        self._quotas = {name: dict(tenant.quota) for name, tenant in TENANTS.items()}
        self._weights = {name: tenant.weight for name, tenant in TENANTS.items()}
        self._signer = ec.generate_private_key(ec.SECP256R1())
        self._serial = 0
        self._put(self.authority, self._certificate("ca", self._signer, authority=True)[0])
        for name in TENANTS:
            self.new_secret(name)
        self.write_tenants()
        self.new_certificate()

    # -- Tenants

    def secret(self, name: str) -> str:
        return self._secrets[name]

    def secret_file(self, name: str) -> pathlib.Path:
        """Which clients read again."""
        return self.folder / ("%s.token" % name)

    def new_secret(self, name: str, keep_old: bool = False) -> str:
        """For the file, when it is written next. With `keep_old` the one before counts beside it."""
        old = self._secrets.get(name)
        self._also[name] = [old] if keep_old and old else []
        self._secrets[name] = secrets.token_urlsafe(32)
        return self._secrets[name]

    def hand_out(self, name: str) -> None:
        """The new secret to the tenant's clients."""
        self._put(self.secret_file(name), self._secrets[name].encode())

    def drop_old(self, name: str) -> None:
        self._also[name] = []

    def set_quota(self, name: str, quota: str, limit: int) -> None:
        self._quotas[name][quota] = limit

    def set_weight(self, name: str, weight: int) -> None:
        self._weights[name] = weight

    def quota(self, name: str, quota: str) -> int:
        return self._quotas[name][quota]

    def write_tenants(self, behind: str = "", expired: str = "") -> None:
        """The file as it should be, and `behind` it what should not; the token of tenant `expired` has ended."""
        self._put(self.tenants, ("".join(self._row(name, expired) for name in TENANTS) + behind).encode())
        for name in TENANTS:
            if not self.secret_file(name).exists():
                self.hand_out(name)

    def _row(self, name: str, expired: str) -> str:
        until = ""
        if name == "dated":
            until = ' expires: "%s"' % self._dated_until.strftime("%Y-%m-%dT%H:%M:%SZ")
        if name == expired:
            until = ' expires: "2020-01-01T00:00:00Z"'
        tokens = " ".join('token { sha256: "%s"%s }' % (hashlib.sha256(secret.encode()).hexdigest(), until)
                          for secret in (self._secrets[name], *self._also[name]))  # fmt: skip
        quotas = " ".join("%s: %d" % item for item in self._quotas[name].items())
        return 'tenant { name: "%s" %s quota { %s } weight: %d %s }\n' % (name, tokens, quotas, self._weights[name],
                                                                         TENANTS[name].more)  # fmt: skip

    # -- Certificates

    def new_certificate(self) -> int:
        """Of another key; its serial number."""
        pem, serial, key = self._certificate("server", ec.generate_private_key(ec.SECP256R1()))
        self._put(self.key, key)
        self._put(self.certificate, pem)
        return serial

    def bad_certificate(self) -> None:
        """Not of the key that is there."""
        self._put(self.certificate, self._certificate("server", ec.generate_private_key(ec.SECP256R1()))[0])

    def _certificate(self, name: str, key: ec.EllipticCurvePrivateKey, authority: bool = False) -> Tuple[bytes, int, bytes]:
        self._serial += 1
        called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        by = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ca")])
        now = datetime.datetime.now(datetime.timezone.utc)
        made = x509.CertificateBuilder().subject_name(called).issuer_name(by).public_key(key.public_key())
        made = made.serial_number(self._serial).not_valid_before(now - YEARS).not_valid_after(now + YEARS)
        made = made.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if not authority:
            here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            made = made.add_extension(x509.SubjectAlternativeName(here), critical=False)
        text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        signed = made.sign(self._signer, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM), self._serial, text

    def _put(self, path: pathlib.Path, data: bytes) -> None:
        draft = path.with_name(path.name + ".new")
        draft.write_bytes(data)
        os.chmod(draft, 0o600)
        os.replace(draft, path)
