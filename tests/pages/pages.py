"""The pages of the admin port in a real browser: ./dev pages. Each page dark and light, wide and narrow, with values that
are known; the console without a fault, axe-core without a serious finding, the keys, a thousand programs, a server that
goes and comes back. Screenshots lie in out/pages/."""

import os
import pathlib
import statistics
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "pages")]

import numpy as np

import admin
import kiln
import support
import work
from browser import LOOKS, PAGES, Browser

OUT = ROOT / "out" / "pages"
AXE = pathlib.Path(os.environ.get("KILN_AXE", ROOT / work.AXE))
HITS = 7
MANY = int(os.environ.get("KILN_PAGES_PROGRAMS", 1000))


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        OUT.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tenants = pathlib.Path(folder.name) / "tenants.txtpb"
        cls.tenants.write_text(work.tenants_file())
        cls.cache = pathlib.Path(folder.name) / "cache"
        cls.cache.mkdir(mode=0o700)
        cls.start("0", "0")
        cls.browser = Browser(folder.name, AXE)
        cls.addClassCleanup(cls.browser.close)
        cls.quiet = kiln.connect(cls.server.address, token=work.QUIET)
        cls.addClassCleanup(cls.quiet.close)
        cls.program = cls.quiet.compile(work.small(0))
        x = np.zeros(16, np.float32)
        for _ in range(HITS):
            cls.program.run([x])

    @classmethod
    def start(cls, port, admin_port):
        cls.server = support.Server("--admin_listen=127.0.0.1:%s" % admin_port, "--cpu_devices=2", "--slow_request_ms=5",
                                    "--tenants=%s" % cls.tenants, "--program_cache_dir=%s" % cls.cache)
        cls.addClassCleanup(cls.server.stop)
        cls.admin = admin.Admin(cls.server)
        cls.url = "http://127.0.0.1:%d/#/" % cls.admin.port

    def tearDown(self):
        self.assertEqual(self.browser.faults(), [])

    def open(self, page, theme="light", width=1280):
        self.browser.look(theme, width)
        self.browser.open(self.url + page)
        self.browser.wait_for_text("live", "#live")

    def program_path(self):
        return "program/%s/CPU%%3A0/%s" % (self.program.hash.hex(), work.QUIET)

    def test_every_page_in_every_look(self):
        with work.busy(self.server.address):
            # So long that there are shares of a minute to show.
            self.open("shares")
            self.browser.wait("seconds of history", lambda: self.browser.count(".area path") > 3)
            time.sleep(float(os.environ.get("KILN_PAGES_SECONDS", 20)))
            for page in (*PAGES, self.program_path()):
                for theme, width in LOOKS:
                    with self.subTest(page=page.split("/")[0], theme=theme, width=width):
                        self.check(page, theme, width)

    def check(self, page, theme, width):
        self.open(page, theme, width)
        name = page.split("/")[0]
        getattr(self, "values_of_" + name)()
        # A page is as wide as the screen, and what is wider scrolls within it.
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), width)
        self.browser.shoot(OUT / ("%s-%s-%d.png" % (name, theme, width)))
        self.assertEqual(self.browser.accessibility(), [])
        self.assertEqual(self.browser.faults(), [])

    def values_of_now(self):
        for tenant, *_ in work.TENANTS:
            self.browser.wait_for_text(tenant)
        self.browser.wait("somebody on CPU:0", lambda: self.browser.count(".bar.tall span") >= 2)

    def values_of_shares(self):
        self.browser.wait("a chart", lambda: self.browser.count(".area path") >= 3)
        shares = self.browser.wait("shares", self.shares)
        self.assertAlmostEqual(sum(shares), 100, delta=1)

    def shares(self):
        found = self.browser.run("return [...document.querySelectorAll('tbody tr[data-id] td:nth-child(3)')].map((cell) => cell.innerText)")
        return [float(text.split(" ")[0]) for text in found] if found else None

    def values_of_waits(self):
        self.browser.wait_for_text("entitled to")
        self.browser.wait_for_text("CPU:0")

    def values_of_calls(self):
        self.browser.wait("bars of calls", lambda: self.browser.count(".calls li .bar span") > 20)
        self.browser.wait_for_text("KernelService.Execute")
        self.browser.wait_for_text("device")

    def values_of_memory(self):
        self.browser.wait_for_text("training")
        self.browser.wait_for_text("CPU:1")

    def values_of_programs(self):
        self.browser.wait("the program's row", self.row)
        self.assertEqual(self.row()["hits"], str(HITS))

    def row(self):
        """Of the program that was run HITS times, what the table says."""
        return self.browser.run("""
            const head = [...document.querySelectorAll('thead th')].map((cell) => cell.querySelector('button').firstChild.data);
            const row = [...document.querySelectorAll('tbody tr[data-id]')].find((each) => each.dataset.id.startsWith(arguments[0]));
            return row ? Object.fromEntries([...row.children].map((cell, i) => [head[i], cell.innerText])) : null;""",
            self.program.hash.hex())  # fmt: skip

    def values_of_program(self):
        self.browser.wait_for_text(self.program.hash.hex())
        self.browser.wait_for_text(work.QUIET)
        self.browser.wait("a picture", lambda: self.browser.count(".node") >= 3)
        self.assertIn("(16,)", self.browser.run("return [...document.querySelectorAll('.node .shape')].map((each) => each.textContent)"))

    def values_of_cache(self):
        self.browser.wait_for_text("found")
        self.browser.wait_for_text("On disk")

    def values_of_workers(self):
        self.browser.wait_for_text("compiled since the start")
        self.browser.wait_for_text("on average")

    def test_keys(self):
        self.open("now")
        browser = self.browser
        for number, page in enumerate(PAGES, 1):
            browser.press(str(number), "Digit%d" % number)
            browser.wait("page %s" % page, lambda: browser.run("return location.hash") == "#/" + page)
        browser.press("6", "Digit6")
        browser.wait("rows", lambda: browser.count("tbody tr[data-id]") > 0)
        browser.press("/")
        self.assertEqual(browser.run("return document.activeElement.id"), "search")
        for letter in work.QUIET:
            browser.press(letter)
        browser.wait("what was looked for", lambda: set(browser.run(
            "return [...document.querySelectorAll('tbody td:nth-child(2)')].map((each) => each.innerText)")) == {work.QUIET})
        browser.press("Escape")
        browser.press("?")
        browser.wait("help", lambda: browser.count("dialog[open]") == 1)
        browser.press("Escape")
        browser.wait("no help", lambda: browser.count("dialog[open]") == 0)
        # Into the table by its first row, and down.
        browser.run("document.querySelector('tbody tr[tabindex=\"0\"]').focus()")
        first = browser.run("return document.activeElement.dataset.id")
        row = "return document.activeElement.dataset.id ?? ''"
        browser.press("End")
        browser.wait("another row", lambda: browser.run(row) not in ("", first))
        browser.press("Home")
        browser.wait("the first row again", lambda: browser.run(row) == first)
        browser.press("Enter")
        browser.wait("the page of a program", lambda: browser.run("return location.hash").startswith("#/program/"))
        browser.press("Escape")
        browser.wait("back", lambda: browser.run("return location.hash") == "#/programs")
        themes = []
        for _ in range(3):
            browser.press("t")
            themes.append(browser.run("return document.documentElement.dataset.theme"))
        self.assertEqual(themes, ["light", "dark", "system"])

    def test_stages_as_text_and_picture(self):
        self.open(self.program_path())
        browser = self.browser
        browser.wait("stages", lambda: browser.count(".stage-list li") > 10)
        stages = browser.count(".stage-list li")
        for i in range(stages):
            browser.run("document.querySelectorAll('.stage-list button')[arguments[0]].click()", i)
            browser.wait("stage %d" % i, lambda: browser.count(".node") > 0 or browser.count(".stage pre") == 1)
        name = browser.text(".stage h3")
        browser.run("[...document.querySelectorAll('.choice button')].find((each) => each.innerText === 'text').click()")
        browser.wait("text of %s" % name, lambda: len(browser.text(".stage pre")) > 20)

    def test_many_programs(self):
        for number in range(1, MANY + 1):
            self.quiet.compile(work.small(number))
        self.open("programs")
        browser = self.browser
        shown = browser.wait("all of them", lambda: (lambda count: count if count >= MANY else 0)(
            int(browser.run("return document.querySelector('table[aria-label=Programs]')?.getAttribute('aria-rowcount') ?? 0")) - 1))
        rows = browser.count("table[aria-label=Programs] tbody tr[data-id]")
        self.assertLess(rows, 100, "rows that are not in sight are not in the document")
        times = browser.frames()
        print("\n%d programs: %d rows in the document; a frame while scrolling took %.1f ms (median), %.1f ms (the slowest of %d)"
              % (shown, rows, statistics.median(times), max(times), len(times)))  # fmt: skip
        self.assertLess(statistics.median(times), 50)
        browser.shoot(OUT / "many-light-1280.png", whole=False)

    def test_zz_a_server_that_goes_and_comes_back(self):
        self.open("now")
        port = self.admin.port
        self.server.kill()
        self.browser.wait_for_text("does not answer", "#gone")
        self.browser.shoot(OUT / "gone-light-1280.png", whole=False)
        self.start("0", str(port))
        self.browser.wait_for_text("live", "#live")
        self.assertEqual(self.browser.text("#gone"), "")
        # The browser itself says in the console that it reached nobody.
        self.assertEqual([line for line in self.browser.faults() if "ERR_CONNECTION" not in line and "ERR_EMPTY" not in line
                          and "ERR_SOCKET" not in line], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
