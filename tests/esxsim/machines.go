// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// machine is destroyed as a host does it: every virtual disk that is attached goes, wherever it lies and whoever attached it (public threads), and so do
// the disks that its snapshots hold. The stock one leaves disks in other folders.
//
// belief: that disks which only a snapshot holds go, too, and that the machine's folder goes with all that is in it. A real host is thought to leave files that
// it does not know; nobody may rely on that.
type machine struct {
	*simulator.VirtualMachine
}

func (m *machine) DestroyTask(ctx *simulator.Context, req *types.Destroy_Task) soap.HasFault {
	if m.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
		for _, devices := range m.everyHardware(ctx) {
			for _, device := range object.VirtualDeviceList(devices).SelectByType((*types.VirtualDisk)(nil)) {
				if file, ok := device.GetVirtualDevice().Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
					discard(ctx, file.GetVirtualDeviceFileBackingInfo().FileName)
				}
			}
		}
	}
	return m.VirtualMachine.DestroyTask(ctx, req)
}

// everyHardware is what the machine consists of now, and did when its snapshots were taken.
func (m *machine) everyHardware(ctx *simulator.Context) [][]types.BaseVirtualDevice {
	found := [][]types.BaseVirtualDevice{m.Config.Hardware.Device}
	if m.Snapshot == nil {
		return found
	}
	left := m.Snapshot.RootSnapshotList
	for len(left) > 0 {
		item := left[0]
		left = append(left[1:], item.ChildSnapshotList...)
		if snapshot, ok := ctx.Map.Get(item.Snapshot).(*simulator.VirtualMachineSnapshot); ok {
			found = append(found, snapshot.Config.Hardware.Device)
		}
	}
	return found
}

// discard deletes a virtual disk '[store] path', and its folder when nothing else is in it.
func discard(ctx *simulator.Context, file string) {
	name, path, _ := strings.Cut(strings.TrimPrefix(file, "["), "] ")
	for _, entity := range ctx.Map.All("Datastore") {
		if store := entity.(*simulator.Datastore); store.Name == name && path != "" {
			whole := filepath.Join(store.Info.GetDatastoreInfo().Url, path)
			_ = os.Remove(whole)
			_ = os.Remove(strings.TrimSuffix(whole, ".vmdk") + "-flat.vmdk")
			// Fails when something else is in it.
			_ = os.Remove(filepath.Dir(whole))
		}
	}
}
