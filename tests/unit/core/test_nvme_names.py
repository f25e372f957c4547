# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, identifiers and keys of NVMe."""

from __future__ import annotations

import base64
import uuid
import zlib

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import nvme_names
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure


def test_a_name_is_the_same_in_both_protocols():
    assert nvme_names.nqn_of("iqn.2026-01.t:a") == "nqn.2026-01.t:a"
    assert nvme_names.iqn_of("nqn.2026-01.t:a") == "iqn.2026-01.t:a"
    # The name of somebody else's is left as it is.
    assert nvme_names.iqn_of("uuid:1") == "uuid:1"


@pytest.mark.parametrize("name", ["eui.0123456789abcdef", "naa.0123456789abcdef", "nqn.2026-01.t:a", ""])
def test_a_name_of_another_kind_is_refused(name):
    with pytest.raises(Failure) as caught:
        nvme_names.nqn_of(name)
    assert caught.value.code == "bad_value"


def test_a_host_has_an_identifier_of_its_own():
    one, two = nvme_names.host_id("nqn.2026-01.t:a"), nvme_names.host_id("nqn.2026-01.t:b")
    assert one != two and one == nvme_names.host_id("nqn.2026-01.t:a") == str(uuid.UUID(one))


def test_new_contents_have_another_uuid():
    names = {nvme_names.namespace_uuid("tb", "a", generation) for generation in (None, "g1", "g2")}
    assert len(names) == 3 and all(str(uuid.UUID(name)) == name for name in names)
    assert nvme_names.namespace_uuid("tb", "a") == nvme_names.namespace_uuid("tb", "a")


def test_a_key_has_the_form_of_the_kernel_and_hides_the_password():
    """DHHC-1:<transformation>:<Base64 of the key and its CRC-32, low byte first>: as nvme-cli's gen-dhchap-key writes it."""
    text = nvme_names.dhchap_key("secret-in-one-1", "nqn.2026-01.t:a")
    name, transformation, encoded, end = text.split(":")
    key = base64.b64decode(encoded)
    assert (name, transformation, end, len(key)) == ("DHHC-1", "00", "", 36)
    assert int.from_bytes(key[32:], "little") == zlib.crc32(key[:32])
    assert "secret" not in text and b"secret" not in key
    others = {
        nvme_names.dhchap_key("secret-in-one-2", "nqn.2026-01.t:a"),
        nvme_names.dhchap_key("secret-in-one-1", "nqn.2026-01.t:b"),
    }
    assert text not in others and len(others) == 2
