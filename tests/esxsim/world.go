// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// world is what all hosts share: the VMFS volumes that were ever seen, by the NAA of their LUN, and the log of calls.
type world struct {
	model      *simulator.Model
	thumbprint string          // SHA-1 of the certificate, as a vCenter tells it
	strict     map[string]bool // see strict.go
	mu         sync.Mutex
	volumes    map[string]*volume
	hosts      []*host
	turn       sync.Mutex               // held while hosts do what is due
	destroyed  map[string]bool          // volumes that a host has destroyed, by UUID
	slow       map[string]time.Duration // how long calls of a method take
	calls      map[string]int
	properties map[string]int                 // how often which was asked for
	clones     map[string]*types.CloneVM_Task // asked for and not yet there, by name
	courses    map[types.ManagedObjectReference]*course
	troubled   map[string]int64 // what a sample counts of "counter device", 0 unless a test says so
	down       sync.Map         // portals that no host reaches
	situations map[string]bool  // see situations.go
	withheld   sync.Map         // disks that no host offers for raw mappings, by canonical name
	ahead      time.Duration    // of the clocks of the hosts, before that of their vCenter
	// Closed when questions are answered, and made anew.
	answered chan struct{}

	volumesHome string          // where the files of volumes lie
	opened      map[string]bool // files that are open, as [datastore] path
	recorded    bool            // the host answers as a recorded one did, see recorded.go
}

// host is what one simulated ESXi knows of its storage.
type host struct {
	world   *world
	sys     *simulator.HostSystem
	storage *storageSystem
	stores  *datastoreSystem
	network *networkSystem
	adapter *types.HostInternetScsiHba
	base    types.HostStorageDeviceInfo // the devices it has without iSCSI
	reals   map[string]string           // where portals that were made up lead to
	enabled bool
	listed  bool // whether the adapter shows
	bound   []string
	// The interfaces that sessions go through.
	carrying []string
	mounts   []types.HostFileSystemMountInfo
	modules  *kernelModules
	holding  map[string]string // the options as of the last start
	agenda   agenda
	disks    map[string]*disk // by canonical name
}

func newWorld(model *simulator.Model, volumesHome string, strict map[string]bool) *world {
	w := &world{model: model, strict: strict, volumes: map[string]*volume{}, calls: map[string]int{}, properties: map[string]int{}, clones: map[string]*types.CloneVM_Task{},
		courses: map[types.ManagedObjectReference]*course{}, slow: map[string]time.Duration{}, troubled: map[string]int64{}, destroyed: map[string]bool{}, situations: map[string]bool{}, answered: make(chan struct{})}
	w.volumesHome, w.opened = volumesHome, map[string]bool{}
	if strict[hostClock] && model.ServiceContent.About.ApiType == "VirtualCenter" {
		w.ahead = clockAhead
	}
	registry := model.Map()
	entities := registry.All("HostSystem")
	sort.Slice(entities, func(i, j int) bool { return entities[i].Reference().Value < entities[j].Reference().Value })
	for number, entity := range entities {
		w.hosts = append(w.hosts, w.equip(entity.(*simulator.HostSystem), number))
	}
	registry.AddHandler(machines{w})
	// It announces itself by an option that no product has, and says what it is wherever results name the host.
	settings := registry.Get(*model.ServiceContent.Setting).(*simulator.OptionManager)
	settings.Setting = append(settings.Setting, &types.OptionValue{Key: "storlab.standIn", Value: "esxsim"})
	registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.FullName += " (simulated by esxsim)"
	registry.Put(&performance{PerformanceManager: registry.Get(*model.ServiceContent.PerfManager).(*simulator.PerformanceManager), world: w})
	registry.Put(&virtualDisks{VirtualDiskManager: registry.Get(*model.ServiceContent.VirtualDiskManager).(*simulator.VirtualDiskManager)})
	registry.Handler = func(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		w.mu.Lock()
		w.calls[method.Name]++
		w.askedFor(method)
		delay := w.slow[method.Name]
		switch asked := method.Body.(type) {
		case *types.CloneVM_Task:
			w.clones[asked.Name] = asked
		case *types.CreateCollectorForEvents:
			if w.strict[eventPages] {
				asked.Filter.MaxCount = 0
			}
		}
		w.mu.Unlock()
		time.Sleep(delay)
		if refusal := w.forbidden(method); refusal != nil {
			return nil, refusal
		}
		w.catchUp(ctx)
		if asked, ok := method.Body.(*types.UpdateOptions); ok {
			return nil, w.misset(asked)
		}
		if vm, ok := registry.Get(method.This).(*simulator.VirtualMachine); ok && method.Name == "Destroy_Task" {
			expunge(ctx, vm)
		}
		return nil, nil
	}
	return w
}

