# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the vSphere API as XML, in the form in which a host answers a question for properties (ObjectContent), from short tables."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


class Of(dict[str, Any]):
    """An element whose type must be said, because its property takes several."""

    def __init__(self, kind: str, **parts: Any) -> None:
        super().__init__(parts)
        self.kind = kind

    def __or__(self, more: Any) -> Of:
        return Of(self.kind, **{**self, **more})


class Ref(str):
    """A reference 'HostSystem:host-7' to a managed object."""


class Typed:
    """A value of a simple type, which is said where a property takes any."""

    def __init__(self, kind: str, value: Any) -> None:
        self.kind, self.value = kind, value


def option(key: str, kind: str, value: Any) -> Of:
    """An option with its value; whether that is an int or a long is part of the answer."""
    return Of("OptionValue", key=key, value=Typed(kind, value))


def element(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(element(name, each) for each in value)
    if isinstance(value, dict):
        kind = f" xsi:type={quoteattr(value.kind)}" if isinstance(value, Of) else ""
        return f"<{name}{kind}>{''.join(element(key, part) for key, part in value.items())}</{name}>"
    if isinstance(value, Typed):
        kind = f'xsi:type="xsd:{value.kind}" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
        return f"<{name} {kind}>{escape(str(value.value).lower() if isinstance(value.value, bool) else str(value.value))}</{name}>"
    if isinstance(value, Ref):
        kind, _colon, number = value.partition(":")
        return f"<{name} type={quoteattr(kind)}>{escape(number)}</{name}>"
    return f"<{name}>{escape(str(value).lower() if isinstance(value, bool) else str(value))}</{name}>"


def object_content(reference: str, **properties: Any) -> str:
    """The answer of one object; properties by name."""
    kind, _colon, number = reference.partition(":")
    values = {name: Typed("string", value) if type(value) is str else value for name, value in properties.items()}
    sets = "".join(f"<propSet><name>{name}</name>{element('val', value)}</propSet>" for name, value in values.items())
    return f"<ObjectContent {XSI}><obj type={quoteattr(kind)}>{escape(number)}</obj>{sets}</ObjectContent>"
