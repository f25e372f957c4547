# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Git is a record for those who come later: a subject that fits a list, and a body that says why. CONTRIBUTING.md has the rule."""

from __future__ import annotations

import subprocess

import pytest
from places import ROOT

# The commits after this one are held to the rule.
SINCE = "07c42a98213fa5b3c1c510d9223a563071cf7e7c"
LOOKED_AT = 50
SUBJECT = 72  # characters


def git(*words: str, folder=ROOT) -> str | None:
    """What git prints; None where there is no git, no repository, or no such commit, as in a tarball or a shallow clone."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(folder), *words], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def wrong(message: str) -> list[str]:
    subject, _, body = message.strip().partition("\n")
    faults = []
    if len(subject) > SUBJECT:
        faults.append(f"the subject has {len(subject)} characters")
    if subject.endswith("."):
        faults.append("the subject ends with a full stop")
    if not body.startswith("\n") or not body.strip():
        faults.append("there is no body that says why")
    return [f"{subject[:SUBJECT]}: {fault}" for fault in faults]


def messages(since: str, folder=ROOT) -> list[str]:
    printed = git("log", "--no-merges", f"-{LOOKED_AT}", "--format=%B%x00", f"{since}..HEAD", folder=folder)
    return [message for message in (printed or "").split("\0") if message.strip()]


def test_the_last_commits_have_a_short_subject_and_a_body():
    if git("rev-parse", "--verify", "--quiet", f"{SINCE}^{{commit}}") is None:
        pytest.skip(f"this checkout has no history back to {SINCE}")
    assert [fault for message in messages(SINCE) for fault in wrong(message)] == []


@pytest.mark.parametrize(
    ("message", "faults"),
    [
        ("Count each byte once\n\nIt was counted twice.\n", 0),
        ("x" * 72 + "\n\nWhy.", 0),
        ("x" * 73 + "\n\nWhy.", 1),
        ("Count each byte once\n", 1),
        ("Count each byte once\nand go on at once", 1),
        ("Count each byte once.\n\nWhy.", 1),
        ("y" * 80 + ".", 3),
    ],
)
def test_a_message_against_the_rule_is_noticed(message, faults):
    assert len(wrong(message)) == faults


def test_messages_are_read_from_a_repository(tmp_path):
    def run(*words: str) -> str | None:
        return git("-c", "user.name=n", "-c", "user.email=n@example.com", *words, folder=tmp_path)

    if run("init", "--quiet") is None:
        pytest.skip("there is no git")
    for subject in ("first", "second", "third"):
        assert run("commit", "--quiet", "--allow-empty", "-m", subject, "-m", f"Body of {subject}.") is not None
    first = (run("rev-list", "--max-parents=0", "HEAD") or "").strip()
    assert [message.strip().splitlines()[0] for message in messages(first, tmp_path)] == ["third", "second"]
    assert messages("0" * 40, tmp_path) == [] and git("log", folder=tmp_path / "none") is None
