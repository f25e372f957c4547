// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"storlab.test/esxsim/iscsi"
)

const (
	// A device with a path that is down, or with one path only, is degraded: the API says so of the first (ScsiLunState), published pages on
	// "Status: degraded" of esxcli of the second.
	pathDegraded = "path-degraded"
	// A device without an NAA identifier is named by its EUI-64, as LUNs of StarWind are, and lists its T10 name beside it. The targets of the tests
	// have NAA identifiers: the EUI is made up of the last digits of it, and the NAA identifier is not told.
	euiNames = "eui-names"
)

func init() {
	everyStrictness = append(everyStrictness, pathDegraded)
	everyLab = append(everyLab, euiNames)
}

// identify is how a device is named, and all that it is known by.
func (h *host) identify(lun iscsi.LUN) (string, []string) {
	t10 := "t10." + strings.ReplaceAll(fmt.Sprintf("%-8s%-16s%s", lun.Vendor, lun.Product, lun.Serial), " ", "_")
	switch {
	case lun.NAA == "":
		return t10, []string{t10}
	case h.world.strict[euiNames]:
		eui := "eui." + lun.NAA[max(0, len(lun.NAA)-16):]
		return eui, []string{eui, t10}
	}
	return "naa." + lun.NAA, []string{"naa." + lun.NAA, t10}
}

// descriptors are the identifiers of a device as the API shows them.
func (d *disk) descriptors() []types.ScsiLunDescriptor {
	var found []types.ScsiLunDescriptor
	for _, id := range d.ids {
		found = append(found, types.ScsiLunDescriptor{Quality: string(types.ScsiLunDescriptorQualityHighQuality), Id: id})
	}
	return found
}

// setPath takes a portal down for all hosts, or brings it up again.
func (w *world) setPath(portal string, down bool) {
	if down {
		w.down.Store(portal, true)
	} else {
		w.down.Delete(portal)
	}
	for _, h := range w.hosts {
		h.publish()
	}
}

func (w *world) isDown(portal string) bool {
	_, down := w.down.Load(portal)
	return down
}

// live are the paths of a device that are not down.
func (h *host) live(of *disk) []path {
	return slices.DeleteFunc(slices.Clone(of.paths), func(way path) bool { return h.world.isDown(way.portal) })
}

// keepDead goes on listing the paths through portals that are down, as long as the device has others.
func (h *host) keepDead(found map[string]*disk) {
	for name, old := range h.disks {
		for _, way := range old.paths {
			if now, there := found[name]; there && h.world.isDown(way.portal) && !slices.Contains(now.paths, way) {
				now.paths = append(now.paths, way)
			}
		}
	}
}

// state is what a host says of a device whose paths these are.
func (h *host) state(of *disk) types.ScsiLunState {
	live := len(h.live(of))
	switch {
	case of.gone && h.world.strict[deviceLoss]:
		return types.ScsiLunStateOff
	case of.lost || live == 0:
		return types.ScsiLunStateLostCommunication
	case h.world.strict[pathDegraded] && (live < len(of.paths) || live == 1):
		// belief: that a LUN with a dead path has the state degraded alone; by the API the word may also follow "ok".
		return types.ScsiLunStateDegraded
	}
	return types.ScsiLunStateOk
}
