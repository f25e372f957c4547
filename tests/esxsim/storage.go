// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"storlab.test/esxsim/iscsi"
)

const (
	adapterDevice = "vmhba65"
	// The other address of every target, which leads nowhere but in the simulation (RFC 5737).
	secondAddress = "198.51.100.65"
)

// path is one way to a LUN: the target and its number there.
type path struct {
	iqn, portal string
	lun         int
}

// disk is a LUN that some login found.
type disk struct {
	iscsi.LUN
	name  string   // canonical, naa.… or eui.…
	ids   []string // all that it is known by
	paths []path
	mark  *mark // the VMFS on it, when there is one
	lost  bool
	gone  bool // lost, and its target says that there is no such device any more
	// What a partition table on it says, as of the last rescan.
	partitions []types.HostDiskPartitionAttributes
}

// storageSystem adds software iSCSI and VMFS mounts to the stock HostStorageSystem.
type storageSystem struct {
	*simulator.HostStorageSystem
	host *host
}

func (s *storageSystem) UpdateSoftwareInternetScsiEnabled(_ *simulator.Context, req *types.UpdateSoftwareInternetScsiEnabled) soap.HasFault {
	body := &methods.UpdateSoftwareInternetScsiEnabledBody{Res: &types.UpdateSoftwareInternetScsiEnabledResponse{}}
	h := s.host
	if !req.Enabled && h.mounted() {
		body.Res, body.Fault_ = nil, fault("a datastore on an iSCSI LUN is mounted", &types.ResourceInUse{Type: "HostInternetScsiHba", Name: adapterDevice})
		return body
	}
	h.enabled = req.Enabled
	switch {
	case req.Enabled:
		if h.adapter == nil {
			h.adapter = newAdapter(h.sys.Summary.Hardware.Uuid)
		}
		h.listed = true
	case !h.world.strict[adapterSurvives]:
		h.adapter, h.listed, h.bound, h.disks = nil, false, nil, map[string]*disk{}
	}
	h.changed()
	return body
}

// newAdapter is a software iSCSI adapter as ESXi makes it, with the options it then has.
func newAdapter(uuid string) *types.HostInternetScsiHba {
	yes := types.NewBool(true)
	adapter := &types.HostInternetScsiHba{
		HostHostBusAdapter: types.HostHostBusAdapter{Key: "key-vim.host.InternetScsiHba-" + adapterDevice, Device: adapterDevice, Status: "online",
			Model: "iSCSI Software Adapter (simulated)", Driver: "iscsi_vmk"},
		IsSoftwareBased: true, CanBeDisabled: yes, NetworkBindingSupport: types.HostInternetScsiHbaNetworkBindingSupportTypeOptional,
		IScsiName:             "iqn.1998-01.com.vmware:esxsim-" + strings.ReplaceAll(uuid, "-", "")[:12],
		DiscoveryCapabilities: types.HostInternetScsiHbaDiscoveryCapabilities{StaticTargetDiscoverySettable: true, SendTargetsDiscoverySettable: true},
		DiscoveryProperties:   types.HostInternetScsiHbaDiscoveryProperties{StaticTargetDiscoveryEnabled: true, SendTargetsDiscoveryEnabled: true},
		AuthenticationCapabilities: types.HostInternetScsiHbaAuthenticationCapabilities{ChapAuthSettable: true, MutualChapSettable: yes,
			TargetChapSettable: yes, TargetMutualChapSettable: yes},
		AuthenticationProperties: types.HostInternetScsiHbaAuthenticationProperties{ChapAuthenticationType: "chapProhibited",
			MutualChapAuthenticationType: "chapProhibited"},
	}
	give(adapter)
	return adapter
}

// adapterFault is why a request about this adapter cannot be met, nil when it can.
func (h *host) adapterFault(device string) *soap.Fault {
	if h.adapter == nil || !h.listed || device != h.adapter.Device {
		return fault("there is no iSCSI adapter "+device, &types.NotFound{})
	}
	return nil
}

func (s *storageSystem) UpdateInternetScsiName(_ *simulator.Context, req *types.UpdateInternetScsiName) soap.HasFault {
	body := &methods.UpdateInternetScsiNameBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ != nil {
		return body
	}
	if !strings.HasPrefix(req.IScsiName, "iqn.") && !strings.HasPrefix(req.IScsiName, "eui.") {
		body.Fault_ = fault("not an iSCSI name", &types.InvalidArgument{InvalidProperty: "iScsiName"})
		return body
	}
	s.host.adapter.IScsiName = req.IScsiName
	s.host.changed()
	body.Res = &types.UpdateInternetScsiNameResponse{}
	return body
}

