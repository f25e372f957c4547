# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts of the iSCSI initiator: one cmdlet each."""

from __future__ import annotations

from cases import WILD, Case, call, refused

IQN, CHAP = "iqn.2026-11.org.example:a", ("initiator-user", "first-secret-1")
PORTAL = {"Address": "192.0.2.1", "Port": 3261}
LOGIN = {"NodeAddress": IQN, "TargetPortalAddress": "192.0.2.1", "TargetPortalPortNumber": 3261, "IsPersistent": False}
ONE = [
    Case(
        "initiator_portal_new",
        "with its port",
        PORTAL,
        [call("New-IscsiTargetPortal", TargetPortalAddress="192.0.2.1", TargetPortalPortNumber=3261)],
    ),
    Case(
        "initiator_portal_remove",
        "this port of the address only",
        PORTAL,
        [
            call(
                "Remove-IscsiTargetPortal",
                TargetPortalAddress=["192.0.2.1"],
                TargetPortalPortNumber=3261,
                Confirm=False,
            )
        ],
    ),
    Case(
        "initiator_portal_update",
        "asks again for its targets",
        {"Address": "2001:db8::1"},
        [call("Update-IscsiTargetPortal", TargetPortalAddress=["2001:db8::1"])],
    ),
    # A session that outlives a restart of the host would come back when the testbed has gone.
    Case(
        "session_login",
        "without CHAP, until the host restarts",
        {"Iqn": IQN, **PORTAL},
        [call("Connect-IscsiTarget", **LOGIN)],
    ),
    Case(
        "session_login_chap",
        "with one-way CHAP",
        {"Iqn": IQN, **PORTAL},
        [
            call(
                "Connect-IscsiTarget",
                **LOGIN,
                AuthenticationType="ONEWAYCHAP",
                ChapUsername="initiator-user",
                ChapSecret="first-secret-1",
            )
        ],
        secret=CHAP,
    ),
    Case(
        "session_logout",
        "this session of this target",
        {"Iqn": IQN, "Id": "ffffe001-4000013700000002"},
        [
            call(
                "Disconnect-IscsiTarget",
                NodeAddress=[IQN],
                SessionIdentifier="ffffe001-4000013700000002",
                Confirm=False,
            )
        ],
    ),
]
CASES = [
    *ONE,
    *(case for one in ONE for case in refused(one)),
    Case(
        "session_login_chap",
        "a secret that looks like a script",
        {"Iqn": IQN, "Address": "2001:db8::1", "Port": 65535},
        [
            call(
                "Connect-IscsiTarget",
                NodeAddress=IQN,
                TargetPortalAddress="2001:db8::1",
                TargetPortalPortNumber=65535,
                IsPersistent=False,
                AuthenticationType="ONEWAYCHAP",
                ChapUsername="user$x",
                ChapSecret=WILD,
            )
        ],
        secret=("user$x", WILD),
    ),
    Case(
        "session_login",
        "names that look like a script",
        {"Iqn": WILD, "Address": WILD, "Port": 3260},
        [
            call(
                "Connect-IscsiTarget",
                NodeAddress=WILD,
                TargetPortalAddress=WILD,
                TargetPortalPortNumber=3260,
                IsPersistent=False,
            )
        ],
    ),
    Case(
        "session_logout",
        "names that look like a script",
        {"Iqn": WILD, "Id": WILD},
        [call("Disconnect-IscsiTarget", NodeAddress=[WILD], SessionIdentifier=WILD, Confirm=False)],
    ),
]
