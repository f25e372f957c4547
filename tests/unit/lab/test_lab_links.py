# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links of the embedded lab: the word of each machine, what is refused, and what a report says of them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.filter.lab_link import lab_link
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import links

MACHINES = ["target01", "hypervisor01"]


def test_a_machine_has_its_own_link_or_that_of_all():
    asked = [{"rate_mbit": 2.5, "delay_ms": 7}, {"machine": "target01", "loss_percent": 0.3, "delay_ms": 1.25}]
    assert links.kernel_word(asked, MACHINES, "hypervisor01") == "storlab.link=delay,7000us,rate,2500kbit"
    assert links.kernel_word(asked, MACHINES, "target01") == "storlab.link=delay,1250us,loss,0.3%"
    assert links.kernel_word([], MACHINES, "target01") == ""
    assert links.kernel_word(asked[1:], MACHINES, "hypervisor01") == ""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            [{"machine": "guest01", "delay_ms": 1}],
            "embedded_lab_links[0] machine is 'guest01'. Name one of target01, hypervisor01",
        ),
        ([{"delay_ms": 1}, {"rate_mbit": 5}], "embedded_lab_links[1] machine"),
        ([{"machine": "target01"}], "Say at least one of rate_mbit, delay_ms, loss_percent."),
        ([{"latency": 3}], "Give a mapping of machine, rate_mbit, delay_ms, loss_percent."),
        (["1ms"], "Give a mapping of machine"),
        ([{"rate_mbit": 0}], "embedded_lab_links[0] rate_mbit is 0. Give a number above 0, up to 100000 Mbit/s."),
        ([{"delay_ms": "soon"}], "embedded_lab_links[0] delay_ms is 'soon'. Give a number from 0, up to 10000 ms."),
        ([{"delay_ms": float("nan")}], "delay_ms"),
        ([{"loss_percent": 51}], "embedded_lab_links[0] loss_percent is 51. Give a number from 0, up to 50 %."),
        ([{"loss_percent": -1}], "loss_percent is -1"),
    ],
)
def test_a_link_that_cannot_be_is_refused(asked, message):
    with pytest.raises(Failure) as refused:
        links.check(asked, MACHINES)
    assert refused.value.code == "bad_value" and message in str(refused.value)
    with pytest.raises(AnsibleFilterError):
        lab_link(asked, MACHINES, "target01")


def test_a_report_tells_what_the_command_line_says():
    word = links.kernel_word([{"rate_mbit": 0.75, "delay_ms": 20, "loss_percent": 1.5}], MACHINES, "target01")
    assert links.in_words(f"console=ttyS0 quiet {word} panic=-1") == "20 ms later, 1.5 % lost, at most 0.75 Mbit/s"
    assert links.in_words("console=ttyS0 quiet") == ""