func (s *storageSystem) UpdateInternetScsiAlias(_ *simulator.Context, req *types.UpdateInternetScsiAlias) soap.HasFault {
	body := &methods.UpdateInternetScsiAliasBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ == nil {
		s.host.adapter.IScsiAlias = req.IScsiAlias
		s.host.changed()
		body.Res = &types.UpdateInternetScsiAliasResponse{}
	}
	return body
}

func (s *storageSystem) UpdateInternetScsiAuthenticationProperties(_ *simulator.Context, req *types.UpdateInternetScsiAuthenticationProperties) soap.HasFault {
	body := &methods.UpdateInternetScsiAuthenticationPropertiesBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ != nil {
		return body
	}
	properties := req.AuthenticationProperties
	if req.TargetSet == nil {
		s.host.adapter.AuthenticationProperties = properties
		s.host.changed()
		body.Res = &types.UpdateInternetScsiAuthenticationPropertiesResponse{}
		return body
	}
	matched := 0
	s.host.inSet(req.TargetSet, func(authentication **types.HostInternetScsiHbaAuthenticationProperties, _ *[]types.HostInternetScsiHbaParamValue) {
		copied := properties
		*authentication = &copied
		matched++
	})
	if matched == 0 {
		body.Fault_ = fault("no such target", &types.NotFound{})
		return body
	}
	s.host.changed()
	body.Res = &types.UpdateInternetScsiAuthenticationPropertiesResponse{}
	return body
}

func (s *storageSystem) UpdateInternetScsiAdvancedOptions(_ *simulator.Context, req *types.UpdateInternetScsiAdvancedOptions) soap.HasFault {
	body := &methods.UpdateInternetScsiAdvancedOptionsBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ != nil {
		return body
	}
	for _, option := range req.Options {
		for _, own := range s.host.adapter.AdvancedOptions {
			if own.Key == option.Key && mistyped(own.Value, option.Value) != nil {
				body.Fault_ = fault("the value has another type", &types.InvalidArgument{InvalidProperty: option.Key})
				return body
			}
		}
		if s.host.unfit(option) {
			body.Fault_ = fault("the value cannot be set", &types.InvalidArgument{InvalidProperty: option.Key})
			return body
		}
		if !supported(s.host.adapter, option.Key) {
			body.Fault_ = fault("unknown option "+option.Key, &types.InvalidArgument{InvalidProperty: option.Key})
			return body
		}
	}
	if req.TargetSet == nil {
		s.host.adapter.AdvancedOptions = merged(s.host.adapter.AdvancedOptions, req.Options)
	} else {
		s.host.inSet(req.TargetSet, func(_ **types.HostInternetScsiHbaAuthenticationProperties, options *[]types.HostInternetScsiHbaParamValue) {
			*options = merged(*options, req.Options)
		})
	}
	s.host.changed()
	body.Res = &types.UpdateInternetScsiAdvancedOptionsResponse{}
	return body
}

func supported(adapter *types.HostInternetScsiHba, key string) bool {
	for _, definition := range adapter.SupportedAdvancedOptions {
		if definition.Key == key {
			return true
		}
	}
	return false
}

func merged(old, changes []types.HostInternetScsiHbaParamValue) []types.HostInternetScsiHbaParamValue {
	found := append([]types.HostInternetScsiHbaParamValue(nil), old...)
next:
	for _, change := range changes {
		for index := range found {
			if found[index].Key == change.Key {
				found[index].Value = change.Value
				continue next
			}
		}
		found = append(found, change)
	}
	return found
}

