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
	"github.com/vmware/govmomi/vim25/types"
)

// expunge is what a host does besides when it destroys a machine. The stock one deletes every virtual disk that is attached, wherever it lies and whoever
// attached it, as hosts do (public threads), and the machine's folder with all that is in it.
//
// belief: that Destroy deletes disks which only a snapshot holds, and the machine's folder. A real host is thought to leave files that it does not know; nobody may
// rely on that.
func expunge(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	if vm.Snapshot == nil || vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
		return
	}
	left := vm.Snapshot.RootSnapshotList
	for len(left) > 0 {
		item := left[0]
		left = append(left[1:len(left):len(left)], item.ChildSnapshotList...)
		snapshot, ok := ctx.Map.Get(item.Snapshot).(*simulator.VirtualMachineSnapshot)
		if !ok {
			continue
		}
		for _, device := range object.VirtualDeviceList(snapshot.Config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil)) {
			if file, ok := device.GetVirtualDevice().Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
				discard(ctx, file.GetVirtualDeviceFileBackingInfo().FileName)
			}
		}
	}
}

// discard deletes a virtual disk '[store] path'.
func discard(ctx *simulator.Context, file string) {
	name, path, _ := strings.Cut(strings.TrimPrefix(file, "["), "] ")
	for _, entity := range ctx.Map.All("Datastore") {
		if store := entity.(*simulator.Datastore); store.Name == name && path != "" {
			whole := filepath.Join(store.Info.GetDatastoreInfo().Url, path)
			_ = os.Remove(whole)
			_ = os.Remove(strings.TrimSuffix(whole, ".vmdk") + "-flat.vmdk")
		}
	}
}
