"""Who asks, by every way there is: tokens, files of them, JSON Web Tokens, certificates; over TLS, in both clients."""

import asyncio
import datetime
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import grpc
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

import kiln
import kiln.aio
import support
from identities import ISSUER, KEYS, Identities, KeyServer, openssl, public_keys, token
from kiln.transport import wire
from kiln.v1 import device_service_pb2


class Identity(Identities):
    def connect(self, **options):
        options.setdefault("tls", str(self.folder / "ca.pem"))
        return kiln.connect(self.address, **options)

    def works(self, **options):
        with self.connect(**options) as client:
            return int(client.arange(4).numpy().sum()) == 6

    def refused(self, part, **options):
        with self.assertRaises(kiln.Unauthenticated) as caught:
            self.connect(**options).close()
        self.assertIn(part, str(caught.exception))
        self.assertEqual(caught.exception.code, "NOT_AUTHENTICATED")

    def test_tokens(self):
        self.assertTrue(self.works(token="secret"))
        self.refused("none of this server's", token="other")
        self.refused("wants to know who asks")

    def test_json_web_tokens(self):
        for name in KEYS:
            self.assertTrue(self.works(token=token(name)), name)
        now = datetime.datetime.now(datetime.timezone.utc)
        self.refused("expired", token=token(exp=now - datetime.timedelta(seconds=10)))
        self.refused("nbf", token=token(nbf=now + datetime.timedelta(minutes=1)))
        self.refused("audience", token=token(aud="other"))
        self.refused("none of this server's", token=token(iss="https://other"))
        self.refused("no tenant's", token=token(sub="system:serviceaccount:other:trainer"))
        self.refused("sub", token=token(sub=None))
        self.refused("signature", token=token(key=ec.generate_private_key(ec.SECP256R1())))
        self.refused("no key", token=jwt.encode({"iss": ISSUER}, None, "none", headers={"kid": "ES256"}))
        # A public key used as a secret that both know.
        self.refused("no key", token=jwt.encode({"iss": ISSUER}, public_keys(KEYS), "HS256", headers={"kid": "RS256"}))

    def test_certificates(self):
        self.assertTrue(self.works(**self.of("member")))
        self.refused("spiffe://cluster/ns/other", **self.of("nobody"))
        with self.assertRaises(kiln.NoServer):
            self.connect(connect_timeout=0.5, **self.of("forged"))
        self.refused("none of this server's", token="wrong", **self.of("member"))

    def test_who_signs_clients_is_replaced(self):
        signers = self.folder / "signers.pem"

        def put(data):
            signers.with_suffix(".new").write_bytes(data)
            signers.with_suffix(".new").rename(signers)

        def works(name):
            try:
                with kiln.connect(server.address, tls=str(self.folder / "ca.pem"), connect_timeout=2, **self.of(name)) as client:
                    return client.devices()[0].name == "CPU:0"
            except kiln.NoServer:
                return False

        put((self.folder / "ca.pem").read_bytes())
        server = support.Server("--tenants=%s" % self.tenants, "--tls_certificate=%s" % (self.folder / "server.pem"),
                                "--tls_key=%s" % (self.folder / "server.key"), "--tls_client_ca=%s" % signers)  # fmt: skip
        self.addCleanup(server.stop)
        self.assertTrue(support.eventually(lambda: works("member")))
        put(b"nobody")
        self.assertTrue(support.eventually(lambda: any("event=tls_refused" in line for line in server.log)))
        self.assertTrue(support.eventually(lambda: works("member")))
        put((self.folder / "forger.pem").read_bytes())
        self.assertTrue(support.eventually(lambda: works("forged")))
        self.assertFalse(works("member"))

    def test_a_server_that_is_another_is_none(self):
        with self.assertRaises(kiln.NoServer):
            self.connect(tls=str(self.folder / "forger.pem"), token="secret", connect_timeout=0.5)
        with self.assertRaises(kiln.NoServer):
            self.connect(tls=False, token="secret", connect_timeout=0.5)

    def test_the_environment(self):
        said = {"KILN_TLS_CA": str(self.folder / "ca.pem"), "KILN_TOKEN": "secret"}
        with mock.patch.dict(os.environ, said):
            with kiln.connect(self.address) as client:
                self.assertEqual(client.devices()[0].name, "CPU:0")
        member = self.of("member")
        said = {"KILN_TLS_CA": str(self.folder / "ca.pem"), "KILN_TLS_CERTIFICATE": member["certificate"],
                "KILN_TLS_KEY": member["key"]}  # fmt: skip
        with mock.patch.dict(os.environ, said):
            with kiln.connect(self.address) as client:
                self.assertEqual(client.devices()[0].name, "CPU:0")

    def test_the_environment_names_a_file_of_the_token(self):
        kept = self.folder / "token_of_the_environment"
        kept.write_text("secret\n")
        said = {"KILN_TLS_CA": str(self.folder / "ca.pem"), "KILN_TOKEN_FILE": str(kept)}
        with mock.patch.dict(os.environ, said):
            with kiln.connect(self.address) as client:
                self.assertEqual(client.devices()[0].name, "CPU:0")
            # What is said in the call counts before it, and so does a file that is not there.
            self.refused("none of this server's", token="other")
            kept.unlink()
            with self.assertRaises(kiln.InvalidArgument) as caught:
                kiln.connect(self.address)
            self.assertIn(str(kept), str(caught.exception))
        kept.write_text("other\n")
        with mock.patch.dict(os.environ, said):
            with self.assertRaises(kiln.KilnError) as caught:
                with kiln.connect(self.address) as client:
                    client.devices()
            self.assertEqual(caught.exception.code, "NOT_AUTHENTICATED")

    def test_a_token_does_not_travel_in_the_open(self):
        for target in ("host.example:1", "10.0.0.1:1", "localhost.example:1", "127.evil.example:1", "dns:///host:1"):
            with self.assertRaises(kiln.InvalidArgument) as caught:
                kiln.connect(target, token="secret", tls=False)
            self.assertIn("others can read it", str(caught.exception))
        with self.assertRaises(kiln.NoServer):
            kiln.connect("127.0.0.2:1", token="secret", tls=False, connect_timeout=0.1)

    def test_asyncio(self):
        async def work():
            client = await kiln.aio.connect(self.address, tls=str(self.folder / "ca.pem"), token=token())
            try:
                return int((await (await client.arange(5)).numpy()).sum())
            finally:
                await client.close()

        self.assertEqual(asyncio.run(work()), 10)

    def test_a_token_is_replaced_while_a_client_works(self):
        kept = self.folder / "token"
        kept.write_text("secret\n")
        with mock.patch.object(kiln.transport.credentials, "BELIEVED", 0.0):
            with self.connect(token_file=str(kept)) as client:
                self.assertEqual(int(client.arange(4).numpy().sum()), 6)
                self.write_tenants("secret", "next")  # both count
                self.reload(2)
                kept.write_text("next\n")
                self.assertEqual(int(client.arange(4).numpy().sum()), 6)
                self.write_tenants("next")
                self.reload(1)
                self.assertEqual(client.devices()[0].name, "CPU:0")
                self.refused("none of this server's", token="secret")
                # With one bad line, the file before counts.
                self.tenants.write_text(self.tenants.read_text() + 'tenant { name: "x" }')
                self.server.process.send_signal(signal.SIGHUP)
                self.assertTrue(support.eventually(lambda: any("event=tenants_refused" in line for line in self.server.log)))
                self.assertEqual(client.devices()[0].name, "CPU:0")
                self.write_tenants("secret")
                self.server.process.send_signal(signal.SIGHUP)
                self.assertTrue(support.eventually(lambda: self.known("secret")))

    def reload(self, tokens):
        """Returns when the file with so many tokens is in force; the server looks by itself, too."""
        self.server.process.send_signal(signal.SIGHUP)
        self.assertTrue(support.eventually(lambda: self.known("next") and self.known("secret") == (tokens == 2)))

    def known(self, secret):
        credentials = grpc.ssl_channel_credentials((self.folder / "ca.pem").read_bytes())
        with grpc.secure_channel(self.address, credentials) as channel:
            devices = wire.stub(channel, "DeviceService.List")
            try:
                devices(device_service_pb2.ListDevicesRequest(), metadata=[("authorization", "Bearer " + secret)])
                return True
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAUTHENTICATED)
                return False

    def test_the_command_line(self):
        def run(**said):
            environment = {name: value for name, value in os.environ.items() if not name.startswith("KILN_T")}
            return subprocess.run([support.CLI, "--server", self.address, "devices"], capture_output=True, text=True,
                                  env=dict(environment, **said))  # fmt: skip

        ca = str(self.folder / "ca.pem")
        self.assertIn("CPU:0", run(KILN_TLS_CA=ca, KILN_TOKEN="secret").stdout)
        member = self.of("member")
        self.assertIn("CPU:0", run(KILN_TLS_CA=ca, KILN_TLS_CERTIFICATE=member["certificate"],
                                   KILN_TLS_KEY=member["key"]).stdout)  # fmt: skip
        wrong = run(KILN_TLS_CA=ca, KILN_TOKEN="other")
        self.assertEqual(wrong.returncode, 4)
        self.assertIn("none of this server's", wrong.stderr)

    def test_usage(self):
        with self.connect(token="secret") as client:
            kept = client.empty((1000,), "float32")
            kept.numpy()  # it is there once it is read
            (tenant,) = client.usage()
            self.assertEqual(tenant.name, "team")
            quotas = {quota.name: quota for quota in tenant.quotas}
            self.assertGreaterEqual(quotas["device_bytes"].used, 4000)
            self.assertEqual(quotas["device_bytes"].limit, 0)
            self.assertEqual(quotas["device_seconds_per_minute"].window_seconds, 60)
            with self.assertRaises(kiln.PermissionDenied) as caught:
                client.usage(all_tenants=True)
            self.assertEqual(caught.exception.code, "NOT_ALLOWED")
            shown = subprocess.run([support.CLI, "--server", self.address, "usage"], capture_output=True, text=True,
                                   env=dict(os.environ, KILN_TLS_CA=str(self.folder / "ca.pem"), KILN_TOKEN="secret"))  # fmt: skip
            self.assertIn("tenant team", shown.stdout)
            self.assertIn("device_bytes", shown.stdout)
            del kept

    def test_the_port_speaks_no_old_tls(self):
        def version_of(*flags):
            spoken = subprocess.run(["openssl", "s_client", "-connect", self.server.address, "-alpn", "h2", *flags],
                                    input=b"", capture_output=True)  # fmt: skip
            return spoken.stdout.decode(errors="replace")  # HTTP/2's first frames are in it

        for old in ("-tls1", "-tls1_1"):
            self.assertNotIn("Server certificate", version_of(old, "-cipher", "ALL:@SECLEVEL=0"))
        for new in ("-tls1_2", "-tls1_3"):
            self.assertIn("ALPN protocol: h2", version_of(new))
        self.assertNotIn("Server certificate", version_of("-tls1_2", "-cipher", "NULL:RC4:3DES:EXPORT:@SECLEVEL=0"))

    def test_users_of_this_machine(self):
        """By a Unix socket, for whom the system says who they are."""
        tenants = self.folder / "users.txtpb"

        def write(user):
            digest = hashlib.sha256(b"secret").hexdigest()
            tenants.with_suffix(".new").write_text(
                'tenant { name: "here" unix_user: "%d" } tenant { name: "other" token { sha256: "%s" } }' % (user, digest))
            tenants.with_suffix(".new").rename(tenants)

        def works(address, **options):
            try:
                with kiln.connect(address, **options) as client:
                    return int(client.arange(4).numpy().sum()) == 6
            except kiln.Unauthenticated:
                return False

        write(os.getuid())
        # A port follows the host's name: it ends the socket's.
        server = support.Server("--tenants=%s" % tenants, host="unix:%s" % (self.folder / "socket"))
        self.addCleanup(server.stop)
        self.assertTrue(works(server.address))
        self.assertTrue(works(server.address, token="secret"))
        self.assertFalse(works(server.address, token="wrong"))
        with kiln.connect(server.address) as client:
            write(os.getuid() + 1)
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(support.eventually(lambda: not works(server.address)))
            # Also of a connection of before.
            with self.assertRaises(kiln.Unauthenticated):
                client.devices()
            self.assertTrue(works(server.address, token="secret"))
            write(os.getuid())
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(support.eventually(lambda: works(server.address)))
            self.assertEqual(client.devices()[0].name, "CPU:0")
        with support.running("--tenants=%s" % tenants) as server:
            self.assertFalse(works(server.address))

    def test_keys_of_an_issuer_that_is_asked(self):
        """By HTTPS, with a token of the server's own; keys that are gone count no longer once it is asked again."""
        issuer = KeyServer(self.folder)
        self.addCleanup(issuer.stop)
        (self.folder / "own").write_text("a token of the server's own\n")
        tenants = self.folder / "by_url.txtpb"
        tenants.write_text("""
            issuer { name: "%s" audience: "kiln" jwks_url: "https://localhost:%d/keys" jwks_ca_file: "%s"
                     jwks_token_file: "%s" }
            tenant { name: "team" jwt { issuer: "%s" subject: "system:*" } }
        """ % (ISSUER, issuer.server_port, self.folder / "ca.pem", self.folder / "own", ISSUER))
        with support.running("--tenants=%s" % tenants) as server:
            self.assertEqual(issuer.asked, [("/keys", "Bearer a token of the server's own")])

            def counts(said):
                try:
                    with kiln.connect(server.address, token=said) as client:
                        return client.devices()[0].name == "CPU:0"
                except kiln.Unauthenticated:
                    return False

            self.assertTrue(counts(token("ES256")))
            self.assertTrue(counts(token("EdDSA")))
            issuer.keys = {"EdDSA": KEYS["EdDSA"]}
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(support.eventually(lambda: not counts(token("ES256"))))
            self.assertTrue(counts(token("EdDSA")))
            # While it does not answer, the keys of before count.
            issuer.status = 500
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(support.eventually(lambda: any("the answer is HTTP 500" in line for line in server.log)))
            self.assertTrue(counts(token("EdDSA")))
        issuer.status = 200
        for damaged, part in (("https://localhost:%d/elsewhere", "HTTP 302"), ("http://issuer.example:%d/", "by https"),
                              ("https://127.0.0.1.nip:%d/", "resolve")):  # fmt: skip
            bad = self.folder / "bad.txtpb"
            bad.write_text(tenants.read_text().replace("https://localhost:%d/keys" % issuer.server_port,
                                                       damaged % issuer.server_port))  # fmt: skip
            started = subprocess.run([support.KILND, "--check_config", "--tenants=%s" % bad], capture_output=True, text=True)
            self.assertNotEqual(started.returncode, 0)
            self.assertIn(part, started.stderr)


if __name__ == "__main__":
    unittest.main()
