# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pages show holds: links lead somewhere, YAML is accepted by what it is for, commands call what exists; lists are up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path

import docs_site
import jsonschema
import pytest
import test_house
import test_types
import write_words
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import description, inventory
from places import ROOT
from test_documentation import argument_spec, documented

PAGES = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
] + sorted((ROOT / "docs").glob("*.md"))
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
SCHEMA = json.loads((ROOT / "docs" / "schema" / "storlab.testbed.schema.json").read_text(encoding="utf-8"))
PLAYBOOKS = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
RECIPES = "".join(
    path.read_text(encoding="utf-8") for path in (ROOT / "Makefile", *sorted((ROOT / "make").glob("*.mk")))
)
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", RECIPES, re.MULTILINE))
ROLES = inventory.role_options()
# Where variables stand that a command may set: of roles, and of playbooks.
TAKEN = "\n".join(
    path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/meta/argument_specs.yml")]
)


# ---------------------------------------------------------------- links


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    titles = [
        re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    ]
    return {re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", title.lower())) for title in titles}


def broken_links(pages: dict, exists) -> list:
    """'page: link' of relative links that lead nowhere. pages: {path: text}; exists(path) of what is no page."""
    found = []
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(text))):
            if re.match(r"[a-z]+:", link):
                continue
            path, _hash, anchor = link.partition("#")
            full = str((Path("/") / name).parent.joinpath(path).resolve().relative_to("/")) if path else name
            if full in pages:
                if anchor and anchor not in anchors(pages[full]):
                    found.append(f"{name}: {link}")
            elif not exists(full):
                found.append(f"{name}: {link}")
    return found


def test_links_and_anchors_lead_somewhere():
    assert broken_links(TEXTS, lambda path: (ROOT / path).exists()) == []


def test_a_broken_link_is_noticed():
    pages = {
        "README.md": "# A b, c: `d`\n[x](docs/p.md#one) [y](docs/p.md#two) [z](docs/q.png)",
        "docs/p.md": "## One\n[r](../README.md#a-b-c-d) `[n](o)`",
    }
    assert broken_links(pages, lambda path: False) == ["README.md: docs/p.md#two", "README.md: docs/q.png"]


def test_the_list_of_pages_has_each_once():
    listed = re.findall(r"\]\(([a-z_]+\.md)\)", TEXTS["docs/index.md"])
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "index.md")
    assert "](docs/index.md)" in TEXTS["README.md"]