func (w *world) equip(sys *simulator.HostSystem, number int) *host {
	registry := w.model.Map()
	h := &host{world: w, sys: sys, disks: map[string]*disk{}, reals: map[string]string{}}
	h.base = *sys.Config.StorageDevice
	if w.strict[manyDevices] {
		crowd(&h.base)
	}
	info := h.base
	sys.Config.StorageDevice = &info
	h.storage = &storageSystem{HostStorageSystem: registry.Get(*sys.ConfigManager.StorageSystem).(*simulator.HostStorageSystem), host: h}
	// One truth behind both property paths.
	h.storage.StorageDeviceInfo = sys.Config.StorageDevice
	h.storage.FileSystemVolumeInfo = types.HostFileSystemVolumeInfo{VolumeTypeList: []string{"VMFS", "NFS", "OTHER"}}
	sys.Config.FileSystemVolume = &h.storage.FileSystemVolumeInfo
	h.stores = &datastoreSystem{HostDatastoreSystem: registry.Get(*sys.ConfigManager.DatastoreSystem).(*simulator.HostDatastoreSystem), host: h}
	if parent, ok := registry.Get(*sys.Parent).(*mo.ComputeResource); ok {
		if stock, ok := registry.Get(*parent.EnvironmentBrowser).(*simulator.EnvironmentBrowser); ok {
			registry.Put(&browser{EnvironmentBrowser: stock, world: w})
		}
	}
	registry.Put(h.storage)
	registry.Put(h.stores)
	h.equipNetwork()
	h.equipSettings(number)
	manager := &iscsiManager{host: h}
	manager.Self = types.ManagedObjectReference{Type: "IscsiManager", Value: fmt.Sprintf("iscsiManager-%d", number)}
	registry.Put(manager)
	sys.ConfigManager.IscsiManager = &manager.Self
	h.modules = &kernelModules{options: map[string]string{"iscsi_vmk": ""}}
	h.modules.Self = types.ManagedObjectReference{Type: "HostKernelModuleSystem", Value: fmt.Sprintf("kernelModuleSystem-%d", number)}
	registry.Put(h.modules)
	sys.ConfigManager.KernelModuleSystem = &h.modules.Self
	for _, option := range hostOptions {
		h.setOption(option)
	}
	h.storage.StorageDeviceInfo.SoftwareInternetScsiEnabled = false
	started := time.Now().Add(-uptime)
	sys.Runtime.BootTime, sys.Summary.Runtime.BootTime = &started, &started
	h.holding = h.configured()
	return h
}

// setOption adds an advanced option that the stock host does not have.
func (h *host) setOption(option hostOption) {
	options := h.options()
	options.Setting = append(options.Setting, &types.OptionValue{Key: option.key, Value: option.value})
	options.SupportedOption = append(options.SupportedOption, types.OptionDef{
		ElementDescription: types.ElementDescription{Key: option.key, Description: types.Description{Label: option.key, Summary: option.text}},
		OptionType:         &types.LongOption{Min: option.least, Max: option.most, DefaultValue: option.value}})
	h.sys.Config.Option = options.Setting
}

// move is what a cluster's load balancing does to a machine: it is on another host, and nobody was asked.
func (w *world) move(name, where string) error {
	registry := w.model.Map()
	for _, entity := range registry.All("VirtualMachine") {
		vm := entity.(*simulator.VirtualMachine)
		if vm.Name != name {
			continue
		}
		for _, h := range w.hosts {
			if h.sys.Name == where {
				ctx := w.model.Service.Context
				ctx.WithLock(vm, func() {
					registry.Update(ctx, vm, []types.PropertyChange{{Name: "runtime.host", Val: h.sys.Self}, {Name: "summary.runtime.host", Val: h.sys.Self}})
				})
				return nil
			}
		}
		return fmt.Errorf("there is no host %q", where)
	}
	return fmt.Errorf("there is no machine %q", name)
}

func (w *world) takeCalls() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.calls
	w.calls = map[string]int{}
	return taken
}

// fault is how a method says no.
func fault(message string, reason types.BaseMethodFault) *soap.Fault {
	return simulator.Fault(message, reason)
}

// machines repairs and completes virtual machines when they appear or change.
type machines struct{ world *world }

func (machines) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "esxsim", Value: "machines"}
}

func (m machines) PutObject(ctx *simulator.Context, object mo.Reference) {
	switch it := object.(type) {
	case *simulator.VirtualMachine:
		// An empty value of these enumerations is one that clients refuse to read.
		it.Runtime.FaultToleranceState = types.VirtualMachineFaultToleranceStateNotConfigured
		it.Runtime.RecordReplayState = types.VirtualMachineRecordReplayStateInactive
	case *simulator.Task:
		// Tasks are told of managed entities only; clients refuse others.
		if kind := it.Info.Entity.Type; kind == "FileManager" || kind == "VirtualDiskManager" {
			it.Info.Entity = &m.world.model.ServiceContent.RootFolder
		}
	}
}

