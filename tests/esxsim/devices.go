// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// A host with 500 disks of an array behind a fibre channel adapter, two paths to each. All that it says of its devices is megabytes then, so nobody may
// ask for the whole of it again and again; how often which property was asked for is at /properties.
const manyDevices = "many-devices"

const deviceCount, deviceAdapter = 500, "vmhba2"

func init() { everyLab = append(everyLab, manyDevices) }

// crowd gives a host these disks.
func crowd(base *types.HostStorageDeviceInfo) {
	adapter := &types.HostFibreChannelHba{HostHostBusAdapter: types.HostHostBusAdapter{Key: "key-vim.host.FibreChannelHba-" + deviceAdapter, Device: deviceAdapter,
		Status: "online", Model: "Simulated fibre channel adapter", Driver: "fc"}, PortWorldWideName: 0x1000, NodeWorldWideName: 0x2000, PortType: "fabric"}
	base.HostBusAdapter = append(base.HostBusAdapter, adapter)
	face := types.HostScsiTopologyInterface{Key: "key-vim.host.ScsiTopology.Interface-" + deviceAdapter, Adapter: adapter.Key}
	transport := &types.HostFibreChannelTargetTransport{PortWorldWideName: 0x3000, NodeWorldWideName: 0x4000}
	target := types.HostScsiTopologyTarget{Key: "key-vim.host.ScsiTopology.Target-" + deviceAdapter + ":0:0", Transport: transport}
	topology, multipath := types.HostScsiTopology{}, types.HostMultipathInfo{}
	if base.ScsiTopology != nil {
		topology = *base.ScsiTopology
	}
	if base.MultipathInfo != nil {
		multipath = *base.MultipathInfo
	}
	for number := range deviceCount {
		naa := fmt.Sprintf("6000c0ffee0000000000000000%06x", number)
		uuid := "02" + naa
		lun := types.ScsiLun{HostDevice: types.HostDevice{DeviceName: "/vmfs/devices/disks/naa." + naa, DeviceType: "disk"}, Key: "key-vim.host.ScsiDisk-" + uuid, Uuid: uuid,
			CanonicalName: "naa." + naa, DisplayName: "naa." + naa, LunType: "disk", Vendor: "SIMULATE", Model: "ARRAY", Revision: "0001", SerialNumber: fmt.Sprintf("SN%06d", number),
			QueueDepth: 64, OperationalState: []string{string(types.ScsiLunStateOk)}, VStorageSupport: "vStorageUnsupported",
			Descriptor: []types.ScsiLunDescriptor{{Quality: string(types.ScsiLunDescriptorQualityHighQuality), Id: "naa." + naa}}}
		base.ScsiLun = append(base.ScsiLun, &types.HostScsiDisk{ScsiLun: lun, DevicePath: lun.DeviceName, Capacity: types.HostDiskDimensionsLba{BlockSize: 512, Block: 1 << 21}})
		target.Lun = append(target.Lun, types.HostScsiTopologyLun{Key: "key-vim.host.ScsiTopology.Lun-" + uuid, Lun: int32(number), ScsiLun: lun.Key})
		unit := types.HostMultipathInfoLogicalUnit{Key: "key-vim.host.MultipathInfo.LogicalUnit-" + uuid, Id: uuid, Lun: lun.Key,
			Policy: &types.HostMultipathInfoLogicalUnitPolicy{Policy: "VMW_PSP_RR"}}
		for channel := range 2 {
			name := fmt.Sprintf("%s:C%d:T0:L%d", deviceAdapter, channel, number)
			unit.Path = append(unit.Path, types.HostMultipathInfoPath{Key: "key-vim.host.MultipathInfo.Path-" + name, Name: name, PathState: "active", State: "active",
				IsWorkingPath: types.NewBool(true), Adapter: adapter.Key, Lun: unit.Key, Transport: transport})
		}
		multipath.Lun = append(multipath.Lun, unit)
	}
	face.Target = []types.HostScsiTopologyTarget{target}
	topology.Adapter = append(topology.Adapter, face)
	base.ScsiTopology, base.MultipathInfo = &topology, &multipath
}

// askedFor counts the properties that a call asks for.
func (w *world) askedFor(method *simulator.Method) {
	var specs []types.PropertyFilterSpec
	if method.Name == "Fetch" {
		// pyVmomi reads a property of an object by it; its type is govmomi's own.
		w.properties[reflect.ValueOf(method.Body).Elem().FieldByName("Prop").String()]++
	}
	switch call := method.Body.(type) {
	case *types.RetrieveProperties:
		specs = call.SpecSet
	case *types.RetrievePropertiesEx:
		specs = call.SpecSet
	case *types.CreateFilter:
		specs = []types.PropertyFilterSpec{call.Spec}
	}
	for _, spec := range specs {
		for _, set := range spec.PropSet {
			for _, path := range set.PathSet {
				w.properties[path]++
			}
			if set.All != nil && *set.All {
				w.properties["all of "+set.Type]++
			}
		}
	}
}

func (w *world) takeProperties() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.properties
	w.properties = map[string]int{}
	return taken
}
