"""A certificate and a key that are replaced one after the other, or do not belong together: connections go on."""

import datetime
import pathlib
import shutil
import ssl
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from cryptography import x509
from machine import Machine
from owner import Owner
from world import support

import kiln


class TlsFiles(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.owner = Owner(folder, datetime.datetime(2100, 1, 1))
        self.machine = Machine(folder, folder / "disk")
        self.server = support.Server("--tenants=%s" % self.owner.tenants, "--tls_certificate=%s" % self.owner.certificate,
                                     "--tls_key=%s" % self.owner.key, "--keepalive_seconds=0",
                                     environment=self.machine.environment)  # fmt: skip
        self.addCleanup(self.server.stop)

    def works(self):
        with kiln.connect(self.server.address, token=self.owner.secret("alpha"), tls=str(self.owner.authority),
                          connect_timeout=120) as client:  # fmt: skip
            return client.arange(4).numpy().tolist() == [0, 1, 2, 3]

    def said(self, words):
        self.assertTrue(support.eventually(lambda: any(words in line for line in self.server.log)), words)

    def test_a_fault_leaves_those_before(self):
        self.assertTrue(self.works())
        good = self.owner.certificate.read_bytes()
        for number, fault in enumerate(("another key's", "no certificate", "nothing")):
            if number == 0:
                self.owner.bad_certificate()
            elif number == 1:
                self.owner.certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            else:
                self.owner.certificate.unlink()
            self.assertTrue(support.eventually(lambda: self.refusals() > number), fault)
            for _ in range(3):
                self.assertTrue(self.works(), fault)
        self.owner.certificate.write_bytes(good)
        self.assertTrue(self.works())

    def refusals(self):
        return sum("event=tls_refused" in line for line in self.server.log)

    def test_new_ones_count_without_a_gap(self):
        for _ in range(2):
            self.owner.new_certificate()
            self.assertTrue(self.works())
        self.said("event=tls ")

    def shown(self):
        """The serial number of what is shown to who is new."""
        pem = ssl.get_server_certificate(("127.0.0.1", self.server.port), timeout=120)
        return x509.load_pem_x509_certificate(pem.encode()).serial_number

    def test_new_ones_count_after_the_clock_was_set(self):
        for ahead in (-3600, 3600, -7200):
            self.machine.set_clock(ahead)
            serial = self.owner.new_certificate()
            self.assertTrue(support.eventually(lambda: self.shown() == serial), ahead)
        self.assertTrue(self.works())


if __name__ == "__main__":
    unittest.main()
