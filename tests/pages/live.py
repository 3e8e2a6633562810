"""The pages of a server in the middle of its day: ./dev pages --live. `kiln load` sends what three tenants want for two
minutes; then each page is opened dark and light, wide and narrow. Nothing of it is known beforehand, so what is looked
for are faults that show: a number that is none, labels that lie upon each other, a chart without a line, what axe-core
calls serious, what the console says. Screenshots lie in out/pages/live/, for eyes.

KILN_PAGES_SECONDS: how long the load goes on before the first look."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "pages")]

import admin
import kiln
import support
import work
from browser import LOOKS, Browser

OUT = ROOT / "out" / "pages" / "live"
SECONDS = float(os.environ.get("KILN_PAGES_SECONDS", 120))
# Of each page, what is there at least: a selector, and how often.
SHOWN = {
    "now": (".bar.tall span", 2), "shares": (".area path", 3), "waits": ("main h2", 1), "calls": (".calls li .bar span", 20),
    "memory": ("main .bar span", 3), "programs": ("tbody tr[data-id]", 4), "program": (".node", 3),
    "cache": (".spark path[d^=M]", 1), "workers": (".facts div", 4)}  # fmt: skip
# What a page says where a number is none.
NO_NUMBER = re.compile(r"\b(NaN|Infinity|undefined|null)\b|\[object")


@contextlib.contextmanager
def load(address, folder):
    """`kiln load`, until the end."""
    sent = subprocess.Popen([str(support.CLI), "load", "--server", address, "--mix", work.day(folder), "--seconds", "3600"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        yield sent
    finally:
        sent.kill()
        sent.communicate()


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        OUT.mkdir(parents=True, exist_ok=True)
        there = contextlib.ExitStack()
        cls.addClassCleanup(there.close)
        folder = there.enter_context(tempfile.TemporaryDirectory())
        tenants = pathlib.Path(folder) / "tenants.txtpb"
        tenants.write_text(work.tenants_file())
        cache = pathlib.Path(folder) / "cache"
        cache.mkdir(mode=0o700)
        cls.server = support.Server("--admin_listen=127.0.0.1:0", "--cpu_devices=2", "--tenants=%s" % tenants,
                                    "--program_cache_dir=%s" % cache)  # fmt: skip
        there.callback(cls.server.stop)
        cls.url = "http://127.0.0.1:%d/#/" % admin.Admin(cls.server).port
        cls.browser = Browser(folder, pathlib.Path(os.environ.get("KILN_AXE", ROOT / work.AXE)))
        there.callback(cls.browser.close)
        name, _, _, size = work.TENANTS[0]
        with kiln.connect(cls.server.address, token=name) as client:
            cls.program = "program/%s/CPU%%3A0/%s" % (client.compile(work.products(size)).hash.hex(), name)
        cls.sent = there.enter_context(load(cls.server.address, folder))
        time.sleep(SECONDS)  # so that there is something to see

    def look_at(self, name):
        for theme, width in LOOKS:
            with self.subTest(page=name, theme=theme, width=width):
                self.check(name, theme, width)

    def check(self, name, theme, width):
        browser, page = self.browser, self.program if name == "program" else name
        self.assertIsNone(self.sent.poll(), "the load has ended: %s" % (self.sent.stderr.read() if self.sent.poll() else ""))
        browser.look(theme, width)
        browser.open(self.url + page)
        browser.wait_for_text("live", "#live")
        selector, least = SHOWN[name]
        browser.wait("%s on page %s" % (selector, name), lambda: browser.count(selector) >= least)
        browser.shoot(OUT / ("%s-%s-%d.png" % (name, theme, width)))
        self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), width)
        self.assertIsNone(NO_NUMBER.search(browser.text()), browser.text())
        self.assertEqual(browser.overlaps(), [])
        self.assertEqual(browser.accessibility(), [])
        self.assertEqual(browser.faults(), [])


for each in SHOWN:  # a test of each page: ./dev pages --live Live.test_now
    setattr(Live, "test_" + each, lambda self, name=each: self.look_at(name))

if __name__ == "__main__":
    unittest.main(verbosity=2)
