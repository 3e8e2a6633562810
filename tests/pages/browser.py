"""Debian's Chromium without a screen, for tests of the admin port's pages."""

import base64
import json
import pathlib
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

# Each page of the table of contents, and as what each is looked at.
PAGES = ("now", "shares", "waits", "calls", "memory", "programs", "cache", "workers")
LOOKS = [(theme, width) for width in (1280, 360) for theme in ("light", "dark")]
PATIENCE = 60  # seconds: a page waits for the server's next answer, on a machine with other work

# Frames while the table of programs scrolls from its head to its foot: milliseconds each.
FRAMES = """
const done = arguments[0], table = document.querySelectorAll('.table')[0], times = [];
let last = performance.now();
table.scrollTop = 0;
function frame(now) {
  times.push(now - last);
  last = now;
  table.scrollTop += 170;
  if (times.length < 60) requestAnimationFrame(frame); else done(times.slice(1));
}
requestAnimationFrame(frame);
"""


# Texts of which one covers a part of the other, "one / other" each.
OVERLAPS = """
const texts = [...document.querySelectorAll('main svg text')].filter((each) => each.textContent.trim());
const boxes = texts.map((each) => each.getBoundingClientRect()), found = [];
for (let i = 0; i < texts.length; ++i) for (let j = 0; j < i; ++j) {
  const across = Math.min(boxes[i].right, boxes[j].right) - Math.max(boxes[i].left, boxes[j].left);
  const down = Math.min(boxes[i].bottom, boxes[j].bottom) - Math.max(boxes[i].top, boxes[j].top);
  if (across > 1 && down > 3) found.push(texts[j].textContent + ' / ' + texts[i].textContent);
}
return found;
"""


class Browser:
    def __init__(self, folder, axe):
        options = Options()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--user-data-dir=%s" % (pathlib.Path(folder) / "profile")):  # fmt: skip
            options.add_argument(word)
        options.binary_location = "/usr/bin/chromium"
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.driver.set_script_timeout(5 * PATIENCE)
        self.axe = pathlib.Path(axe).read_text()

    def close(self):
        self.driver.quit()

    def look(self, theme, width, height=900):
        """As a screen of that width, of a system with that theme."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})  # fmt: skip
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})

    def open(self, url):
        self.driver.get("about:blank")
        self.driver.get(url)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector="main"):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def wait(self, what, condition):
        end = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError("%s: not in %d s; the page says:\n%s" % (what, PATIENCE, self.text("body")))
            time.sleep(0.05)

    def wait_for_text(self, text, selector="main"):
        self.wait("%r in %s" % (text, selector), lambda: text in self.text(selector))

    def press(self, key, code=None):
        self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, "code": code or key,
                                                               "text": key if len(key) == 1 else "",
                                                               "windowsVirtualKeyCode": VIRTUAL.get(key, 0)})  # fmt: skip
        self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", "key": key, "code": code or key})

    def faults(self):
        """What the console has of errors and of broken rules since this was last asked."""
        return [row["message"] for row in self.driver.get_log("browser") if row["level"] in ("SEVERE", "WARNING")]

    def accessibility(self):
        """axe-core's findings that keep somebody from using the page."""
        self.run(self.axe + "; window.axe = axe;")
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then((r) => done(r.violations), (e) => done([{id: String(e), impact: 'critical', nodes: []}]))")
        return ["%s: %s: %s" % (row["id"], row.get("help"), json.dumps([node["html"][:160] + " " + node.get("failureSummary", "")[:200] for node in row["nodes"][:3]]))
                for row in found if row["impact"] in ("serious", "critical")]

    def overlaps(self):
        """Labels of pictures that lie upon each other."""
        return self.run(OVERLAPS)

    def frames(self):
        return self.driver.execute_async_script(FRAMES)

    def shoot(self, path, whole=True):
        if whole:
            size = self.run("return document.documentElement.scrollHeight")
            width = self.run("return window.innerWidth")
            shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
                "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": width, "height": min(size, 4000), "scale": 1}})  # fmt: skip
        else:
            shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))


VIRTUAL = {"ArrowDown": 40, "ArrowUp": 38, "PageDown": 34, "PageUp": 33, "End": 35, "Home": 36, "Enter": 13, "Escape": 27, "Tab": 9}
