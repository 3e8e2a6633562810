"""Certificates, tokens and a file of tenants for tests of who asks, and a kilnd that knows them.

The tokens are PyJWT's and the certificates openssl's, so that neither side checks its own reading of a standard.
"""

import datetime
import hashlib
import http.server
import json
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest

import jwt
import support
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import algorithms

ISSUER = "https://issuer.example"
KEYS = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def public_keys(keys):
    """A JSON Web Key Set."""
    rows = []
    for name, key in keys.items():
        row = algorithms.get_default_algorithms()[name].to_jwk(key.public_key(), as_dict=True)
        rows.append(dict(row, kid=name, use="sig"))
    return json.dumps({"keys": rows})


def token(name="ES256", key=None, headers=None, **claims):
    now = datetime.datetime.now(datetime.timezone.utc)
    said = {"iss": ISSUER, "aud": "kiln", "sub": "system:serviceaccount:team:trainer", "iat": now,
            "exp": now + datetime.timedelta(minutes=10)}  # fmt: skip
    said.update(claims)
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, KEYS[name] if key is None else key, name, headers=headers or {"kid": name})


class Identities(unittest.TestCase):
    """Tenant "team": by the token "secret", by JSON Web Tokens, by the certificate "member"; "nobody" is known to the
    authority and no tenant, "forged" only looks like a member."""

    @classmethod
    def setUpClass(cls):
        cls.folder = folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.certificate("ca", "/CN=ca", "CA:TRUE")
        cls.certificate("server", "/CN=server", "CA:FALSE", "DNS:localhost,IP:127.0.0.1", signer="ca")
        cls.certificate("member", "/CN=x", "CA:FALSE", "URI:spiffe://cluster/ns/team/sa/trainer", signer="ca")
        cls.certificate("nobody", "/CN=x", "CA:FALSE", "URI:spiffe://cluster/ns/other", signer="ca")
        cls.certificate("forger", "/CN=ca", "CA:TRUE")
        cls.certificate("forged", "/CN=x", "CA:FALSE", "URI:spiffe://cluster/ns/team/sa/trainer", signer="forger")
        (folder / "keys.json").write_text(public_keys(KEYS))
        cls.tenants = folder / "tenants.txtpb"
        cls.write_tenants("secret")
        cls.server = support.Server("--tenants=%s" % cls.tenants, "--tls_certificate=%s" % (folder / "server.pem"),
                                    "--tls_key=%s" % (folder / "server.key"), "--tls_client_ca=%s" % (folder / "ca.pem"))  # fmt: skip
        cls.addClassCleanup(cls.server.stop)
        cls.address = cls.server.address.replace("127.0.0.1", "localhost")

    @classmethod
    def certificate(cls, name, subject, constraint, names="", signer=None):
        key, request, made = (cls.folder / (name + end) for end in (".key", ".csr", ".pem"))
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", key, "-out", request)
        extensions = cls.folder / "extensions"
        extensions.write_text("basicConstraints=%s\n" % constraint + ("subjectAltName=%s\n" % names if names else ""))
        by = ["-signkey", key] if signer is None else ["-CA", cls.folder / (signer + ".pem"), "-CAkey",
                                                       cls.folder / (signer + ".key"), "-CAcreateserial"]  # fmt: skip
        openssl("x509", "-req", "-in", request, "-days", "2", "-extfile", extensions, "-out", made, *by)

    @classmethod
    def write_tenants(cls, *secrets):
        tokens = "".join('token { sha256: "%s" } ' % hashlib.sha256(secret.encode()).hexdigest() for secret in secrets)
        draft = cls.tenants.with_suffix(".new")
        draft.write_text('''
            issuer { name: "%s" audience: "kiln" jwks_file: "%s" leeway_seconds: 5 }
            tenant { name: "team" %s certificate: "spiffe://cluster/ns/team/*"
                     jwt { issuer: "%s" subject: "system:serviceaccount:team:*" } }
        ''' % (ISSUER, cls.folder / "keys.json", tokens, ISSUER))
        draft.rename(cls.tenants)

    @classmethod
    def of(cls, name):
        """For kiln.connect."""
        return {"certificate": str(cls.folder / (name + ".pem")), "key": str(cls.folder / (name + ".key"))}


class KeyServer(http.server.HTTPServer):
    """Of an issuer, with the certificate "server" of `folder`: /keys has them, any other page is at /keys."""

    def __init__(self, folder):
        self.keys, self.status, self.asked = KEYS, 200, []
        super().__init__(("127.0.0.1", 0), KeyPage)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def stop(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class KeyPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/keys":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(public_keys(self.server.keys).encode())

    def log_message(self, *words):
        pass