def test_the_site_has_every_page_in_its_navigation():
    """The whole of it is built by make docs-site; this needs no Sphinx."""
    text = docs_site.contents(TEXTS["README.md"], TEXTS["docs/index.md"])
    assert text.startswith(TEXTS["README.md"])
    trees = re.findall(r"```\{toctree\}\n:hidden:\n:caption: [^\n]+\n\n(.*?)```", text, re.DOTALL)
    below = [
        page
        for _heading, entries in docs_site.sections(TEXTS["docs/index.md"])
        for _first, *rest in entries
        for page in rest
    ]
    assert "methods" in below
    named = [page for tree in trees for page in tree.split()] + below
    every = [str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")]
    # An example has a README of its own, for whoever copies it.
    pages = [page for page in every if page != "index" and not page.startswith("examples/")]
    others = [name.removesuffix(".md") for name in docs_site.PLACES.values()]
    assert sorted(["index", *named]) == sorted([*pages, *others, "reference/index"])


def test_links_are_those_of_the_site():
    text = "[a](docs/report.md#x) [b](CHANGELOG.md) [c](https://a.example/docs/b.md) [d](#here) ![e](docs/img/f.png)"
    assert docs_site.moved(text, "README.md") == (
        "[a](report.md#x) [b](CHANGELOG.md) [c](https://a.example/docs/b.md) [d](#here) ![e](img/f.png)"
    )
    assert docs_site.moved("[a](../README.md#x) [b](safety.md)", "docs/esxi.md") == "[a](index.md#x) [b](safety.md)"
    assert (
        docs_site.moved("[a](index.md)", "docs/esxi.md")
        == docs_site.moved("[a](docs/index.md)", "README.md")
        == "[a](pages.md)"
    )


# ---------------------------------------------------------------- blocks


def swallowed(text: str) -> list:
    """The indented lines that are meant as a block of code, and are a paragraph of the list before them."""
    return re.findall(r"^(?:[-*]|\d+\.) [^\n]*\n(?: +\S[^\n]*\n)*\n {4}(\S[^\n]*)$", prose(text), re.MULTILINE)


def test_a_block_after_a_list_is_not_a_paragraph_of_it():
    assert {name: lines for name, text in TEXTS.items() if (lines := swallowed(text))} == {}
    assert swallowed("- a\n  b\n\n    make c\n\nd") == ["make c"]
    assert swallowed("- a\n\n```\nmake c\n```\n") == swallowed("a\n\n    make c\n") == []


# ---------------------------------------------------------------- blocks of YAML


def documents(text: str) -> list:
    """The documents of a block; a comment that is a file's name begins another."""
    parts = re.split(r"^# (?:\S+\.yml|group_vars/all\b).*$", text, flags=re.MULTILINE)
    return [document for part in parts for document in yaml.safe_load_all(part) if document is not None]


def faults(document) -> list:
    """What is wrong with an example: a list of tasks or disks, or variables of an inventory. Files of other programs are only parsed."""
    if isinstance(document, list):
        return [fault for entry in document for fault in of_entry(entry)]
    if any(str(name).startswith(("testbed", *ROLES)) for name in document):
        unknown = [name for name in document if name not in SCHEMA["properties"]]
        errors = jsonschema.Draft7Validator(SCHEMA).iter_errors(document)
        # An example may leave out the rest of the description.
        return unknown + [error.message for error in errors if not (error.json_path == "$.testbed" and partial(error))]
    return [] if FOREIGN & set(document) else [f"nobody knows what {list(document)} are"]


# Files of other programs, and the hosts of an inventory.
FOREIGN = {"all", "jobs", "storage", "repos", "images"}


def partial(error: jsonschema.ValidationError) -> bool:
    return all(part.validator in ("required", "type") for part in error.context or [error])


def of_entry(entry: dict) -> list:
    if "kind" in entry:
        return faults({"testbed": {"disks": [entry]}})
    found = []
    for key, given in entry.items():
        if key.startswith("storlab.testbed."):
            path = ROOT / "plugins" / "modules" / f"{key.rpartition('.')[2]}.py"
            if not path.exists():
                return [f"there is no module {key}"]
            options = documented(path)["DOCUMENTATION"]["options"]
            plain = {name: value for name, value in given.items() if "{{" not in str(value)}
            result = ArgumentSpecValidator(argument_spec(options)).validate(plain)
            found += [text for text in result.error_messages if plain == given or "missing required" not in text]
            found += [f"{key} has no {name}" for name in given if name not in options]
    return found


BLOCKS = [
    pytest.param(document, id=f"{page.removeprefix('docs/')}-{number}")
    for page, text in TEXTS.items()
    # test_engine_workloads_page.py and test_molecule_page.py have those
    if page not in ("docs/workloads.md", "docs/molecule.md")
    for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE), start=1)
    for document in documents(block)
]


@pytest.mark.parametrize("document", BLOCKS)
def test_a_block_of_yaml_is_accepted(document):
    assert faults(document) == []


@pytest.mark.parametrize(
    "text",
    [
        "testbed: {disks: [{name: a, siez: 128MiB}]}",
        "benchmark_repetition: 5",
        "- {name: a, kind: raid, raid: {levle: 1}}",
        "- storlab.testbed.benchmark_run: {state: status}",
        "- storlab.testbed.benchmrk: {run_id: a}",
        "colour: red",
    ],
)
def test_a_wrong_block_is_noticed(text):
    assert faults(yaml.safe_load(text)) != []


# ---------------------------------------------------------------- commands


def commands(text: str) -> list:
    """Commands in blocks, indented lines and `code`; continued lines joined, comments left out."""
    blocks = re.findall(r"^```\w*\n(.*?)^```|^( {4}\S.*(?:\n {4}.*)*)", text, re.DOTALL | re.MULTILINE)
    code = ["".join(parts) for parts in blocks] + re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(text))
    found = []
    for part in code:
        joined = re.sub(r" *\\\n\s*", " ", part)
        # Prose begins lines with "make", too.
        found += re.findall(r"^\s*(make [a-z-]+)(?= *(?:$|#| [A-Z_]+=))", joined, re.MULTILINE)
        found += re.findall(r"(?:^|[\s/])((?:ansible-playbook|ansible-doc|ansible) [^\n#]+)", joined, re.MULTILINE)
    return [command.strip() for command in found]


