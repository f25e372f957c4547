// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"slices"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	// A VMkernel interface is not unbound while sessions go through it, and they go on after their target was removed, until a rescan ends them. The
	// API documents the refusal (IscsiFaultVnicHasActivePaths of UnbindVnic).
	// belief: that every interface which was bound at a rescan carries sessions of every target, and that it takes a rescan to end them.
	vnicActivePaths = "vnic-active-paths"
	// A static target is removed whatever is on its LUNs: of RemoveInternetScsiStaticTargets the API documents NotFound and HostConfigFault only.
	// belief: that no host answers HostConfigFault because of a mounted volume.
	staticRemoveNeverRefuses = "static-remove-never-refuses"
)

func init() {
	everyStrictness = append(everyStrictness, vnicActivePaths, staticRemoveNeverRefuses)
}

// carry notes which interfaces the sessions of the disks that a rescan found go through.
func (h *host) carry() {
	h.carrying = nil
	for _, found := range h.disks {
		if !found.lost {
			h.carrying = slices.Clone(h.bound)
			return
		}
	}
}

// unbindFault is why an interface cannot be unbound, nil when it can.
func (h *host) unbindFault(device string, force bool) *soap.Fault {
	if force || !h.world.strict[vnicActivePaths] || !slices.Contains(h.carrying, device) {
		return nil
	}
	return fault("sessions go through "+device, &types.IscsiFaultVnicHasActivePaths{VnicDevice: device})
}
