# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a real browser: both themes, phone width, print, scripts off; no errors, no network, nothing cut off.

Chromium is driven through its debugging pipe (file descriptors 3 and 4, JSON ended by NUL), which needs no library.

    python tests/integration/test_report_browser.py REPORT.html FOLDER     # pictures of a report, as used in docs/img
"""

from __future__ import annotations

import base64
import fcntl
import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 90
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-prefers-reduced-motion", "--remote-debugging-pipe")


class Browser:
    """One Chromium; commands in, answers and events out."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert program, "Chromium is not installed. Install the package chromium; make test does it where it may."
        self.profile = tempfile.mkdtemp(prefix="storlab-chromium-")
        theirs_in, self.pipe_in = os.pipe()
        self.pipe_out, theirs_out = os.pipe()
        # Out of the way of 3 and 4, so that one duplication cannot overwrite the other.
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20) for descriptor in (theirs_in, theirs_out)]

        def wire():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"], preexec_fn=wire, pass_fds=(3, 4),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for descriptor in (theirs_in, theirs_out, *high):
            os.close(descriptor)
        self.number, self.rest, self.events, self.session = 0, b"", [], None

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=DEADLINE_S)
        os.close(self.pipe_in)
        os.close(self.pipe_out)
        shutil.rmtree(self.profile, ignore_errors=True)

    def send(self, method: str, **parameters) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.pipe_in, json.dumps(message).encode() + b"\0")
        return self.wait(lambda answer: answer.get("id") == self.number, method)

    def wait(self, wanted, what: str) -> dict:
        end = time.monotonic() + DEADLINE_S
        while True:
            while b"\0" in self.rest:
                text, self.rest = self.rest.split(b"\0", 1)
                answer = json.loads(text)
                assert "error" not in answer, (what, answer)
                if "method" in answer:
                    self.events.append(answer)
                if wanted(answer):
                    return answer.get("result", answer)
            ready, _, _ = select.select([self.pipe_out], [], [], max(0, end - time.monotonic()))
            assert ready, f"Chromium did not answer {what} in {DEADLINE_S} s."
            self.rest += os.read(self.pipe_out, 1 << 20)

    def open(self, path: Path, width: int = 1280, theme: str = "light", scripts: bool = True, media: str = "") -> None:
        """A fresh page, so that nothing of the last one counts."""
        self.session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.send("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": theme}])
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.wait(lambda answer: answer.get("method") == "Page.loadEventFired", "the page's load")

    def run(self, expression: str):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path, height: int | None = None) -> None:
        whole = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": whole["width"], "height": height or whole["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))

    def troubles(self) -> list:
        """Console messages, exceptions and log entries of the page."""
        return [event["params"] for event in self.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")]

    def requested(self) -> list:
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    from ansible_collections.storlab.testbed.plugins.module_utils.report import load, model, render

    specification = importlib.util.spec_from_file_location("make_fixture", ROOT / "tests" / "unit" / "fixtures" / "report" / "make_fixture.py")
    make_fixture = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(make_fixture)
    folder = Path(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 3, 2))
    (folder / "report").mkdir()
    for name, text in render.render(model.build(load.read_run(str(folder)))).items():
        (folder / "report" / name).write_text(text, encoding="utf-8")
    return folder / "report" / "index.html"


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
# Elements that reach beyond the page and are not inside something that scrolls.
CUT_OFF = """[...document.querySelectorAll('main *')].filter((element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.right > document.documentElement.clientWidth + 1 && !element.closest('.scroll');
}).map((element) => element.tagName + '.' + element.getAttribute('class'))"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 400, 360])
def test_nothing_goes_wrong_and_nothing_is_cut_off(browser, index, width, theme):
    browser.open(index, width, theme)
    assert browser.troubles() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []


def test_the_theme_follows_the_system_and_the_button(browser, index):
    browser.open(index, theme="light")
    light = browser.run(BACKGROUND)
    browser.open(index, theme="dark")
    dark = browser.run(BACKGROUND)
    assert light != dark
    press = "document.getElementById('theme').click(); document.getElementById('theme').textContent"
    assert browser.run(press) == "Theme: light" and browser.run(BACKGROUND) == light
    assert browser.run(press) == "Theme: dark" and browser.run(BACKGROUND) == dark
    assert browser.run(press) == "Theme: auto"


def test_print_is_light_and_has_no_buttons(browser, index):
    browser.open(index, theme="dark", media="print")
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.getElementById('theme')).display") == "none"


def test_readable_with_scripts_off(browser, index):
    browser.open(index, scripts=False)
    # The debugger may still ask; only the page's own script is off.
    assert browser.run("document.getElementById('theme').hidden") is True
    assert browser.run("document.querySelectorAll('.waterfall tbody tr').length") == 18
    assert browser.run("[...document.querySelectorAll('svg.chart.wide')].every((chart) => chart.getBoundingClientRect().height > 100)") is True
    assert browser.run("document.querySelector('.waterfall data').textContent") == browser.run("document.querySelector('.waterfall data').innerText")


@pytest.mark.parametrize(("width", "seen", "hidden"), [(1280, "wide", "narrow"), (400, "narrow", "wide")])
def test_each_width_has_its_own_pictures(browser, index, width, seen, hidden):
    browser.open(index, width)
    heights = "[...document.querySelectorAll('svg.chart.%s')].map((chart) => chart.getBoundingClientRect().height)"
    assert min(browser.run(heights % seen)) > 100 and max(browser.run(heights % hidden)) == 0


def test_text_in_pictures_is_big_enough_on_a_phone(browser, index):
    browser.open(index, 380)
    smallest = """Math.min(...[...document.querySelectorAll('svg.chart.narrow text')].map((text) =>
      parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a))"""
    assert browser.run(smallest) >= 9


def test_names_in_the_chain_stay_in_their_boxes(browser, index):
    for width in (1280, 400):
        browser.open(index, width)
        outside = """[...document.querySelectorAll('.chain .node')].filter((node) => node.getBoundingClientRect().width > 0).flatMap((node) => {
          const box = node.querySelector('rect').getBoundingClientRect();
          return [...node.querySelectorAll('text')].filter((text) => text.getBoundingClientRect().right > box.right + 1).map((text) => text.textContent);
        })"""
        assert browser.run(outside) == []


def test_tables_sort_by_the_exact_number(browser, index):
    browser.open(index)
    browser.run("[...document.querySelectorAll('.points thead button')].find((button) => button.textContent === 'IOPS').click()")
    values = browser.run("[...document.querySelectorAll('.points td[data-metric=iops] data')].map((data) => Number(data.value))")
    assert len(values) == 36 and values == sorted(values)
    assert browser.run("document.querySelector('.points th[aria-sort]').textContent") == "IOPS"


def test_a_curve_tells_its_value_under_the_pointer(browser, index):
    browser.open(index)
    browser.run("document.querySelector('.distribution').scrollIntoView()")
    box = browser.run("(({x, y, width, height}) => ({x, y, width, height}))(document.querySelector('.distribution svg.wide').getBoundingClientRect())")
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=box["x"] + box["width"] / 3, y=box["y"] + box["height"] / 3)
    assert "% within" in browser.run("document.getElementById('tip').textContent")
    assert browser.run("document.getElementById('tip').hidden") is False
    assert browser.troubles() == []


def test_accessible_names_and_order_of_headings(browser, index):
    browser.open(index)
    assert browser.run("document.documentElement.lang") == "en"
    levels = browser.run("[...document.querySelectorAll('h1, h2, h3')].map((heading) => Number(heading.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1 and all(after - before <= 1 for before, after in zip(levels, levels[1:]))
    assert browser.run("[...document.querySelectorAll('svg[role=img]')].filter((chart) => !chart.querySelector('title').textContent).length") == 0
    assert browser.run("[...document.querySelectorAll('a, button')].filter((element) => !element.textContent.trim()).length") == 0
    assert browser.run("[...document.querySelectorAll('.scroll')].filter((element) => element.tabIndex !== 0).length") == 0


def main(report: str, folder: str) -> None:
    browser = Browser()
    try:
        for name, width, theme, height in (("report-light", 1280, "light", 2300), ("report-dark", 1280, "dark", 2300), ("report-phone", 390, "light", 2600)):
            browser.open(Path(report).resolve(), width, theme)
            browser.picture(Path(folder) / f"{name}.png", height)
    finally:
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