def wrong_in(command: str) -> list:
    """Names in a command that nothing has."""
    words = command.split()
    if words[0] == "make":
        return [word for word in words[1:2] if re.fullmatch(r"[a-z-]+", word) and word not in TARGETS]
    found = [
        name
        for name in re.findall(r"storlab\.testbed\.(\w+)", command)
        if words[0] == "ansible-playbook" and name not in PLAYBOOKS
    ]
    if words[0] in ("ansible-doc", "ansible"):
        names = re.findall(r"storlab\.testbed\.(\w+)", command)
        found += [name for name in names if not (ROOT / "plugins" / "modules" / f"{name}.py").exists()]
    # There is one spelling, which works in the clone and wherever the collection is installed.
    found += re.findall(r"(?:playbooks/)?\S+\.yml", command.split(" -e ")[0]) if words[0] == "ansible-playbook" else []
    for name in re.findall(r"-e '?\{?\"?(\w+)", command):
        if name not in description.WORDS and not re.search(rf"\b{name}\b", TAKEN):
            found.append(name)
    return found


def test_commands_call_what_exists():
    shown = {
        f"{page}: {command}": wrong_in(command)
        for page, text in TEXTS.items()
        if page != "CHANGELOG.md"
        for command in commands(text)
    }
    assert len(shown) > 60
    assert {command: wrong for command, wrong in shown.items() if wrong} == {}


def test_the_page_on_measuring_has_the_defaults_of_the_role():
    rows = re.findall(r"^\| `(benchmark_\w+)` \|[^|]*\| ([^|]*) \|$", TEXTS["docs/benchmark.md"], re.MULTILINE)
    plain = {name: text for name, text in rows if re.fullmatch(r"\d+|true|false|required", text)}
    assert {"benchmark_repetitions", "benchmark_series", "benchmark_steady_state"} <= set(plain)
    defaults = {name: json.dumps(ROLES["benchmark"][name].get("default", "required")) for name in plain}
    assert plain == defaults


# What users read; CONTRIBUTING.md is for those who work in the clone.
FOR_USERS = [
    ROOT / "README.md",
    *(
        path
        for folder in ("docs", "playbooks", "roles", "inventories", "plugins")
        for path in sorted((ROOT / folder).rglob("*"))
    ),
]
CALLED = re.compile(r"ansible-playbook [^\n`]*?storlab\.testbed\.([\w.]+)")


def spelled(text: str) -> list:
    """Playbooks that are called by a path of the clone, or that do not exist."""
    every = {
        ".".join(path.relative_to(ROOT / "playbooks").with_suffix("").parts)
        for path in (ROOT / "playbooks").rglob("*.yml")
    }
    return re.findall(r"\bplaybooks/[\w/]+\.yml", text) + [
        name for name in CALLED.findall(text) if name.rstrip(".") not in every
    ]


def test_playbooks_are_called_by_one_spelling():
    texts = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in FOR_USERS
        if path.suffix in (".md", ".yml", ".py")
    }
    assert sum(len(CALLED.findall(text)) for text in texts.values()) > 60
    assert {name: spelled(text) for name, text in texts.items() if spelled(text)} == {}
    assert spelled("ansible-playbook playbooks/experiments/all.yml") == ["playbooks/experiments/all.yml"]
    assert spelled("ansible-playbook -i x storlab.testbed.experiments.e9") == ["experiments.e9"]
    assert spelled("ansible-playbook -i x storlab.testbed.experiments.all") == []


def test_a_wrong_command_is_noticed():
    assert [
        wrong_in(command)
        for command in commands("    ansible-playbook -i x storlab.testbed.biuld -e testbed_runid=1\n`make dmeo`\n")
    ] == [
        ["biuld", "testbed_runid"],
        ["dmeo"],
    ]
    assert wrong_in("ansible-playbook playbooks/build.yml -e '{\"benchmark_repetition\": 3}'") == [
        "playbooks/build.yml",
        "benchmark_repetition",
    ]
    assert wrong_in("ansible-doc storlab.testbed.nothing") == ["nothing"]