// inSet visits the configured targets that a target set names.
func (h *host) inSet(set *types.HostInternetScsiHbaTargetSet, visit func(**types.HostInternetScsiHbaAuthenticationProperties, *[]types.HostInternetScsiHbaParamValue)) {
	for _, asked := range set.SendTargets {
		for index := range h.adapter.ConfiguredSendTarget {
			if own := &h.adapter.ConfiguredSendTarget[index]; portal(own.Address, own.Port) == portal(asked.Address, asked.Port) {
				visit(&own.AuthenticationProperties, &own.AdvancedOptions)
			}
		}
	}
	for _, asked := range set.StaticTargets {
		for index := range h.adapter.ConfiguredStaticTarget {
			if own := &h.adapter.ConfiguredStaticTarget[index]; portal(own.Address, own.Port) == portal(asked.Address, asked.Port) && own.IScsiName == asked.IScsiName {
				visit(&own.AuthenticationProperties, &own.AdvancedOptions)
			}
		}
	}
}

func portal(address string, port int32) string {
	if port == 0 {
		port = 3260
	}
	return net.JoinHostPort(address, strconv.Itoa(int(port)))
}

func (s *storageSystem) AddInternetScsiSendTargets(_ *simulator.Context, req *types.AddInternetScsiSendTargets) soap.HasFault {
	body := &methods.AddInternetScsiSendTargetsBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ != nil {
		return body
	}
	for _, target := range req.Targets {
		for _, own := range s.host.adapter.ConfiguredSendTarget {
			if portal(own.Address, own.Port) == portal(target.Address, target.Port) {
				body.Fault_ = fault("the target is configured already", &types.AlreadyExists{Name: target.Address})
				return body
			}
		}
		target.Parent = adapterDevice
		if target.AuthenticationProperties == nil {
			target.AuthenticationProperties = s.host.inherited()
		}
		s.host.adapter.ConfiguredSendTarget = append(s.host.adapter.ConfiguredSendTarget, target)
	}
	s.host.changed()
	body.Res = &types.AddInternetScsiSendTargetsResponse{}
	return body
}

func (s *storageSystem) RemoveInternetScsiSendTargets(_ *simulator.Context, req *types.RemoveInternetScsiSendTargets) soap.HasFault {
	body := &methods.RemoveInternetScsiSendTargetsBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ != nil {
		return body
	}
	var kept []types.HostInternetScsiHbaSendTarget
	for _, own := range s.host.adapter.ConfiguredSendTarget {
		gone := false
		for _, target := range req.Targets {
			gone = gone || portal(own.Address, own.Port) == portal(target.Address, target.Port)
		}
		if !gone {
			kept = append(kept, own)
		}
	}
	if len(kept) == len(s.host.adapter.ConfiguredSendTarget) {
		body.Fault_ = fault("no such target", &types.NotFound{})
		return body
	}
	s.host.adapter.ConfiguredSendTarget = kept
	// What it had discovered stays until somebody removes it, as on ESXi.
	s.host.changed()
	body.Res = &types.RemoveInternetScsiSendTargetsResponse{}
	return body
}

func (s *storageSystem) AddInternetScsiStaticTargets(_ *simulator.Context, req *types.AddInternetScsiStaticTargets) soap.HasFault {
	body := &methods.AddInternetScsiStaticTargetsBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ != nil {
		return body
	}
	for _, target := range req.Targets {
		target.DiscoveryMethod = string(types.HostInternetScsiHbaStaticTargetTargetDiscoveryMethodStaticMethod)
		target.Parent = adapterDevice
		if !s.host.addStatic(target) {
			body.Fault_ = fault("the target is configured already", &types.AlreadyExists{Name: target.IScsiName})
			return body
		}
	}
	s.host.changed()
	body.Res = &types.AddInternetScsiStaticTargetsResponse{}
	return body
}

func (h *host) addStatic(target types.HostInternetScsiHbaStaticTarget) bool {
	for _, own := range h.adapter.ConfiguredStaticTarget {
		if own.IScsiName == target.IScsiName && portal(own.Address, own.Port) == portal(target.Address, target.Port) {
			return false
		}
	}
	if target.AuthenticationProperties == nil {
		target.AuthenticationProperties = h.inherited()
	}
	h.adapter.ConfiguredStaticTarget = append(h.adapter.ConfiguredStaticTarget, target)
	return true
}

// inherited is what a target without settings of its own shows: those of the level above, marked as such.
func (h *host) inherited() *types.HostInternetScsiHbaAuthenticationProperties {
	own := h.adapter.AuthenticationProperties
	own.ChapSecret, own.MutualChapSecret = "", ""
	own.ChapInherited, own.MutualChapInherited = types.NewBool(true), types.NewBool(true)
	return &own
}