func (m machines) UpdateObject(ctx *simulator.Context, object mo.Reference, changes []types.PropertyChange) {
	for _, change := range changes {
		if info, ok := change.Val.(*types.HttpNfcLeaseInfo); ok {
			// Who hands out the address of another machine vouches for its certificate.
			for index := range info.DeviceUrl {
				info.DeviceUrl[index].SslThumbprint = m.world.thumbprint
			}
		}
	}
	vm, ok := object.(*mo.VirtualMachine)
	if !ok {
		return
	}
	m.world.complete(ctx, vm)
	for _, change := range changes {
		if change.Name == "config.hardware.device" {
			attach(vm)
			settle(ctx, vm)
		}
		if change.Name == "runtime.host" {
			// The stock hosts go on naming machines that have left them.
			for _, h := range m.world.hosts {
				simulator.RemoveReference(&h.sys.Vm, vm.Self)
				if *vm.Runtime.Host == h.sys.Self {
					h.sys.Vm = append(h.sys.Vm, vm.Self)
				}
			}
		}
		if change.Name == "runtime.powerState" {
			address := ""
			if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
				// A machine that is yet to be installed has nothing that tells an address.
				if told(vm, installationKey) == "" {
					address = told(vm, addressKey)
				}
				m.world.begin(ctx, vm)
			} else {
				vm.Guest.ToolsRunningStatus = string(types.VirtualMachineToolsRunningStatusGuestToolsNotRunning)
			}
			vm.Guest.IpAddress = address
			vm.Summary.Guest.IpAddress = address
		}
	}
}

// complete gives a clone the settings of its template and those it was asked to have besides; the stock one gets neither.
func (w *world) complete(ctx *simulator.Context, vm *mo.VirtualMachine) {
	w.mu.Lock()
	asked := w.clones[vm.Name]
	delete(w.clones, vm.Name)
	w.mu.Unlock()
	if asked == nil {
		return
	}
	template := ctx.Map.Get(asked.This).(*simulator.VirtualMachine)
	vm.Config.MemoryReservationLockedToMax = template.Config.MemoryReservationLockedToMax
	*vm.Config.MemoryAllocation = *template.Config.MemoryAllocation
	settings := map[string]any{}
	options := template.Config.ExtraConfig
	if asked.Spec.Config != nil {
		options = append(append([]types.BaseOptionValue{}, options...), asked.Spec.Config.ExtraConfig...)
	}
	for _, option := range options {
		settings[option.GetOptionValue().Key] = option.GetOptionValue().Value
	}
	vm.Config.ExtraConfig = nil
	for key, value := range settings {
		if value != "" {
			vm.Config.ExtraConfig = append(vm.Config.ExtraConfig, &types.OptionValue{Key: key, Value: value})
		}
	}
}

func (machines) RemoveObject(*simulator.Context, types.ManagedObjectReference) {}

// attach fills in which devices hang on which controller, which the stock machine leaves out.
func attach(vm *mo.VirtualMachine) {
	for _, device := range vm.Config.Hardware.Device {
		controller, ok := device.(types.BaseVirtualController)
		if !ok {
			continue
		}
		own := controller.GetVirtualController()
		own.Device = nil
		for _, other := range vm.Config.Hardware.Device {
			if other.GetVirtualDevice().ControllerKey == own.Key {
				own.Device = append(own.Device, other.GetVirtualDevice().Key)
			}
		}
	}
}

// settle lets go of the datastores that a machine has nothing on any more; the stock one keeps them all.
func settle(ctx *simulator.Context, vm *mo.VirtualMachine) {
	files := []string{vm.Config.Files.VmPathName}
	for _, device := range vm.Config.Hardware.Device {
		if backing, ok := device.GetVirtualDevice().Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
			files = append(files, backing.GetVirtualDeviceFileBackingInfo().FileName)
		}
	}
	for _, reference := range append([]types.ManagedObjectReference{}, vm.Datastore...) {
		store, ok := ctx.Map.Get(reference).(*simulator.Datastore)
		if ok && !slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(file, "["+store.Name+"]") }) {
			simulator.RemoveReference(&vm.Datastore, reference)
			ctx.Map.RemoveReference(ctx, store, &store.Vm, vm.Self)
		}
	}
}

func told(vm *mo.VirtualMachine, key string) string {
	for _, option := range vm.Config.ExtraConfig {
		if value := option.GetOptionValue(); strings.EqualFold(value.Key, key) {
			return fmt.Sprint(value.Value)
		}
	}
	return ""
}
