// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"net"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// networkSystem is a host's standard switches, port groups and VMkernel interfaces. Where the real one might let something pass, this one refuses.
type networkSystem struct {
	*simulator.HostNetworkSystem
	host    *host
	manager *simulator.HostVirtualNicManager
}

// The services that an interface can be ticked for; the stock host does not know all of them.
var services = []string{"management", "vmotion", "faultToleranceLogging", "vSphereReplication", "vSphereReplicationNFC", "vsan", "vSphereProvisioning",
	"vSphereBackupNFC"}

// What a host with two more physical adapters than the stock one has: one that nothing uses, and one to make the second path of.
var spareNics = []string{"vmnic2", "vmnic3"}

const leastMtu, mostMtu, longestSwitchName = 1280, 9000, 31

// equipNetwork gives a host a network of its own; the stock ones show one that all hosts share, and know nothing of interfaces.
func (h *host) equipNetwork() {
	registry := h.world.model.Map()
	stock := *h.sys.Config.Network
	info := stock
	info.Vswitch = slices.Clone(stock.Vswitch)
	info.Portgroup = slices.Clone(stock.Portgroup)
	info.Vnic = slices.Clone(stock.Vnic)
	info.Pnic = slices.Clone(stock.Pnic)
	for number, device := range spareNics {
		nic := stock.Pnic[0]
		nic.Key, nic.Device = "key-vim.host.PhysicalNic-"+device, device
		nic.Mac = fmt.Sprintf("00:0c:29:81:d9:%02x", number)
		info.Pnic = append(info.Pnic, nic)
	}
	h.sys.Config.Network = &info
	h.network = &networkSystem{HostNetworkSystem: registry.Get(*h.sys.ConfigManager.NetworkSystem).(*simulator.HostNetworkSystem), host: h}
	h.network.NetworkInfo = &info // one truth behind both property paths
	h.network.manager = registry.Get(*h.sys.ConfigManager.VirtualNicManager).(*simulator.HostVirtualNicManager)
	h.network.relink()
	registry.Put(h.network)
}

// ---------------------------------------------------------------- what there is

func (s *networkSystem) vswitch(name string) *types.HostVirtualSwitch {
	for index := range s.NetworkInfo.Vswitch {
		if s.NetworkInfo.Vswitch[index].Name == name {
			return &s.NetworkInfo.Vswitch[index]
		}
	}
	return nil
}

func (s *networkSystem) portgroup(name string) *types.HostPortGroup {
	for index := range s.NetworkInfo.Portgroup {
		if s.NetworkInfo.Portgroup[index].Spec.Name == name {
			return &s.NetworkInfo.Portgroup[index]
		}
	}
	return nil
}

func bridged(spec types.HostVirtualSwitchSpec) []string {
	if bridge, ok := spec.Bridge.(*types.HostVirtualSwitchBondBridge); ok && bridge != nil {
		return bridge.NicDevice
	}
	return nil
}

// order is which adapters a port group uses, its own order before that of its switch.
func (s *networkSystem) order(group *types.HostPortGroup) types.HostNicOrderPolicy {
	if own := group.Spec.Policy.NicTeaming; own != nil && own.NicOrder != nil {
		return *own.NicOrder
	}
	if vswitch := s.vswitch(group.Spec.VswitchName); vswitch != nil && vswitch.Spec.Policy != nil && vswitch.Spec.Policy.NicTeaming != nil &&
		vswitch.Spec.Policy.NicTeaming.NicOrder != nil {
		return *vswitch.Spec.Policy.NicTeaming.NicOrder
	}
	return types.HostNicOrderPolicy{}
}

// management are the interfaces that carry the management traffic.
func (s *networkSystem) management(device string) bool { return device == "vmk0" }

