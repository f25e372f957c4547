# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook expands the description once, with the secrets that it will use, and writes them only after nothing was refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.action import chain
from chain_lab import TWO_LINUX
from unchanged import refused

STARS = chain.inventory.masked_secrets()


class Lab:
    """The action on an inventory of two Linux hosts, in a folder of the test."""

    def __init__(self, folder, monkeypatch) -> None:
        content = yaml.safe_load(TWO_LINUX)
        everywhere = content.pop("all") | {
            "inventory_dir": str(folder / "lab"),
            "inventory_file": str(folder / "lab/lab.yml"),
        }
        (folder / "lab").mkdir()
        (folder / "lab/lab.yml").touch()
        self.folder, self.state = folder, folder / "lab/lab-testbed/state"
        self.hosts = {host: {**everywhere, **own} for group in content.values() for host, own in group.items()}
        self.groups = {"all": list(self.hosts), **{group: list(members) for group, members in content.items()}}
        self.expanded: list[dict] = []
        expand = chain.expand.expand

        def counted(lab):
            self.expanded.append(dict(lab["secrets"]))
            return expand(lab)

        monkeypatch.setattr(chain.expand, "expand", counted)

    def run(self, check: bool = False, limit: str = "", **arguments) -> dict:
        self.expanded.clear()
        task = SimpleNamespace(args=arguments, action="chain", check_mode=check, tags=[])
        templar = SimpleNamespace(template=lambda value: value)
        action = chain.ActionModule(task, None, None, None, templar, None)
        names = list(self.hosts)
        action.task_vars = {
            "hostvars": self.hosts,
            "groups": self.groups,
            "inventory_hostname": names[0],
            "ansible_play_hosts": names,
            "ansible_play_hosts_all": [name for name in names if limit in ("", name)],
            **({"ansible_limit": limit} if limit else {}),
        }
        return action.perform(action.parameters())

    def password(self, result: dict) -> str:
        return result["hosts"]["store01"]["variables"]["iscsi_target_targets"][0]["initiators"][0]["chap_password"]

    def written(self) -> dict:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def lab(tmp_path, monkeypatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def test_a_build_expands_once_and_keeps_what_it_expanded_with(lab):
    first = lab.run()
    assert len(lab.expanded) == 1
    kept = {path.name: path.read_text(encoding="utf-8").strip() for path in (lab.state / "secrets").iterdir()}
    assert kept == lab.expanded[0] and {name: len(text) for name, text in kept.items()} == chain.inventory.SECRETS
    assert lab.password(first) == kept["chap"] and "*" not in "".join(kept.values())
    assert (lab.state / "inventory.json").is_file()
    before = lab.written()
    assert lab.password(lab.run()) == kept["chap"]
    assert lab.expanded == [kept] and lab.written() == before


def test_with_one_secret_lost_it_alone_is_made_again(lab):
    lab.run()
    before = lab.expanded[0]
    (lab.state / "secrets/chap").unlink()
    lab.run()
    assert lab.expanded == [chain.inventory.kept_secrets(str(lab.state))]
    assert {name for name, text in before.items() if lab.expanded[0][name] != text} == {"chap"}


@pytest.mark.parametrize("arguments", [{"show": True}, {"require": "results"}], ids=["show", "results"])
def test_who_only_looks_gets_stars_and_writes_nothing(lab, arguments):
    before = lab.written()
    lab.run(**arguments)
    assert lab.expanded == [STARS] and lab.written() == before
    lab.run()
    before = lab.written()
    lab.run(**arguments)
    assert lab.expanded == [STARS] and lab.written() == before


def test_check_mode_writes_nothing_and_uses_the_secrets_that_are_there(lab):
    before = lab.written()
    asked = {"addresses": {"client01": "192.0.2.77"}}
    assert lab.password(lab.run(check=True, **asked)) == STARS["chap"]
    assert lab.expanded == [STARS] and lab.written() == before
    lab.run()
    kept, before = lab.expanded[0], lab.written()
    assert lab.password(lab.run(check=True, **asked)) == kept["chap"]
    assert lab.expanded == [kept] and lab.written() == before


def _strange_word(lab: Lab) -> dict:
    lab.hosts["store01"]["testbed_adress"] = "192.0.2.9"
    return {}


def _size(lab: Lab) -> dict:
    return {"testbed": {"disks": [{"name": "bench", "size": "many"}]}}


def _other_owner(lab: Lab) -> dict:
    (lab.folder / "other.yml").touch()
    chain.owner.claim(str(lab.state), [str(lab.folder / "other.yml")])
    return {}


def _built_otherwise(lab: Lab) -> dict:
    lab.run(built="kept")
    for path in (lab.state / "secrets").iterdir():
        path.unlink()
    return {"testbed": {"disks": [{"name": "bench", "size": "2GiB"}]}}


def _limit(lab: Lab) -> dict:
    return {"limit": "client01", "scope": "build"}


@pytest.mark.parametrize(
    "fault, code",
    [
        (_strange_word, "description_wrong"),
        (_size, "description_wrong"),
        (_other_owner, "description_wrong"),
        (_built_otherwise, "description_wrong"),
        (_limit, "limit_unfit"),
    ],
)
def test_after_a_refusal_nothing_is_written(lab, fault, code):
    arguments = fault(lab)
    with refused(lab.folder) as caught:
        lab.run(**arguments, addresses={"client01": "192.0.2.77"})
    assert caught.value.code == code, caught.value.what
    assert len(lab.expanded) == 1
    drawn = [secret for secret in lab.expanded[0].values() if "*" not in secret]
    assert len(drawn) == 3 and not any(secret in repr(caught.value.as_result()) for secret in drawn)


def test_two_that_begin_at_once_end_with_the_secrets_of_the_first(lab, monkeypatch):
    keep = chain.inventory.keep_secrets
    others = {"chap": "of-somebody-else", "mutual_chap": "of-somebody-two", "nbd": "3" * 32}

    def late(state_dir, drawn):
        keep(state_dir, others)
        return keep(state_dir, drawn)

    monkeypatch.setattr(chain.inventory, "keep_secrets", late)
    assert lab.password(lab.run()) == "of-somebody-else"
    assert lab.expanded[1:] == [others] and chain.inventory.kept_secrets(str(lab.state)) == others
