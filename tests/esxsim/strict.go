// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"slices"
	"strings"
)

// The ways in which this host is at least as hard to deal with as a real one. All are on; -lenient switches some off.
const (
	// A VMFS on the whole of a disk is offered on disks that hold something, too, and destroys it, as the API documents.
	usedDisksOffered = "used-disks-offered"
	// A volume is not unmounted while a machine is registered on it, one that is turned off included.
	registeredBlockUnmount = "registered-machines-block-unmount"
	// A VMFS that was made on a device of another name is a copy: not mounted, but told of by QueryUnresolvedVmfsVolume.
	unresolvedVolumes = "unresolved-volumes"
	// Whether a lost device is lost for good (its target answers, without it) or all paths are down is told apart; a datastore on it cannot be
	// removed, only unmounted, and the next rescan then forgets it.
	deviceLoss = "device-loss"
	// A collector of events shows the last 10 until it is told to show more, whatever its filter says.
	eventPages = "event-pages"
	// What a host tells of itself (adapter, targets, devices, volumes) shows a change only a while after the call that made it has returned.
	lateInventory = "late-inventory"
	// A rescan returns before the portals have been asked and the targets logged in to.
	slowDiscovery = "slow-discovery"
	// Options of the host that need a restart hold from the next start on; what is configured shows at once.
	optionsNeedRestart = "options-need-restart"
	// A software iSCSI adapter that is disabled stays in the list, with its configuration, until the host is restarted.
	adapterSurvives = "adapter-survives"
	// What one host makes or destroys on a shared disk the others see after a rescan of their own only.
	ownRescanOnly = "own-rescan-only"
	// Every portal tells of one more address of each target, which asks for CHAP as well.
	severalPortals = "several-portals"
	// belief: that a datastore on which a file is open is neither unmounted nor destroyed. The API says ResourceInUse without saying of what.
	busyFiles = "busy-files"
	// belief: that a VMFS wants 1.3 GiB. It is often written, and no page of the vendor that says so was at hand.
	leastSize = "least-vmfs-size"
	// Latencies in whole milliseconds are 0, as those of a fast disk are.
	shortLatencies = "short-latencies"
	// The host's certificate carries names and no address.
	namesOnly = "names-only"
	// The hosts of a vCenter have a clock of their own: QueryDateTime and samples of counters go by it, CurrentTime and events by the vCenter's.
	// belief: that samples carry the host's time, and that the documentation means it where it says no more than "on the host".
	hostClock = "host-clock"
)

var everyStrictness = []string{usedDisksOffered, registeredBlockUnmount, unresolvedVolumes, deviceLoss, eventPages, lateInventory, slowDiscovery, optionsNeedRestart,
	adapterSurvives, ownRescanOnly, severalPortals, busyFiles, leastSize, shortLatencies, namesOnly, hostClock}

// everyLab are peculiarities of a lab that are off by default; -lab switches some on.
var everyLab []string

// strictness reads -lenient, of which what is named is off and everything else on, and -lab, of which what is named is on.
func strictness(lenient, lab string) (map[string]bool, error) {
	strict := map[string]bool{}
	for _, name := range everyStrictness {
		strict[name] = true
	}
	for _, name := range strings.FieldsFunc(lenient, func(r rune) bool { return r == ',' }) {
		if !slices.Contains(everyStrictness, name) {
			return nil, fmt.Errorf("-lenient %q: use %s", name, strings.Join(everyStrictness, ", "))
		}
		delete(strict, name)
	}
	for _, name := range strings.FieldsFunc(lab, func(r rune) bool { return r == ',' }) {
		if !slices.Contains(everyLab, name) {
			return nil, fmt.Errorf("-lab %q: use %s", name, strings.Join(everyLab, ", "))
		}
		strict[name] = true
	}
	return strict, nil
}