// relink brings what is told twice in line: switches name their port groups by key, port groups what their policy comes to, services their interfaces.
func (s *networkSystem) relink() {
	for index := range s.NetworkInfo.Vswitch {
		vswitch := &s.NetworkInfo.Vswitch[index]
		vswitch.Portgroup = nil
		vswitch.Pnic = nil
		for _, device := range bridged(vswitch.Spec) {
			vswitch.Pnic = append(vswitch.Pnic, "key-vim.host.PhysicalNic-"+device)
		}
		for _, group := range s.NetworkInfo.Portgroup {
			if group.Spec.VswitchName == vswitch.Name {
				vswitch.Portgroup = append(vswitch.Portgroup, group.Key)
			}
		}
	}
	for index := range s.NetworkInfo.Portgroup {
		group := &s.NetworkInfo.Portgroup[index]
		order := s.order(group)
		group.ComputedPolicy.NicTeaming = &types.HostNicTeamingPolicy{Policy: "loadbalance_srcid", NicOrder: &order}
	}
	s.manager.Info.NetConfig = nil
	for _, service := range services {
		config := types.VirtualNicManagerNetConfig{NicType: service, MultiSelectAllowed: true}
		for _, vnic := range s.NetworkInfo.Vnic {
			// Within a service an interface is known by a key of its own.
			vnic.Key = service + "." + vnic.Key
			config.CandidateVnic = append(config.CandidateVnic, vnic)
			if service == "management" && s.management(vnic.Device) {
				config.SelectedVnic = append(config.SelectedVnic, vnic.Key)
			}
		}
		s.manager.Info.NetConfig = append(s.manager.Info.NetConfig, config)
	}
}

// ---------------------------------------------------------------- switches

func (s *networkSystem) switchFault(name string, spec types.HostVirtualSwitchSpec) *soap.Fault {
	if name == "" || len(name) > longestSwitchName {
		return fault("a switch's name has 1 to 31 characters", &types.InvalidArgument{InvalidProperty: "vswitchName"})
	}
	if spec.Mtu != 0 && (spec.Mtu < leastMtu || spec.Mtu > mostMtu) {
		return fault("no such MTU", &types.InvalidArgument{InvalidProperty: "spec.mtu"})
	}
	for _, device := range bridged(spec) {
		if !slices.ContainsFunc(s.NetworkInfo.Pnic, func(nic types.PhysicalNic) bool { return nic.Device == device }) {
			return fault("there is no adapter "+device, &types.NotFound{})
		}
		for _, other := range s.NetworkInfo.Vswitch {
			if other.Name != name && slices.Contains(bridged(other.Spec), device) {
				return fault(device+" belongs to "+other.Name, &types.ResourceInUse{Type: "PhysicalNic", Name: device})
			}
		}
	}
	if spec.Policy != nil {
		return orderFault(spec.Policy.NicTeaming, bridged(spec))
	}
	return nil
}

func orderFault(teaming *types.HostNicTeamingPolicy, bridged []string) *soap.Fault {
	if teaming == nil || teaming.NicOrder == nil {
		return nil
	}
	for _, device := range append(slices.Clone(teaming.NicOrder.ActiveNic), teaming.NicOrder.StandbyNic...) {
		if !slices.Contains(bridged, device) {
			return fault(device+" is no uplink of the switch", &types.InvalidArgument{InvalidProperty: "nicOrder"})
		}
	}
	return nil
}

// complete is a switch's specification with the policy that a host gives it.
func complete(spec types.HostVirtualSwitchSpec) types.HostVirtualSwitchSpec {
	if spec.Mtu == 0 {
		spec.Mtu = 1500
	}
	if spec.Policy == nil {
		spec.Policy = &types.HostNetworkPolicy{}
	}
	if spec.Policy.Security == nil {
		spec.Policy.Security = &types.HostNetworkSecurityPolicy{AllowPromiscuous: types.NewBool(false), MacChanges: types.NewBool(false), ForgedTransmits: types.NewBool(false)}
	}
	if spec.Policy.NicTeaming == nil {
		spec.Policy.NicTeaming = &types.HostNicTeamingPolicy{Policy: "loadbalance_srcid", NotifySwitches: types.NewBool(true), RollingOrder: types.NewBool(false),
			FailureCriteria: &types.HostNicFailureCriteria{CheckBeacon: types.NewBool(false)}}
	}
	if spec.Policy.NicTeaming.NicOrder == nil {
		spec.Policy.NicTeaming.NicOrder = &types.HostNicOrderPolicy{ActiveNic: slices.Clone(bridged(spec))}
	}
	if spec.Policy.ShapingPolicy == nil {
		spec.Policy.ShapingPolicy = &types.HostNetworkTrafficShapingPolicy{Enabled: types.NewBool(false)}
	}
	return spec
}

