// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Situations that a test puts the host into while it runs (/situation); none holds at first.
const (
	// Lockdown mode: a user who is no exception is known and has no access (documentation of SessionManager.Login and HostAccessManager).
	lockdown = "lockdown"
	// The free licence: what changes something is refused with RestrictedVersion, and the licence's edition is esxBasic (public threads and scripts).
	readOnlyLicence = "licence-read-only"
)

var everySituation = []string{lockdown, readOnlyLicence}

const freeEdition, freeName = "esxBasic", "VMware vSphere Hypervisor"

// belief: that an API restricted by the licence still answers methods that look. Known from threads by example only; these look, or belong to sessions and to what reads properties.
var looking = regexp.MustCompile("^(Log(in|out)|Fetch|Retrieve|Query|Search|Find|CurrentTime|Create(ContainerView|CollectorForEvents|Filter|PropertyCollector)|" +
	"Destroy(View|Collector|PropertyFilter|PropertyCollector)|SetCollectorPageSize|ResetCollector|RewindCollector|Refresh|WaitForUpdates|CancelWaitForUpdates|SessionIsActive)")

func (w *world) situate(name string, holds bool) error {
	if !slices.Contains(everySituation, name) {
		return fmt.Errorf("situation %q is not known", name)
	}
	if name == readOnlyLicence {
		licence := simulator.EvalLicense
		if holds {
			licence.EditionKey, licence.Name = freeEdition, freeName
		}
		w.model.Map().Get(*w.model.ServiceContent.LicenseManager).(*simulator.LicenseManager).Licenses = []types.LicenseManagerLicenseInfo{licence}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.situations[name] = holds
	return nil
}

// forbidden is why a situation does not let a call pass, nil when it does.
func (w *world) forbidden(method *simulator.Method) types.BaseMethodFault {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.situations[lockdown] && method.Name == "Login":
		return &types.NoPermission{Object: &w.model.ServiceContent.RootFolder, PrivilegeId: "System.View"}
	case w.situations[readOnlyLicence] && !looking.MatchString(method.Name):
		return &types.RestrictedVersion{}
	case w.recorded && !looking.MatchString(method.Name):
		return &types.NotSupported{}
	}
	return nil
}
