// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// browser also says which disks a host offers for raw mappings: "physical SCSI disks that can be used as targets for raw disk mapping", as the API documents.
//
// belief: that a host offers for raw mappings the disks that carry no volume of the host and are mapped to no machine.
// Without those that a test withholds.
type browser struct {
	*simulator.EnvironmentBrowser
	world *world
}

func (b *browser) QueryConfigTarget(ctx *simulator.Context, req *types.QueryConfigTarget) soap.HasFault {
	answer := b.EnvironmentBrowser.QueryConfigTarget(ctx, req)
	body := answer.(*methods.QueryConfigTargetBody)
	if body.Res == nil {
		return answer
	}
	target := *body.Res.Returnval
	target.ScsiDisk = nil
	for _, h := range b.world.hosts {
		if req.Host != nil && *req.Host != h.sys.Self {
			continue
		}
		for _, lun := range h.storage.StorageDeviceInfo.ScsiLun {
			disk, ok := lun.(*types.HostScsiDisk)
			if _, withheld := b.world.withheld.Load(lun.GetScsiLun().CanonicalName); ok && !withheld && h.stores.unused(ctx, disk) {
				device := types.VirtualMachineScsiDiskDeviceInfo{Disk: disk}
				device.Name = disk.CanonicalName
				target.ScsiDisk = append(target.ScsiDisk, device)
			}
		}
	}
	body.Res.Returnval = &target
	return body
}
