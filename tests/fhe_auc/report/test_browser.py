"""The report in a real browser: no request, no complaint, nothing cut off on a phone, nothing only for the eye.

Chromium is driven over its debugging pipe, so that no driver is needed. CHROMIUM names another executable.
"""

import datetime
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc import report
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.results.decisions import net_benefits
from fhe_auc.results.estimates import Comparison
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from tests.support.quantile_edges import quantile_edges

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "chrome-headless-shell")
CHROMIUM = next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *_NAMES))), None)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no Chromium: none of {', '.join(_NAMES)} is on the path, and CHROMIUM names none"
)

_HOSTILE = (
    '<script>console.error("ran")</script><img src="http://example.invalid/x.png" onerror="console.error(1)">&amp;"\''
)


# Chromium expects its debugging pipe at descriptors 3 and 4.
_THROUGH_A_SHELL = ("sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null')


class Browser:
    """One page of a headless Chromium, and all events that it has reported."""

    def __init__(self, profile: Path) -> None:
        self._process = subprocess.Popen(
            [
                *(*_THROUGH_A_SHELL, str(CHROMIUM)),
                *("--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage"),
                "--no-sandbox",  # it opens one page, of ours; without it root, as in containers, is refused
                *("--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"),
            ],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._write, self._read = self._process.stdin.write, self._process.stdout.read
        self._pending = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        self._write(json.dumps(command).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            chunk = self._read(2**16)
            assert chunk, "Chromium has ended"
            self._pending += chunk
        first, _, self._pending = self._pending.partition(b"\0")
        return dict(json.loads(first))

    def load(self, file: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        while not self.happened("Page.loadEventFired"):
            self.events.append(self._receive())
        self.evaluate("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def resize(self, width: int, *, mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=mobile)

    def happened(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event["method"] == method]

    def close(self) -> None:
        with self._process:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._process.kill()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on real rows, with hostile texts in every place that takes one."""
    parties = datasets.load("covid-clinics")
    rows = [np.concatenate([getattr(party, name) for party in parties]) for name in ("y_true", "y_score")]
    pool = PartyData.from_arrays("pool", *rows)
    edges = quantile_edges(pool.y_score, 50, 10)
    wanted, names = report.ReportAsked(threshold=tuple(edges[[20, 30, 40]])), ("x" * 40, "y" * 40)
    card = report.report_card(Histogram.from_rows(pool, edges), wanted=wanted)
    benefits = net_benefits(names, Histogram(np.arange(5) / 4, [10, 20, 30, 40], [400, 30, 20, 10]), 0.3, 0.95, 1)
    comparison = Comparison(first=names[0], second=names[1], difference=0.0, binning_error=0.1, missing=_HOSTILE)
    facts = report.Facts(
        title=f"Test {_HOSTILE}",
        date=datetime.date(2026, 11, 23),
        privacy=f"First. {_HOSTILE}\n\nSecond.",
        session={"Parties": 78, _HOSTILE: _HOSTILE, "A long word": "x" * 300},
        warnings=(_HOSTILE,),
        comparison=comparison,
        net_benefits=benefits,
    )
    folder = tmp_path_factory.mktemp("report")
    report.save([replace(card, model=name) for name in names], facts, folder)
    return folder / "report.html"


def test_the_page_makes_no_request_or_complaint(browser: Browser, page: Path) -> None:
    browser.load(page)
    requested = {event["request"]["url"].split(",")[0] for event in browser.happened("Network.requestWillBeSent")}
    assert requested == {page.as_uri(), "data:image/svg+xml;base64"}
    for complaint in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed"):
        assert browser.happened(complaint) == []


def test_the_browser_would_have_noticed_a_request_or_a_complaint(browser: Browser, page: Path) -> None:
    """Without this, the test above could be blind."""
    bad = page.with_name("bad.html")
    bad.write_text('<!DOCTYPE html><img src="http://127.0.0.1:9/x.png"><script>console.error("no")</script>')
    browser.load(bad)
    assert "http://127.0.0.1:9/x.png" in {e["request"]["url"] for e in browser.happened("Network.requestWillBeSent")}
    assert browser.happened("Runtime.consoleAPICalled")
    assert browser.happened("Network.loadingFailed")


def test_texts_are_shown_as_they_are_and_a_screen_reader_finds_all(browser: Browser, page: Path) -> None:
    browser.load(page)
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.evaluate("document.querySelector('h1').textContent") == f"Test {_HOSTILE}"
    assert browser.evaluate("document.body.textContent").count(_HOSTILE) == 6
    levels = browser.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert browser.evaluate("document.documentElement.lang") == "en"
    assert browser.evaluate("[...document.querySelectorAll('th')].every(th => th.scope)")
    assert browser.evaluate("[...document.querySelectorAll('table')].every(table => table.caption)")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    texts = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "image"]
    assert len(texts) == 5
    assert all(len(text) > 60 for text in texts)


@pytest.mark.parametrize("width", [320, 1280, *(pytest.param(width, marks=pytest.mark.slow) for width in (390, 768))])
def test_nothing_is_cut_off_at_any_width(browser: Browser, page: Path, width: int) -> None:
    browser.resize(width, mobile=width < 500)
    browser.load(page)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    outside = browser.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