func (s *networkSystem) AddVirtualSwitch(req *types.AddVirtualSwitch) soap.HasFault {
	body := &methods.AddVirtualSwitchBody{}
	spec := types.HostVirtualSwitchSpec{NumPorts: 128}
	if req.Spec != nil {
		spec = *req.Spec
	}
	if s.vswitch(req.VswitchName) != nil {
		body.Fault_ = fault("", &types.AlreadyExists{Name: req.VswitchName})
	} else if body.Fault_ = s.switchFault(req.VswitchName, spec); body.Fault_ == nil {
		spec = complete(spec)
		s.NetworkInfo.Vswitch = append(s.NetworkInfo.Vswitch, types.HostVirtualSwitch{Name: req.VswitchName, Key: "key-vim.host.VirtualSwitch-" + req.VswitchName,
			NumPorts: 1536, NumPortsAvailable: 1530, Mtu: spec.Mtu, Spec: spec})
		s.relink()
		body.Res = &types.AddVirtualSwitchResponse{}
	}
	return body
}

func (s *networkSystem) UpdateVirtualSwitch(req *types.UpdateVirtualSwitch) soap.HasFault {
	body := &methods.UpdateVirtualSwitchBody{}
	vswitch := s.vswitch(req.VswitchName)
	if vswitch == nil {
		body.Fault_ = fault("", &types.NotFound{})
		return body
	}
	if body.Fault_ = s.switchFault(req.VswitchName, req.Spec); body.Fault_ != nil {
		return body
	}
	spec := complete(req.Spec)
	for index := range s.NetworkInfo.Portgroup {
		group := &s.NetworkInfo.Portgroup[index]
		if group.Spec.VswitchName != vswitch.Name {
			continue
		}
		if body.Fault_ = orderFault(group.Spec.Policy.NicTeaming, bridged(spec)); body.Fault_ != nil {
			return body
		}
		for _, vnic := range s.NetworkInfo.Vnic {
			if vnic.Spec.Portgroup != group.Spec.Name {
				continue
			}
			if s.management(vnic.Device) && len(bridged(spec)) == 0 {
				body.Fault_ = fault("the management network would lose its last uplink", &types.HostConfigFault{})
				return body
			}
			if vnic.Spec.Mtu > spec.Mtu {
				body.Fault_ = fault(vnic.Device+" has a larger MTU", &types.InvalidArgument{InvalidProperty: "spec.mtu"})
				return body
			}
		}
	}
	vswitch.Spec, vswitch.Mtu = spec, spec.Mtu
	s.relink()
	body.Res = &types.UpdateVirtualSwitchResponse{}
	return body
}

func (s *networkSystem) RemoveVirtualSwitch(req *types.RemoveVirtualSwitch) soap.HasFault {
	body := &methods.RemoveVirtualSwitchBody{}
	vswitch := s.vswitch(req.VswitchName)
	switch {
	case vswitch == nil:
		body.Fault_ = fault("", &types.NotFound{})
	case len(vswitch.Portgroup) > 0:
		body.Fault_ = fault("it has port groups", &types.ResourceInUse{Type: "VirtualSwitch", Name: req.VswitchName})
	default:
		s.NetworkInfo.Vswitch = slices.DeleteFunc(slices.Clone(s.NetworkInfo.Vswitch), func(each types.HostVirtualSwitch) bool { return each.Name == req.VswitchName })
		body.Res = &types.RemoveVirtualSwitchResponse{}
	}
	return body
}

// ---------------------------------------------------------------- port groups

func (s *networkSystem) groupFault(spec types.HostPortGroupSpec) *soap.Fault {
	vswitch := s.vswitch(spec.VswitchName)
	switch {
	case vswitch == nil:
		return fault("there is no switch "+spec.VswitchName, &types.NotFound{})
	case spec.Name == "":
		return fault("", &types.InvalidArgument{InvalidProperty: "name"})
	case spec.VlanId < 0 || spec.VlanId > 4095:
		return fault("no such VLAN", &types.InvalidArgument{InvalidProperty: "vlanId"})
	}
	return orderFault(spec.Policy.NicTeaming, bridged(vswitch.Spec))
}