func (s *storageSystem) RemoveInternetScsiStaticTargets(_ *simulator.Context, req *types.RemoveInternetScsiStaticTargets) soap.HasFault {
	body := &methods.RemoveInternetScsiStaticTargetsBody{Fault_: s.host.adapterFault(req.IScsiHbaDevice)}
	if body.Fault_ != nil {
		return body
	}
	var kept []types.HostInternetScsiHbaStaticTarget
	for _, own := range s.host.adapter.ConfiguredStaticTarget {
		gone := false
		for _, target := range req.Targets {
			gone = gone || (own.IScsiName == target.IScsiName && portal(own.Address, own.Port) == portal(target.Address, target.Port))
		}
		if !gone {
			kept = append(kept, own)
			continue
		}
		for _, found := range s.host.disks {
			if !s.host.world.strict[staticRemoveNeverRefuses] && found.mark != nil && s.host.mountedVolume(found.mark.UUID) && found.on(own.IScsiName) {
				body.Fault_ = fault("the target is in use", &types.ResourceInUse{Type: "HostInternetScsiHbaStaticTarget", Name: own.IScsiName})
				return body
			}
		}
	}
	if len(kept) == len(s.host.adapter.ConfiguredStaticTarget) {
		body.Fault_ = fault("no such target", &types.NotFound{})
		return body
	}
	s.host.adapter.ConfiguredStaticTarget = kept
	s.host.changed()
	body.Res = &types.RemoveInternetScsiStaticTargetsResponse{}
	return body
}

func (d *disk) on(iqn string) bool {
	for _, way := range d.paths {
		if way.iqn == iqn {
			return true
		}
	}
	return false
}

func (s *storageSystem) RescanAllHba(ctx *simulator.Context, _ *types.RescanAllHba) soap.HasFault {
	s.host.discover(ctx, func(*simulator.Context) { s.host.rescan() })
	return &methods.RescanAllHbaBody{Res: &types.RescanAllHbaResponse{}}
}

func (s *storageSystem) RescanHba(ctx *simulator.Context, req *types.RescanHba) soap.HasFault {
	body := &methods.RescanHbaBody{}
	for _, adapter := range s.StorageDeviceInfo.HostBusAdapter {
		if own := adapter.GetHostHostBusAdapter(); own.Device == req.HbaDevice {
			if own.Device == adapterDevice {
				s.host.discover(ctx, func(*simulator.Context) { s.host.rescan() })
			}
			body.Res = &types.RescanHbaResponse{}
			return body
		}
	}
	body.Fault_ = fault("there is no adapter "+req.HbaDevice, &types.NotFound{})
	return body
}

func (s *storageSystem) RescanVmfs(ctx *simulator.Context, _ *types.RescanVmfs) soap.HasFault {
	s.host.discover(ctx, s.host.rescanVolumes)
	return &methods.RescanVmfsBody{Res: &types.RescanVmfsResponse{}}
}

// chap is what a target is logged in to with: its own authentication, its discovery's, or the adapter's.
func (h *host) chap(own *types.HostInternetScsiHbaAuthenticationProperties, parent *types.HostInternetScsiHbaAuthenticationProperties) iscsi.CHAP {
	adapter := h.adapter.AuthenticationProperties
	pick := func(inherited func(*types.HostInternetScsiHbaAuthenticationProperties) bool) *types.HostInternetScsiHbaAuthenticationProperties {
		for _, level := range []*types.HostInternetScsiHbaAuthenticationProperties{own, parent} {
			if level != nil && !inherited(level) {
				return level
			}
		}
		return &adapter
	}
	yes := func(flag *bool) bool { return flag != nil && *flag }
	from := pick(func(level *types.HostInternetScsiHbaAuthenticationProperties) bool { return yes(level.ChapInherited) })
	back := pick(func(level *types.HostInternetScsiHbaAuthenticationProperties) bool {
		return yes(level.MutualChapInherited)
	})
	if !from.ChapAuthEnabled || from.ChapAuthenticationType == "chapProhibited" {
		return iscsi.CHAP{}
	}
	found := iscsi.CHAP{Name: from.ChapName, Secret: from.ChapSecret}
	if back.MutualChapAuthenticationType == "chapRequired" {
		found.MutualName, found.MutualSecret = back.MutualChapName, back.MutualChapSecret
	}
	return found
}

