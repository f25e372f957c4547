# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a stranger, whose every text wants to run something, in a real browser: the page shows them, and nothing of them runs."""

from __future__ import annotations

from pathlib import Path

import hostile_run
import pytest
import synthetic_run

ACT = "globalThis.acted=(globalThis.acted||0)+1"
EVIL = {
    "element": f"<script>{ACT}</script><img src=strangers.png onerror={ACT}><svg onload={ACT}>",
    "attribute": f"\" autofocus tabindex=0 onfocus={ACT} onmouseover={ACT} x=\"' onmouseover={ACT} x='",
    "script": f"</script><script>{ACT}</script>\";{ACT};'+({ACT})+`${{{ACT}}}`",
    "link": f"javascript:{ACT}",
}
# What somebody does who reads it: every button and field, and the pointer over whatever answers to it.
READ = """(() => {
  const events = ['pointerenter', 'pointermove', 'mouseover', 'mousemove', 'mouseenter', 'focus', 'click'];
  const all = [...document.querySelectorAll('button, summary, th, select, input, circle, rect, path, g, tr, td, [tabindex]')];
  for (const element of all) {
    for (const name of events) {
      const kind = name.startsWith('pointer') ? PointerEvent : MouseEvent;
      element.dispatchEvent(new kind(name, {bubbles: true, cancelable: true, clientX: 300, clientY: 300}));
    }
  }
  for (const select of document.querySelectorAll('select')) {
    for (const option of select.options) {
      select.value = option.value;
      select.dispatchEvent(new Event('change', {bubbles: true}));
    }
  }
  return all.length;
})()"""
# An error of an image is told later than the load of the page: one of our own comes after those of strangers.
SETTLED = """new Promise((done) => { const image = new Image(); image.onerror = () => setTimeout(() => done(true), 0);
             image.src = 'data:image/png;base64,x'; })"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load

    return load.read_run(str(synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "small", 2)))


def acts(browser, page: Path) -> int:
    """How often something of a page's texts ran, also after everything on it was used."""
    browser.open(page)
    assert browser.run(SETTLED) and browser.run(READ) > 0 and browser.run(SETTLED)
    links = browser.run(
        "[...document.querySelectorAll('a[href]')].filter(link => link.protocol === 'javascript:').length"
    )
    return links + browser.run("globalThis.acted || 0")


@pytest.mark.parametrize("kind", EVIL)
def test_nothing_of_a_stranger_runs(browser, stored, tmp_path, kind):
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import html_page, model

    built = model.build(hostile_run.poisoned(stored, EVIL[kind]), EVIL[kind])
    page = tmp_path / "index.html"
    page.write_text(html_page.html(built), encoding="utf-8")
    assert acts(browser, page) == 0
    assert [url for url in browser.requested() if "strangers" in url] == []
    assert ACT in browser.run("document.body.textContent"), "shown as text"


@pytest.mark.parametrize(
    "markup",
    [
        "<p>{element}</p>",
        '<table><tr title="{attribute}"><td>1</td></tr></table>',
        "<script>let data = '{script}'</script>",
        '<p>text</p><a href="{link}">x</a>',
    ],
)
def test_a_page_that_lets_it_in_is_noticed(browser, tmp_path, markup):
    page = tmp_path / "index.html"
    page.write_text(f"<!doctype html><button>b</button>{markup.format(**EVIL)}", encoding="utf-8")
    assert acts(browser, page) > 0
