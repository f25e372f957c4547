# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that hosts say they have (``existing`` of storlab.testbed.host_probe), as entries for the inventory of a new lab.

A host's words are hostile until they are checked: they become lines of an inventory, which Ansible takes for templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.names import NAME
from .doctor import short
from .nouns import Probe
from .stages.existing_storage import KINDS, OUTSIDE, STORE
from .texts import LABEL

MOST_NAME = 28
# Signs of a template of Ansible.
TEMPLATE = re.compile(r"\{[{%#]")
ALL = "all"


class Offer(NamedTuple):
    """Storage that may be measured: the name and the words of its entry, what it is, and the hosts that see it."""

    name: str
    entry: dict[str, str]
    what: str
    hosts: tuple[str, ...]


def gather(probes: Mapping[str, Probe], inside: bool = False) -> list[Offer]:
    """The offers of all hosts together. Shared storage is one entry of all hosts that see it. probes: {inventory name: probe}

    inside: whether the hosts are guests, whose disks and folders are a kind of their own.
    """
    seen: dict[str, dict[str, Any]] = {}
    for host, probe in probes.items():
        for offer in probe.get("existing") or []:
            if not _is_plain(offer):
                continue
            # A datastore is named as its host shows it, and has no other word.
            exact = offer["name"] if offer["entry"]["kind"] == STORE else None
            key = json.dumps([offer["entry"], None if offer["shared"] else host, exact], sort_keys=True)
            seen.setdefault(key, {**offer, "hosts": []})["hosts"].append(host)
    offers: list[Offer] = []
    for known in seen.values():
        exact = known["entry"]["kind"] == STORE
        name = known["name"] if exact else _unlike(known["name"], {offer.name for offer in offers})
        hosts = tuple(dict.fromkeys(known["hosts"]))
        entry = {**known["entry"], "kind": "guest"} if inside and known["entry"]["kind"] in OUTSIDE else known["entry"]
        offers.append(Offer(name, entry, _printable(known["what"]), hosts))
    return offers


def _is_plain(offer: Any) -> bool:
    """Whether an offer has the form of the collection's own, with words of its kind and values that no template is in."""
    if not isinstance(offer, dict) or not isinstance(offer.get("entry"), dict):
        return False
    entry = offer["entry"]
    texts = [offer.get("name"), offer.get("what"), *entry.values()]
    words = KINDS[entry["kind"]].words if entry.get("kind") in KINDS else None
    return (
        all(isinstance(text, str) for text in texts)
        and words is not None
        and all(key == "kind" or key in words for key in entry)
        and not any(TEMPLATE.search(text) or not text.isprintable() for text in entry.values())
        and (entry["kind"] != STORE or LABEL[0].fullmatch(offer["name"]) is not None)
    )


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _unlike(wish: str, taken: set[str]) -> str:
    """A name that the description takes, and that is not there yet."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", wish)[:MOST_NAME].strip("_.-") or "storage"
    plain = plain if NAME.fullmatch(plain) else "storage"
    # Names of layers are compared on systems that know no case.
    low = {name.lower() for name in taken}
    names = (plain if number == 1 else f"{plain}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name.lower() not in low)


def chosen(offers: list[Offer], wanted: list[str], reasons: dict[str, Any], names: dict[str, str]) -> list[Offer]:
    """The offers that the user wants, all by default. reasons: {host: why it was not reached}; names: {host: address}

    Raises nothing_offered where there are none, and bad_value for a name that none has.
    """
    if not offers:
        missed = [f"{name} was not reached ({short(str(reason))})" for name, reason in reasons.items()]
        seen = [name for name in names if name not in reasons]
        blind = [f"{name} shows no export, share, folder, LUN or disk that could be read" for name in seen]
        raise Failure(
            "nothing_offered",
            f"No storage to measure was seen: {'; '.join([*missed, *blind])}. Nothing was written.",
            "Attach or mount it there and run new_lab again, or copy inventories/existing_nas and name it yourself.",
            hosts=list(names),
        )
    known = {offer.name: offer for offer in offers}
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is not None:
        raise bad_value("new_lab_storage", unknown, f"Use {ALL}, or names of {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(wanted)] if wanted else offers


def lines(offers: list[Offer], taken: list[Offer], hosts: list[str]) -> list[str]:
    """The lines of ``existing`` in a description, those that were not taken as remarks."""
    result = []
    for offer in offers:
        words: dict[str, Any] = {"name": offer.name, **offer.entry}
        if list(offer.hosts) != hosts:
            words["hosts"] = list(offer.hosts)
        text = ", ".join(f"{key}: {_value(value)}" for key, value in words.items())
        result += [f"    {'' if offer in taken else '# '}- {{{text}}}  # {offer.what}"]
    return result


def _value(value: Any) -> str:
    """A value in YAML: plain where that is surely the same text, else quoted as JSON, which YAML reads alike."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    # Texts of digits would be numbers, and yes, no and null something else.
    plain = re.fullmatch(r"/[A-Za-z0-9/_.-]*|[a-z][a-z0-9-]*[a-z0-9]", value) and value not in ("yes", "no", "on")
    plain = plain and value not in ("off", "true", "false", "null")
    return value if plain else json.dumps(value)