// rescan does what ESXi does: ask every discovery address for targets, log in to every static target, look at its LUNs.
func (h *host) rescan() {
	if h.adapter == nil || !h.listed {
		return
	}
	for _, send := range h.adapter.ConfiguredSendTarget {
		targets, err := iscsi.Discover(portal(send.Address, send.Port), h.adapter.IScsiName, h.chap(send.AuthenticationProperties, nil))
		if errors.Is(err, iscsi.ErrRefused) {
			continue
		}
		for _, target := range targets {
			for _, at := range h.told(target.Portals) {
				address, port, _ := net.SplitHostPort(at)
				number, _ := strconv.Atoi(port)
				h.addStatic(types.HostInternetScsiHbaStaticTarget{Address: address, Port: int32(number), IScsiName: target.IQN, Parent: portal(send.Address, send.Port),
					DiscoveryMethod: string(types.HostInternetScsiHbaStaticTargetTargetDiscoveryMethodSendTargetMethod)})
			}
		}
	}
	found, answered := map[string]*disk{}, map[string]bool{}
	for _, target := range h.adapter.ConfiguredStaticTarget {
		answered[target.IScsiName] = h.look(target, found) || answered[target.IScsiName]
	}
	// A LUN under a datastore stays in the list when it is lost; ESXi keeps such devices, dead, until the datastore is gone.
	for name, old := range h.disks {
		if _, there := found[name]; !there && old.mark != nil && h.knowsVolume(old.mark.UUID) {
			old.lost, old.gone = true, !h.world.strict[deviceLoss]
			for _, way := range old.paths {
				old.gone = old.gone || answered[way.iqn]
			}
			found[name] = old
		}
	}
	h.keepDead(found)
	h.disks = found
	h.carry()
	h.changed()
}

// told are the addresses that a portal tells of: with one more that leads to the same target, as arrays with several ports do.
func (h *host) told(portals []string) []string {
	if !h.world.strict[severalPortals] {
		return portals
	}
	var found []string
	for _, at := range portals {
		_, port, _ := net.SplitHostPort(at)
		other := net.JoinHostPort(secondAddress, port)
		h.reals[other] = at
		found = append(found, other, at)
	}
	return found
}

// real is where a portal that was made up leads to.
func (h *host) real(at string) string {
	if other, made := h.reals[at]; made {
		return other
	}
	return at
}

// look logs in to a target and adds what it shows; whether it answered.
func (h *host) look(target types.HostInternetScsiHbaStaticTarget, found map[string]*disk) bool {
	at := portal(target.Address, target.Port)
	if h.world.isDown(at) {
		return false
	}
	session, err := iscsi.Login(h.real(at), h.adapter.IScsiName, target.IScsiName, h.chap(target.AuthenticationProperties, h.discoveryOf(target)))
	if err != nil {
		return false
	}
	defer session.Close()
	luns, err := session.LUNs()
	if err != nil {
		return false
	}
	for _, lun := range luns {
		name, ids := h.identify(lun)
		known, there := found[name]
		if !there {
			known = &disk{LUN: lun, name: name, ids: ids}
			if lun.DeviceType == 0 {
				known.mark, known.partitions = readMark(session, lun), readPartitions(session, lun)
			}
			found[name] = known
		}
		known.paths = append(known.paths, path{iqn: target.IScsiName, portal: at, lun: lun.Number})
	}
	return true
}

func (h *host) discoveryOf(target types.HostInternetScsiHbaStaticTarget) *types.HostInternetScsiHbaAuthenticationProperties {
	for _, send := range h.adapter.ConfiguredSendTarget {
		if portal(send.Address, send.Port) == target.Parent {
			return send.AuthenticationProperties
		}
	}
	return nil
}