func (s *networkSystem) AddPortGroup(ctx *simulator.Context, req *types.AddPortGroup) soap.HasFault {
	body := &methods.AddPortGroupBody{}
	if s.portgroup(req.Portgrp.Name) != nil {
		body.Fault_ = fault("", &types.AlreadyExists{Name: req.Portgrp.Name})
		return body
	}
	if body.Fault_ = s.groupFault(req.Portgrp); body.Fault_ != nil {
		return body
	}
	if s.elsewhere(req.Portgrp.Name) {
		// Hosts under one vCenter share the network of a name.
		s.NetworkInfo.Portgroup = append(s.NetworkInfo.Portgroup, types.HostPortGroup{Key: "key-vim.host.PortGroup-" + req.Portgrp.Name, Spec: req.Portgrp})
		body.Res = &types.AddPortGroupResponse{}
	} else if body = s.HostNetworkSystem.AddPortGroup(ctx, req).(*methods.AddPortGroupBody); body.Fault_ != nil {
		return body
	}
	s.portgroup(req.Portgrp.Name).Vswitch = "key-vim.host.VirtualSwitch-" + req.Portgrp.VswitchName
	s.relink()
	return body
}

func (s *networkSystem) elsewhere(name string) bool {
	return slices.ContainsFunc(s.host.world.hosts, func(other *host) bool { return other != s.host && other.network.portgroup(name) != nil })
}

func (s *networkSystem) UpdatePortGroup(req *types.UpdatePortGroup) soap.HasFault {
	body := &methods.UpdatePortGroupBody{}
	group := s.portgroup(req.PgName)
	switch {
	case group == nil:
		body.Fault_ = fault("", &types.NotFound{})
	case req.Portgrp.Name != req.PgName && s.portgroup(req.Portgrp.Name) != nil:
		body.Fault_ = fault("", &types.AlreadyExists{Name: req.Portgrp.Name})
	default:
		if body.Fault_ = s.groupFault(req.Portgrp); body.Fault_ == nil {
			group.Spec = req.Portgrp
			s.relink()
			body.Res = &types.UpdatePortGroupResponse{}
		}
	}
	return body
}

func (s *networkSystem) RemovePortGroup(ctx *simulator.Context, req *types.RemovePortGroup) soap.HasFault {
	body := &methods.RemovePortGroupBody{}
	group := s.portgroup(req.PgName)
	if group == nil {
		body.Fault_ = fault("", &types.NotFound{})
		return body
	}
	if slices.ContainsFunc(s.NetworkInfo.Vnic, func(vnic types.HostVirtualNic) bool { return vnic.Spec.Portgroup == req.PgName }) {
		body.Fault_ = fault("a VMkernel interface is on it", &types.ResourceInUse{Type: "PortGroup", Name: req.PgName})
		return body
	}
	if s.elsewhere(req.PgName) {
		s.NetworkInfo.Portgroup = slices.DeleteFunc(slices.Clone(s.NetworkInfo.Portgroup), func(each types.HostPortGroup) bool { return each.Spec.Name == req.PgName })
		body.Res = &types.RemovePortGroupResponse{}
	} else {
		// The stock one looks for the name in the place of the key.
		vswitch := s.vswitch(group.Spec.VswitchName)
		vswitch.Portgroup = append(vswitch.Portgroup, req.PgName)
		body = s.HostNetworkSystem.RemovePortGroup(ctx, req).(*methods.RemovePortGroupBody)
	}
	s.relink()
	return body
}

// ---------------------------------------------------------------- VMkernel interfaces

func (s *networkSystem) vnicFault(device, portgroup string, spec types.HostVirtualNicSpec) *soap.Fault {
	group := s.portgroup(portgroup)
	if group == nil {
		return fault("there is no port group "+portgroup, &types.InvalidArgument{InvalidProperty: "portgroup"})
	}
	if spec.Mtu != 0 && (spec.Mtu < leastMtu || spec.Mtu > mostMtu || spec.Mtu > s.vswitch(group.Spec.VswitchName).Mtu) {
		return fault("the MTU is not one that the switch carries", &types.InvalidArgument{InvalidProperty: "nic.mtu"})
	}
	if spec.Ip == nil || (!spec.Ip.Dhcp && (net.ParseIP(spec.Ip.IpAddress) == nil || net.ParseIP(spec.Ip.SubnetMask) == nil)) {
		return fault("no address", &types.InvalidArgument{InvalidProperty: "nic.ip"})
	}
	for _, other := range s.NetworkInfo.Vnic {
		if other.Device != device && !spec.Ip.Dhcp && other.Spec.Ip.IpAddress == spec.Ip.IpAddress {
			return fault(other.Device+" has this address", &types.HostConfigFault{})
		}
	}
	return nil
}

