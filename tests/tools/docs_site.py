# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the site of all pages and the reference of all plugins and roles: `make docs-site`. Warnings, and links that lead nowhere, are errors.

The pages are those of docs/, unchanged but for links out of that folder. The site starts with README.md, and its sidebar has the order of docs/index.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Pages of the repository that have another name or place in the site: {path: its name in the site}.
PLACES = {
    "README.md": "index.md",
    "docs/index.md": "pages.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
}
CONF = """
project = "storlab.testbed"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = "storlab.testbed"
html_static_path = ["style"]
html_css_files = ["site.css"]
myst_heading_anchors = 6
exclude_patterns = ["schema", "examples"]
# Titles of a changelog are alike in each release.
suppress_warnings = ["myst.header"]
"""

# The title, a name with a dot in it, fits on the first line of a phone.
STYLE = "@media (max-width: 30em) { h1 { font-size: 1.8em } }\n"

# What the reference refers to in Ansible's own documentation: {label: (title, address)}; what is not here is an error.
ANSIBLE = "https://docs.ansible.com/projects/ansible/latest/"
ELSEWHERE = {
    "action_plugins": ("Action plugins", f"{ANSIBLE}plugins/action.html"),
    "ansible_configuration_settings": ("Configuration settings", f"{ANSIBLE}reference_appendices/config.html"),
    "common_return_values": ("Common return values", f"{ANSIBLE}reference_appendices/common_return_values.html"),
    **{
        f"ansible_collections.ansible.windows.{name}_module": (
            f"ansible.windows.{name}",
            f"{ANSIBLE}collections/ansible/windows/{name}_module.html",
        )
        for name in ("win_powershell", "win_reboot")
    },
}


def sections(index: str) -> list:
    """[(heading, [[names of pages without .md] of each entry])] of docs/index.md."""
    parts = re.split(r"^## (.*)$", index, flags=re.MULTILINE)[1:]
    return [
        (
            heading,
            [re.findall(r"\]\(([\w/]+)\.md\)", entry) for entry in re.split(r"^- ", text, flags=re.MULTILINE)[1:]],
        )
        for heading, text in zip(parts[::2], parts[1::2])
    ]


def tree(pages: list, caption: str = "") -> str:
    """A table of contents that Sphinx makes its sidebar of."""
    return "\n".join(
        ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```", ""]
    )


def contents(readme: str, index: str) -> str:
    """The first page: README.md, with the pages that begin an entry of docs/index.md in its sidebar."""
    trees = [
        *((heading, [entry[0] for entry in entries]) for heading, entries in sections(index)),
        ("Reference", ["reference/index"]),
        ("The project", ["pages", "CONTRIBUTING", "CHANGELOG", "SECURITY"]),
    ]
    return "\n".join([readme, *(tree(pages, heading) for heading, pages in trees)])


def moved(text: str, page: str) -> str:
    """A page with its links as they are in the site, where all pages are in one folder. page: its path in the repository."""

    def link(found: re.Match) -> str:
        target, anchor = found[1], found[2] or ""
        path = (Path("/") / page).parent.joinpath(target).resolve().relative_to("/")
        if str(path) in PLACES:
            return f"]({PLACES[str(path)]}{anchor})"
        return f"]({path.relative_to('docs') if path.parts[0] == 'docs' else target}{anchor})"

    return re.sub(r"\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)", link, text)


def assemble(source: Path) -> None:
    shutil.copytree(ROOT / "docs", source)
    (source / "index.md").unlink()
    pages = {f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    for path, name in {**pages, **PLACES}.items():
        (source / name).write_text(moved((ROOT / path).read_text(encoding="utf-8"), path), encoding="utf-8")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    first = source / "index.md"
    first.write_text(contents(first.read_text(encoding="utf-8"), index), encoding="utf-8")
    # The other pages of an entry are below its first one.
    for parent, *below in (entry for _heading, entries in sections(index) for entry in entries):
        if below:
            page = source / f"{parent}.md"
            pages = [f"/{name}" for name in below]
            page.write_text("\n".join([page.read_text(encoding="utf-8"), tree(pages)]), encoding="utf-8")
    (source / "style").mkdir()
    (source / "style" / "site.css").write_text(STYLE, encoding="utf-8")
    (source / "conf.py").write_text(CONF, encoding="utf-8")


def elsewhere() -> str:
    """A page whose titles are the labels of Ansible's documentation, so that no other site is asked while this one is built."""
    title = ":orphan:\n\nIn Ansible's documentation\n==========================\n"
    entries = [
        f"\n.. _{label}:\n\n{name}\n{'-' * len(name)}\n\n`{name} <{url}>`__\n"
        for label, (name, url) in ELSEWHERE.items()
    ]
    return title + "".join(entries)


def main(folder: Path) -> None:
    shutil.rmtree(folder / "source", ignore_errors=True)
    shutil.rmtree(folder / "html", ignore_errors=True)
    assemble(folder / "source")
    reference = folder / "source" / "reference"
    reference.mkdir()
    programs = Path(sys.executable).parent
    subprocess.run(
        [
            programs / "antsibull-docs",
            "collection",
            "--use-current",
            "--squash-hierarchy",
            "--fail-on-error",
            "--dest-dir",
            reference,
            "storlab.testbed",
        ],
        check=True,
        cwd=ROOT,
    )
    (reference / "elsewhere.rst").write_text(elsewhere(), encoding="utf-8")
    subprocess.run(
        [programs / "sphinx-build", "-q", "-W", "--keep-going", "-b", "html", folder / "source", folder / "html"],
        check=True,
        cwd=ROOT,
    )
    print(f"The site: {folder / 'html' / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