// publish turns adapter and disks into the properties that clients read.
func (h *host) publish() {
	if h.world.recorded {
		return
	}
	info := h.storage.StorageDeviceInfo
	info.HostBusAdapter = append([]types.BaseHostHostBusAdapter(nil), h.base.HostBusAdapter...)
	info.ScsiLun = append([]types.BaseScsiLun(nil), h.base.ScsiLun...)
	topology := types.HostScsiTopology{}
	if h.base.ScsiTopology != nil {
		topology.Adapter = append(topology.Adapter, h.base.ScsiTopology.Adapter...)
	}
	multipath := types.HostMultipathInfo{}
	if h.base.MultipathInfo != nil {
		multipath.Lun = append(multipath.Lun, h.base.MultipathInfo.Lun...)
	}
	info.ScsiTopology, info.MultipathInfo = &topology, &multipath
	info.SoftwareInternetScsiEnabled = h.enabled
	h.storage.FileSystemVolumeInfo.MountInfo = append([]types.HostFileSystemMountInfo(nil), h.mounts...)
	if h.adapter == nil || !h.listed {
		return
	}
	shown := *h.adapter
	shown.ConfiguredSendTarget = append([]types.HostInternetScsiHbaSendTarget(nil), h.adapter.ConfiguredSendTarget...)
	shown.ConfiguredStaticTarget = append([]types.HostInternetScsiHbaStaticTarget(nil), h.adapter.ConfiguredStaticTarget...)
	info.HostBusAdapter = append(info.HostBusAdapter, &shown)
	face := types.HostScsiTopologyInterface{Key: "key-vim.host.ScsiTopology.Interface-" + adapterDevice, Adapter: h.adapter.Key}
	targets := map[string]int{}
	for _, name := range h.names() {
		found := h.disks[name]
		key := "key-vim.host.ScsiDisk-02" + strings.TrimPrefix(name, "naa.")
		lun := types.ScsiLun{HostDevice: types.HostDevice{DeviceName: "/vmfs/devices/disks/" + name, DeviceType: "disk"}, Key: key,
			Uuid: "02" + strings.TrimPrefix(name, "naa."), CanonicalName: name, DisplayName: fmt.Sprintf("%s iSCSI Disk (%s)", found.Vendor, name),
			LunType: "disk", Vendor: pad(found.Vendor, 8), Model: pad(found.Product, 16), Revision: pad(found.Revision, 4), ScsiLevel: 5,
			SerialNumber: found.Serial, QueueDepth: 128, OperationalState: []string{string(h.state(found))}, Descriptor: found.descriptors(), VStorageSupport: "vStorageUnsupported"}
		if found.DeviceType == 0 {
			info.ScsiLun = append(info.ScsiLun, &types.HostScsiDisk{ScsiLun: lun, DevicePath: "/vmfs/devices/disks/" + name,
				Capacity: types.HostDiskDimensionsLba{BlockSize: int32(found.BlockBytes), Block: found.Blocks}, LocalDisk: types.NewBool(false), Ssd: types.NewBool(false)})
		} else {
			lun.LunType, lun.DeviceType = "storageArrayController", "storageArrayController"
			lun.DeviceName = "/vmfs/devices/genscsi/" + name
			info.ScsiLun = append(info.ScsiLun, &lun)
		}
		unit := types.HostMultipathInfoLogicalUnit{Key: "key-vim.host.MultipathInfo.LogicalUnit-" + lun.Uuid, Id: lun.Uuid, Lun: key,
			Policy: &types.HostMultipathInfoFixedLogicalUnitPolicy{HostMultipathInfoLogicalUnitPolicy: types.HostMultipathInfoLogicalUnitPolicy{Policy: "VMW_PSP_FIXED"}}}
		for _, way := range found.paths {
			number, known := targets[way.iqn+" "+way.portal]
			transport := &types.HostInternetScsiTargetTransport{IScsiName: way.iqn, Address: []string{way.portal}}
			if !known {
				number = len(targets)
				targets[way.iqn+" "+way.portal] = number
				face.Target = append(face.Target, types.HostScsiTopologyTarget{Key: fmt.Sprintf("key-vim.host.ScsiTopology.Target-%s:0:%d", adapterDevice, number),
					Target: int32(number), Transport: transport})
			}
			face.Target[number].Lun = append(face.Target[number].Lun, types.HostScsiTopologyLun{
				Key: fmt.Sprintf("key-vim.host.ScsiTopology.Lun-%s-%d", lun.Uuid, number), Lun: int32(way.lun), ScsiLun: key})
			pathState, dead := "active", found.lost || h.world.isDown(way.portal)
			if dead {
				pathState = "dead"
			}
			unit.Path = append(unit.Path, types.HostMultipathInfoPath{Key: fmt.Sprintf("key-vim.host.MultipathInfo.Path-%s:C0:T%d:L%d", adapterDevice, number, way.lun),
				Name: fmt.Sprintf("%s:C0:T%d:L%d", adapterDevice, number, way.lun), PathState: pathState, State: pathState, IsWorkingPath: types.NewBool(!dead),
				Adapter: h.adapter.Key, Lun: unit.Key, Transport: transport})
		}
		multipath.Lun = append(multipath.Lun, unit)
	}
	topology.Adapter = append(topology.Adapter, face)
}