# ---------------------------------------------------------------- lists


def test_the_page_of_variables_is_up_to_date():
    """To renew it: python tests/tools/write_words.py"""
    assert (ROOT / "docs" / "words.md").read_text(encoding="utf-8") == write_words.current()


def test_a_variable_is_shown_with_all_that_is_in_it():
    words = {"testbed_x": {"type": "str", "description": "An V(a|b) of O(y)."}}
    inner = {
        "disks": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "suboptions": {"lun": {"type": "int", "default": 7}},
        }
    }
    text = write_words.page(
        words,
        inner,
        {"raid": {"raid_y": {"choices": ["p", "q"], "default": "q", "description": ["A.", "B."]}, "raid_z": {}}},
        {"raid_z": "testbed_x"},
    )
    assert "| `testbed_x` | str |  | An `a\\|b` of `y`. |\n" in text
    assert "| `testbed.disks` | list of dict | needed |  |\n| `testbed.disks[].lun` | int | `7` |  |\n" in text
    assert "## Of the role `raid`" in text and '| `raid_y` | `p` or `q` | `"q"` | A. B. |\n' in text
    assert "| `raid_z` | str |  |  With the playbooks write `testbed_x` instead. |\n" in text


TERM = re.compile(r"^\*\*([^*]+)\*\* — ", re.MULTILINE)


def test_the_glossary_is_in_order_and_has_the_words_of_the_house():
    terms = TERM.findall(TEXTS["docs/glossary.md"])
    assert terms == sorted(set(terms), key=str.lower)
    kinds = {"ceiling", "backing", "target", "initiator", "datastore", "guest"}
    house = {
        "lane",
        "twin",
        "layer",
        "point",
        "round",
        "run",
        "testbed",
        "workload",
        "sweep",
        "engine",
        "profile",
        "stamp",
    }
    assert (kinds | house) - {part for term in terms for part in term.split(", ")} == set()
    assert any("scratch" in term for term in terms)


def test_the_first_page_counts_the_profiles():
    profiles = list((ROOT / "roles" / "benchmark" / "files" / "profiles").glob("*.yml"))
    assert f"[{len(profiles)} named profiles]" in TEXTS["README.md"]


def test_the_first_page_reaches_its_first_command_on_one_screen():
    before = TEXTS["README.md"].partition("```\n")[0].splitlines()
    assert len(before) <= 12


# ---------------------------------------------------------------- furniture of the repository


def test_issue_forms_are_what_github_takes():
    """Keys and types as GitHub documents them for issue forms."""
    for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem == "config":
            assert set(form) == {"blank_issues_enabled", "contact_links"}
            assert all(set(link) == {"name", "url", "about"} for link in form["contact_links"])
            continue
        assert set(form) == {"name", "description", "labels", "body"}
        ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert ids and len(ids) == len(set(ids))
        assert {part["type"] for part in form["body"]} <= {"markdown", "input", "textarea", "dropdown", "checkboxes"}
        assert all(part["attributes"].get("label") or part["attributes"].get("value") for part in form["body"])


def test_hooks_call_tools_that_are_pinned():
    pinned = (ROOT / ".config" / "requirements-test.lock").read_text(encoding="utf-8")
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert tools == {tool for tool in tools if f"\n{tool}==" in pinned} and len(tools) == 3


def test_editors_find_the_schema():
    [(path, globs)] = json.loads((ROOT / ".vscode" / "settings.json").read_text(encoding="utf-8"))[
        "yaml.schemas"
    ].items()
    assert (ROOT / path).is_file()
    assert {"**/group_vars/**/*.yml", "**/host_vars/**/*.yml"} == set(globs)


# ---------------------------------------------------------------- what runs where


