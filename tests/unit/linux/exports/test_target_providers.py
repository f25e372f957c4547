# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ast
import re
from pathlib import Path

import places
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import Area
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import target_providers

FOLDER = places.ROOT / "plugins" / "module_utils" / "linux" / "exports"
ROLE = places.ROOT / "roles" / "iscsi_target"


def test_a_provider_is_one_file_one_line_and_one_word():
    """What CONTRIBUTING promises: the file, its line in PROVIDERS, and its name among the role's choices."""
    names = set(target_providers.PROVIDERS)
    assert {path.stem for path in FOLDER.glob("provider_*.py")} == {f"provider_{name}" for name in names}
    options = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert set(options["iscsi_target_provider"]["choices"]) == names | {"windows"}
    assert {path.stem for path in (ROLE / "tasks").glob("provider_*.yml")} == {"provider_linux", "provider_windows"}


# Who names a provider: its own files, the list of providers, and the list of all targets that a Linux host may have, which we need not have started.
NAMES_THEM = {
    "target_providers",
    *(f"{part}{name}" for name in target_providers.PROVIDERS for part in ("", "provider_")),
}
OF_HOSTS = {
    "disks/exported.py",
    # The files and the packages of a host.
    "watch/storage_state.py",
    "watch/recording.py",
    # The folders of the kernel, whose instances are witnesses.
    "watch/claims.py",
}


def naming(text: str) -> set[str]:
    """Providers that a file names in its code, whole or as a word of a sentence; its documentation may."""
    tree = ast.parse(text)
    documents = {
        id(constant)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("DOCUMENTATION", "EXAMPLES", "RETURN"))
        for constant in ast.walk(node.value)
        if not isinstance(node.value, ast.Call)
    }
    words = re.compile(rf"\b({'|'.join(target_providers.PROVIDERS)})\b")
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
        for name in words.findall(node.value)
    }


def test_no_provider_is_named_outside_its_files_and_the_lists():
    plugins, linux = places.ROOT / "plugins", FOLDER.parent
    lists = {FOLDER / f"{name}.py" for name in NAMES_THEM} | {linux / name for name in OF_HOSTS}
    texts: dict[Path, str] = {path: path.read_text(encoding="utf-8") for path in plugins.rglob("*.py")}
    named = {path for path, text in texts.items() if naming(text)}
    assert sorted(str(path.relative_to(plugins)) for path in named - lists) == []
    # A file that no longer names one is no exception.
    assert {path for path in lists - named if path.parent != FOLDER} == set()


def test_a_provider_that_is_named_is_noticed():
    assert naming("if provider == 'tgt':\n    pass\n") == {"tgt"}
    assert naming('what = f"{a}: use the provider lio."\n') == {"lio"}
    assert naming('"""By tgt."""\nDOCUMENTATION = "tgt"\nname = "tgtd, lionel"\n') == set()
    assert naming('refuse("tgt")\n') == {"tgt"}


@pytest.mark.parametrize("name", sorted(target_providers.PROVIDERS))
def test_a_provider_has_what_the_others_have_in_less_than_a_hundred_lines(name):
    assert len((FOLDER / f"provider_{name}.py").read_text().splitlines()) < 100
    provider = target_providers.PROVIDERS[name]
    assert issubclass(provider.Area, Area) and all(len(packages) == 2 for packages in provider.COMMANDS.values())
    assert isinstance(provider.KERNEL_MODULES, tuple)
    # The role hands on what carries the provider's name; each of these options is one of the provider's.
    options = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    own = {key.split("_", 3)[3]: value for key, value in options.items() if key.startswith(f"iscsi_target_{name}_")}
    assert own == target_providers.options_of(name, {})


def test_options_are_the_providers_own():
    assert target_providers.options_of("tgt", {"page_cache": True}) == {"control_port": 3260, "page_cache": True}
    assert target_providers.options_of("lio", {}) == {}
    with pytest.raises(Failure) as caught:
        target_providers.options_of("lio", {"page_cache": True})
    assert caught.value.code == "bad_value" and "iscsi_target_lio_page_cache" in str(caught.value)


def test_the_provider_that_is_named_does_the_work(monkeypatch):
    seen = []
    for name, provider in target_providers.PROVIDERS.items():
        monkeypatch.setattr(
            provider,
            "Area",
            lambda params, check_mode, name=name: seen.append((name, params, check_mode)) or {"n": name},
        )
    given = {"provider": "tgt", "options": {"control_port": 3261}, "testbed_id": "tb"}
    assert target_providers.area(given, True) == {"n": "tgt"}
    assert seen == [("tgt", {**given, "control_port": 3261, "page_cache": False}, True)]