func (h *host) names() []string {
	names := make([]string, 0, len(h.disks))
	for name := range h.disks {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func pad(text string, width int) string { return fmt.Sprintf("%-*s", width, text) }

// ---------------------------------------------------------------- port binding, kernel modules

type iscsiManager struct {
	mo.IscsiManager
	host *host
}

func (m *iscsiManager) QueryBoundVnics(_ *simulator.Context, req *types.QueryBoundVnics) soap.HasFault {
	body := &methods.QueryBoundVnicsBody{Fault_: m.host.adapterFault(req.IScsiHbaName)}
	if body.Fault_ == nil {
		body.Res = &types.QueryBoundVnicsResponse{}
		for _, name := range m.host.bound {
			body.Res.Returnval = append(body.Res.Returnval, types.IscsiPortInfo{VnicDevice: name, Vnic: m.host.vnic(name), PathStatus: "active"})
		}
	}
	return body
}

func (h *host) vnic(name string) *types.HostVirtualNic {
	for index := range h.sys.Config.Network.Vnic {
		if h.sys.Config.Network.Vnic[index].Device == name {
			return &h.sys.Config.Network.Vnic[index]
		}
	}
	return nil
}

func (m *iscsiManager) BindVnic(_ *simulator.Context, req *types.BindVnic) soap.HasFault {
	body := &methods.BindVnicBody{Fault_: m.host.adapterFault(req.IScsiHbaName)}
	if body.Fault_ != nil {
		return body
	}
	if m.host.vnic(req.VnicDevice) == nil {
		body.Fault_ = fault("there is no VMkernel interface "+req.VnicDevice, &types.NotFound{})
		return body
	}
	if body.Fault_ = m.host.network.bindFault(req.VnicDevice); body.Fault_ != nil {
		return body
	}
	for _, name := range m.host.bound {
		if name == req.VnicDevice {
			body.Fault_ = fault("bound already", &types.IscsiFaultVnicAlreadyBound{VnicDevice: name})
			return body
		}
	}
	m.host.bound = append(m.host.bound, req.VnicDevice)
	body.Res = &types.BindVnicResponse{}
	return body
}

func (m *iscsiManager) UnbindVnic(_ *simulator.Context, req *types.UnbindVnic) soap.HasFault {
	body := &methods.UnbindVnicBody{Fault_: m.host.adapterFault(req.IScsiHbaName)}
	if body.Fault_ != nil {
		return body
	}
	for index, name := range m.host.bound {
		if name == req.VnicDevice {
			if body.Fault_ = m.host.unbindFault(name, req.Force); body.Fault_ != nil {
				return body
			}
			m.host.bound = append(m.host.bound[:index], m.host.bound[index+1:]...)
			body.Res = &types.UnbindVnicResponse{}
			return body
		}
	}
	body.Fault_ = fault("not bound", &types.IscsiFaultVnicNotBound{VnicDevice: req.VnicDevice})
	return body
}

// kernelModules keeps option strings; on ESXi they take effect at the next start of the host.
type kernelModules struct {
	mo.HostKernelModuleSystem
	options map[string]string
}

func (k *kernelModules) QueryConfiguredModuleOptionString(_ *simulator.Context, req *types.QueryConfiguredModuleOptionString) soap.HasFault {
	body := &methods.QueryConfiguredModuleOptionStringBody{}
	value, known := k.options[req.Name]
	if !known {
		body.Fault_ = fault("there is no module "+req.Name, &types.NotFound{})
		return body
	}
	body.Res = &types.QueryConfiguredModuleOptionStringResponse{Returnval: value}
	return body
}

func (k *kernelModules) UpdateModuleOptionString(_ *simulator.Context, req *types.UpdateModuleOptionString) soap.HasFault {
	body := &methods.UpdateModuleOptionStringBody{}
	if _, known := k.options[req.Name]; !known {
		body.Fault_ = fault("there is no module "+req.Name, &types.NotFound{})
		return body
	}
	k.options[req.Name] = req.Options
	body.Res = &types.UpdateModuleOptionStringResponse{}
	return body
}