def untold(text: str, matrix: str, runtime: str, preflight: str) -> list:
    """Versions that .ci/matrix tries, or that are required, of which docs/support.md says nothing."""
    cores = re.findall(r'"(2\.\d+)": \("', matrix)
    pythons = re.findall(r'"(3\.\d+)"', matrix[matrix.index("\nPYTHONS") : matrix.index("\nHOSTS_ROOMS")])
    least = {
        "ansible-core": re.findall(r'">=(2\.\d+)\.0"', runtime),
        "Python": [".".join(version) for version in re.findall(r"sys\.version_info < \((\d+), (\d+)\)", preflight)],
    }
    assert cores and len(pythons) > 2 and all(len(versions) == 1 for versions in least.values())
    tried = [version for version in cores + pythons if not re.search(rf"(?<![\d.]){re.escape(version)}(?![\d])", text)]
    needed = [
        f"{what} {version}" for what, (version,) in least.items() if f"| {what} | {version} or later |" not in text
    ]
    return tried + needed


SUPPORT_FILES = [
    (ROOT / name).read_text(encoding="utf-8") for name in (".ci/matrix", "meta/runtime.yml", ".config/preflight.sh")
]


def test_the_page_of_what_runs_where_has_every_version_that_is_tried():
    assert untold(TEXTS["docs/support.md"], *SUPPORT_FILES) == []


def test_a_version_that_is_tried_and_not_told_is_noticed():
    text = TEXTS["docs/support.md"].replace("2.20", "2.2").replace("| Python | 3.11", "| Python | 3.10")
    assert untold(text, *SUPPORT_FILES) == ["2.20", "Python 3.11"]


def test_the_way_of_a_number_is_that_of_the_files():
    """Each file of the table has the word that the table says, and both units are those that are counted."""
    part = TEXTS["docs/architecture.md"].partition("### The way of one number\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `([^`]+)` \| .*?`(\w+)`", part, re.M)
    assert f"These are {len(rows)} files and {len({word for _file, word in rows if '_' in word})} units" in part
    assert [
        file for file, word in rows if not re.search(rf"\b{word}\b", (ROOT / file).read_text(encoding="utf-8"))
    ] == []
    makes_bytes = "plugins/module_utils/linux/backing/ramdisk.py"
    others = [file for file, word in rows if word == "size_bytes" and file != makes_bytes]
    assert others == [] and 'disk["size_mib"] * MIB' in (ROOT / makes_bytes).read_text(encoding="utf-8")


def test_each_store_of_the_number_has_a_test_of_its_own():
    part = TEXTS["docs/architecture.md"].partition("### The way of one number\n")[2].partition("\n#")[0]
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "unit").rglob("test_*.py"))
    named = re.findall(r"\| `(test_\w+)` \|$", part, re.M)
    assert "There are 3," in part and len(named) == 3 and [name for name in named if f"def {name}(" not in tests] == []


def limits(page: str) -> list[str]:
    """The limits of the table of figures, from its first row to its last."""
    part = page.partition("## Figures that may only fall\n")[2].partition("\n#")[0]
    return re.findall(r"^\| [^|]+ \| [\d.]+(?: %)? \| ([\d.]+)(?: %)? \|", part, re.M)


def test_the_limits_of_the_page_are_those_of_the_tests():
    held = [*test_types.MOST_PERCENT.values(), test_house.LONG_FILES, test_house.LONG_FUNCTIONS]
    assert limits(TEXTS["docs/architecture.md"]) == [str(limit) for limit in held]


def grown(page: str) -> tuple[int, int]:
    """(lines, files) to which plugins has grown, as the page says."""
    match = re.search(r"`plugins` grew from 75 158 lines in 354 files of Python to about ([\d ]+) in (\d+)", page)
    assert match
    return int(match.group(1).replace(" ", "")), int(match.group(2))


def outdated(told: tuple[int, int], counted: tuple[int, int]) -> bool:
    """Whether a figure is more than 3 % off: each change moves it a little, and nobody rewrites a page for that."""
    return any(abs(one - other) > 0.03 * other for one, other in zip(told, counted))


def test_the_size_of_the_page_is_that_of_the_plugins():
    assert not outdated(grown(TEXTS["docs/architecture.md"]), test_house.HOUSE.size())


def test_a_size_that_was_left_behind_is_noticed():
    assert not outdated((91000, 500), (90000, 505))
    assert outdated((91000, 500), (94000, 505)) and outdated((91000, 480), (90000, 505))
