# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chromium for tests and pictures, driven through its debugging pipe (file descriptors 3 and 4, JSON ended by NUL), which needs no library."""

from __future__ import annotations

import base64
import fcntl
import importlib.resources
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import small_png

DEADLINE_S = 90
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",
    "--remote-debugging-pipe",
)


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

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=wire,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
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
        message = {
            "id": self.number,
            "method": method,
            "params": parameters,
            **({"sessionId": self.session} if self.session else {}),
        }
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

    def open(
        self, path: Path | None, width: int = 1280, theme: str = "light", scripts: bool = True, media: str = ""
    ) -> None:
        """A fresh page, so that nothing of the last one counts; an empty one without a path."""
        self.session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        self.send(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": theme}]
        )
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri() if path else "about:blank")
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.wait(lambda answer: answer.get("method") == "Page.loadEventFired", "the page's load")

    def run(self, expression: str):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def box(self, selector: str) -> dict:
        """Where the first element of this kind is in the window, after moving there."""
        return self.run(f"""((element) => {{ element.scrollIntoView({{block: 'center'}}); const {{x, y, width, height}} = element.getBoundingClientRect();
                            return {{x, y, width, height}}; }})(document.querySelector({json.dumps(selector)}))""")

    def point(self, box: dict, across: float, down: float, kind: str = "mouseMoved", **more) -> None:
        """The mouse at a share of the box."""
        self.send(
            "Input.dispatchMouseEvent",
            type=kind,
            x=box["x"] + box["width"] * across,
            y=box["y"] + box["height"] * down,
            pointerType="mouse",
            **more,
        )

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")

    def picture(self, path: Path, height: int | None = None, part: str = "body") -> None:
        """The page, or its first element of a kind, down to a height. It is left afterwards."""
        clip = self.run(f"""(({{x, y, width, height}}) => ({{x, y: y + scrollY, width, height, scale: 1}}))
                            (document.querySelector({json.dumps(part)}).getBoundingClientRect())""")
        clip["height"] = height or clip["height"]
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        # Apart from the page, whose policy may refuse data in an address.
        self.open(None)
        reduced = self.run(f"{small_png.REDUCED}({json.dumps(data)})")
        path.write_bytes(small_png.png(**{**reduced, "pixels": base64.b64decode(reduced["pixels"])}))

    def troubles(self) -> list:
        """Console messages, exceptions and log entries of the page."""
        return [
            event["params"]
            for event in self.events
            if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        ]

    def violations(self) -> list:
        """What axe-core finds serious, critical or moderate: [rule, impact, how often, first element]."""
        self.run(
            importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8") + "; 0"
        )
        found = self.run(
            "axe.run().then(({violations}) => violations.map(({id, impact, nodes}) => [id, impact, nodes.length, nodes[0].html]))"
        )
        return [violation for violation in found if violation[1] in ("serious", "critical", "moderate")]

    def requested(self) -> list:
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]
