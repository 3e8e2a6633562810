"""An issuer of tokens that is asked by URL and does not answer: who is locked out is, and who is known works on."""

import hashlib
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import kiln
import support
from admin import Admin
from identities import ISSUER, Identities, KeyServer, token


class Issuers(Identities):
    def setUp(self):
        self.issuer = KeyServer(self.folder)
        self.addCleanup(self.issuer.stop)
        self.file = self.folder / "by_url.txtpb"

    def write(self, *secrets, also=""):
        tokens = "".join('token { sha256: "%s" } ' % hashlib.sha256(secret.encode()).hexdigest() for secret in secrets)
        self.file.with_suffix(".new").write_text("""
            issuer { name: "%s" audience: "kiln" jwks_url: "https://localhost:%d/keys" jwks_ca_file: "%s" } %s
            tenant { name: "team" jwt { issuer: "%s" subject: "system:*" } %s }
        """ % (ISSUER, self.issuer.server_port, self.folder / "ca.pem", also, ISSUER, tokens))  # fmt: skip
        self.file.with_suffix(".new").rename(self.file)

    @staticmethod
    def why_not(server, secret):
        """What the server says of it; nothing if it counts."""
        try:
            with kiln.connect(server.address, token=secret) as client:
                return "" if client.devices()[0].name == "CPU:0" else "?"
        except kiln.Unauthenticated as error:
            return str(error)

    @staticmethod
    def said(server, part):
        return any(part in line for line in server.log)

    def test_who_is_locked_out_is_so_whoever_does_not_answer(self):
        self.write("one", "stolen")
        with support.running("--tenants=%s" % self.file, "--admin_listen=127.0.0.1:0") as server:
            self.assertEqual([self.why_not(server, secret) for secret in ("one", "stolen", token())], ["", "", ""])
            self.issuer.status = 500
            self.write("one")
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(support.eventually(lambda: self.why_not(server, "stolen")))
            self.assertTrue(support.eventually(lambda: self.said(server, "event=issuer_unanswered")))
            self.assertTrue(self.said(server, 'in_force="its keys of before"'))
            self.assertFalse(self.said(server, "event=tenants_refused"))
            self.assertEqual([self.why_not(server, secret) for secret in ("one", token())], ["", ""])
            self.assertGreaterEqual(Admin(server).samples()[("kiln_issuers_unanswered_total",)], 1)

    def test_one_that_takes_a_connection_and_says_nothing_holds_up_nobody(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.write("one", "stolen")
            with support.running("--tenants=%s" % self.file) as server:
                self.write("one", also='issuer { name: "silent" audience: "kiln" jwks_url: "http://127.0.0.1:%d/" }'
                           % silent.getsockname()[1])  # fmt: skip
                began = time.monotonic()
                server.process.send_signal(signal.SIGHUP)
                self.assertTrue(support.eventually(lambda: self.why_not(server, "stolen")))
                self.assertLess(time.monotonic() - began, 5)  # it has ten seconds to answer
                self.assertEqual(self.why_not(server, "one"), "")

    def test_a_server_starts_without_its_issuer(self):
        self.issuer.status = 500
        self.write("one")
        checked = subprocess.run([support.KILND, "--check_config", "--tenants=%s" % self.file], capture_output=True, text=True)
        self.assertNotEqual(checked.returncode, 0)
        self.assertIn("the answer is HTTP 500", checked.stderr)
        with support.running("--tenants=%s" % self.file) as server:
            self.assertEqual(self.why_not(server, "one"), "")
            self.assertIn("it has not answered this server yet", self.why_not(server, token()))
            self.assertTrue(self.said(server, 'in_force="none of its tokens"'))
            self.issuer.status = 200
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(support.eventually(lambda: not self.why_not(server, token())))


if __name__ == "__main__":
    unittest.main()