func (s *networkSystem) AddVirtualNic(req *types.AddVirtualNic) soap.HasFault {
	body := &methods.AddVirtualNicBody{}
	if slices.ContainsFunc(s.NetworkInfo.Vnic, func(vnic types.HostVirtualNic) bool { return vnic.Spec.Portgroup == req.Portgroup }) {
		body.Fault_ = fault("", &types.AlreadyExists{Name: req.Portgroup})
		return body
	}
	if body.Fault_ = s.vnicFault("", req.Portgroup, req.Nic); body.Fault_ != nil {
		return body
	}
	number := 0
	for s.host.vnic(fmt.Sprintf("vmk%d", number)) != nil {
		number++
	}
	device, spec := fmt.Sprintf("vmk%d", number), req.Nic
	spec.Portgroup, spec.Mac = req.Portgroup, fmt.Sprintf("00:50:56:61:d9:%02x", number)
	if spec.Mtu == 0 {
		spec.Mtu = 1500
	}
	if spec.NetStackInstanceKey == "" {
		spec.NetStackInstanceKey = "defaultTcpipStack"
	}
	s.NetworkInfo.Vnic = append(s.NetworkInfo.Vnic, types.HostVirtualNic{Device: device, Key: "key-vim.host.VirtualNic-" + device, Portgroup: req.Portgroup, Spec: spec,
		Port: "key-vim.host.PortGroup.Port-" + device})
	s.relink()
	body.Res = &types.AddVirtualNicResponse{Returnval: device}
	return body
}

func (s *networkSystem) UpdateVirtualNic(req *types.UpdateVirtualNic) soap.HasFault {
	body := &methods.UpdateVirtualNicBody{}
	vnic := s.host.vnic(req.Device)
	if vnic == nil {
		body.Fault_ = fault("", &types.NotFound{})
		return body
	}
	spec := vnic.Spec
	if req.Nic.Ip != nil {
		spec.Ip = req.Nic.Ip
	}
	if req.Nic.Mtu != 0 {
		spec.Mtu = req.Nic.Mtu
	}
	if req.Nic.Portgroup != "" {
		spec.Portgroup = req.Nic.Portgroup
	}
	if body.Fault_ = s.vnicFault(req.Device, spec.Portgroup, spec); body.Fault_ == nil {
		vnic.Spec, vnic.Portgroup = spec, spec.Portgroup
		s.relink()
		body.Res = &types.UpdateVirtualNicResponse{}
	}
	return body
}

func (s *networkSystem) RemoveVirtualNic(req *types.RemoveVirtualNic) soap.HasFault {
	body := &methods.RemoveVirtualNicBody{}
	switch {
	case s.host.vnic(req.Device) == nil:
		body.Fault_ = fault("", &types.NotFound{})
	case s.management(req.Device):
		body.Fault_ = fault("it carries the management traffic", &types.HostConfigFault{})
	case slices.Contains(s.host.bound, req.Device):
		body.Fault_ = fault("it is bound to an iSCSI adapter", &types.HostConfigFault{})
	default:
		s.NetworkInfo.Vnic = slices.DeleteFunc(slices.Clone(s.NetworkInfo.Vnic), func(vnic types.HostVirtualNic) bool { return vnic.Device == req.Device })
		s.relink()
		body.Res = &types.RemoveVirtualNicResponse{}
	}
	return body
}

// bindFault is why an interface may not be bound: iSCSI takes exactly one active uplink, and none that stands by.
func (s *networkSystem) bindFault(device string) *soap.Fault {
	group := s.portgroup(s.host.vnic(device).Spec.Portgroup)
	if group == nil {
		return nil
	}
	order := s.order(group)
	switch {
	case len(order.ActiveNic) == 0:
		return fault("it has no active uplink", &types.IscsiFaultVnicHasNoUplinks{VnicDevice: device})
	case len(order.ActiveNic) > 1 || len(order.StandbyNic) > 0:
		return fault("it has several uplinks", &types.IscsiFaultVnicHasMultipleUplinks{VnicDevice: device})
	}
	return nil
}
