// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"storlab.test/esxsim/iscsi"
)

const (
	markBlock    = 2048 // where the partition of a whole-disk VMFS starts
	markHead     = "ESXSIM VMFS\n"
	leastBytes   = 1395864371 // 1.3 GiB, see leastSize
	fewestBytes  = 64 << 20   // without it; the LUNs of most tests are small
	gptLastBytes = 33 * 512
)

// mark is what a simulated VMFS writes onto the real LUN: a rebuilt RAM disk is blank again, and a second host finds it.
type mark struct {
	UUID    string `json:"uuid"`
	Name    string `json:"name"`
	Version int32  `json:"version"`
	Device  string `json:"device"` // the name of the device it was made on
}

// systemFiles are what VMFS keeps in the root of every volume, by the vendor's article 316585 on the overhead of its system files.
var systemFiles = []string{".fbb.sf", ".fdc.sf", ".pb2.sf", ".pbc.sf", ".sbc.sf", ".sdd.sf", ".vh.sf"}

// volume is a VMFS or NFS volume with its files.
type volume struct {
	mark
	naa, folder string
	capacity    int64
	store       types.ManagedObjectReference
}

func readMark(session *iscsi.Session, lun iscsi.LUN) *mark {
	if lun.Blocks <= markBlock {
		return nil
	}
	block, err := session.ReadBlock(lun.Number, markBlock, lun.BlockBytes)
	if err != nil || !bytes.HasPrefix(block, []byte(markHead)) {
		return nil
	}
	found := &mark{}
	if json.Unmarshal(bytes.TrimRight(block[len(markHead):], "\x00"), found) != nil {
		return nil
	}
	return found
}

// login opens a session over the first path to a disk.
func (h *host) login(on *disk) (*iscsi.Session, path, error) {
	way := on.paths[0]
	if live := h.live(on); len(live) > 0 {
		way = live[0]
	}
	var target types.HostInternetScsiHbaStaticTarget
	for _, own := range h.adapter.ConfiguredStaticTarget {
		if own.IScsiName == way.iqn && portal(own.Address, own.Port) == way.portal {
			target = own
		}
	}
	session, err := iscsi.Login(h.real(way.portal), h.adapter.IScsiName, way.iqn, h.chap(target.AuthenticationProperties, h.discoveryOf(target)))
	return session, way, err
}

// reread looks again at what is on the disks.
func (h *host) reread() {
	for _, found := range h.disks {
		if found.DeviceType != 0 || found.lost {
			continue
		}
		session, way, err := h.login(found)
		if err != nil {
			continue
		}
		lun := found.LUN
		lun.Number = way.lun
		found.mark, found.partitions = readMark(session, lun), readPartitions(session, lun)
		session.Close()
	}
}

func (h *host) writeMark(on *disk, content *mark) error {
	session, way, err := h.login(on)
	if err != nil {
		return err
	}
	defer session.Close()
	block := make([]byte, on.BlockBytes)
	if content != nil {
		// What was there is overwritten, partition tables first.
		for _, address := range []int64{0, 1} {
			if err := session.WriteBlock(way.lun, address, block); err != nil {
				return err
			}
		}
		text, _ := json.Marshal(content)
		copy(block, markHead+string(text))
	}
	return session.WriteBlock(way.lun, markBlock, block)
}

// datastoreSystem adds VMFS and a believable NFS to the stock HostDatastoreSystem.
type datastoreSystem struct {
	*simulator.HostDatastoreSystem
	host *host
}

func (d *datastoreSystem) device(path string) *disk {
	found := d.host.disks[path[strings.LastIndex(path, "/")+1:]]
	if found == nil || found.DeviceType != 0 || found.lost {
		return nil
	}
	return found
}

// free is whether a VMFS on all of the disk is offered: on every disk that is large enough and not mounted here, which proves nothing about its contents.
func (d *datastoreSystem) free(found *disk) bool {
	least := int64(fewestBytes)
	if d.host.world.strict[leastSize] {
		least = leastBytes
	}
	if found.BlockBytes*found.Blocks < least || d.host.onDisk(found.name) {
		return false
	}
	return d.host.world.strict[usedDisksOffered] || (found.mark == nil && len(found.partitions) == 0)
}

// onDisk is whether this host has a volume on the disk, mounted or not.
func (h *host) onDisk(name string) bool {
	for _, entry := range h.mounts {
		if vmfs, ok := entry.Volume.(*types.HostVmfsVolume); ok && vmfs.Extent[0].DiskName == name {
			return true
		}
	}
	return false
}

// mapped is whether a machine that this host knows uses the disk as raw device mapping.
func (h *host) mapped(ctx *simulator.Context, name string) bool {
	for _, entity := range ctx.Map.All("VirtualMachine") {
		for _, device := range entity.(*simulator.VirtualMachine).Config.Hardware.Device {
			if raw, ok := device.GetVirtualDevice().Backing.(*types.VirtualDiskRawDiskMappingVer1BackingInfo); ok && strings.HasSuffix(raw.DeviceName, name) {
				return true
			}
		}
	}
	return false
}

// copied is whether the VMFS on a disk was made on a device of another name, so that it is not mounted by itself.
func (h *host) copied(found *disk) bool {
	return h.world.strict[unresolvedVolumes] && found.mark != nil && found.mark.Device != found.name
}

// QueryAvailableDisksForVmfs leaves out what carries a volume of this host or is mapped to a machine. Disks with other contents it names.
func (d *datastoreSystem) QueryAvailableDisksForVmfs(ctx *simulator.Context, _ *types.QueryAvailableDisksForVmfs) soap.HasFault {
	body := &methods.QueryAvailableDisksForVmfsBody{Res: &types.QueryAvailableDisksForVmfsResponse{}}
	for _, lun := range d.host.storage.StorageDeviceInfo.ScsiLun {
		if candidate, ok := lun.(*types.HostScsiDisk); ok && d.unused(ctx, candidate) {
			body.Res.Returnval = append(body.Res.Returnval, *candidate)
		}
	}
	return body
}

// unused is whether a disk works, carries no volume of this host and is mapped to no machine.
func (d *datastoreSystem) unused(ctx *simulator.Context, candidate *types.HostScsiDisk) bool {
	if d.host.local(candidate.DevicePath) {
		return !d.host.mapped(ctx, candidate.CanonicalName)
	}
	found := d.device(candidate.DevicePath)
	return found != nil && !d.host.onDisk(found.name) && !d.host.mapped(ctx, found.name)
}

// local is whether a disk is one of the host's own, which are blank.
func (h *host) local(path string) bool {
	for _, lun := range h.base.ScsiLun {
		if disk, ok := lun.(*types.HostScsiDisk); ok && disk.DevicePath == path {
			return true
		}
	}
	return false
}

func (d *datastoreSystem) QueryVmfsDatastoreCreateOptions(_ *simulator.Context, req *types.QueryVmfsDatastoreCreateOptions) soap.HasFault {
	body := &methods.QueryVmfsDatastoreCreateOptionsBody{}
	found := d.device(req.DevicePath)
	switch {
	case found == nil:
		body.Fault_ = fault("there is no disk "+req.DevicePath, &types.NotFound{})
	case req.VmfsMajorVersion != 0 && req.VmfsMajorVersion != 5 && req.VmfsMajorVersion != 6:
		body.Fault_ = fault("no such VMFS version", &types.InvalidArgument{InvalidProperty: "vmfsMajorVersion"})
	default:
		body.Res = &types.QueryVmfsDatastoreCreateOptionsResponse{}
		if d.free(found) {
			body.Res.Returnval = []types.VmfsDatastoreOption{wholeDisk(found, req.VmfsMajorVersion)}
		}
	}
	return body
}

func wholeDisk(found *disk, version int32) types.VmfsDatastoreOption {
	last := found.Blocks - gptLastBytes/512 - 1
	extent := types.HostDiskPartitionBlockRange{Partition: 1, Type: "vmfs",
		Start: types.HostDiskDimensionsLba{BlockSize: int32(found.BlockBytes), Block: markBlock}, End: types.HostDiskDimensionsLba{BlockSize: int32(found.BlockBytes), Block: last}}
	option := &types.VmfsDatastoreAllExtentOption{}
	option.Layout = types.HostDiskPartitionLayout{Total: &types.HostDiskDimensionsLba{BlockSize: int32(found.BlockBytes), Block: found.Blocks},
		Partition: []types.HostDiskPartitionBlockRange{extent}}
	option.VmfsExtent = extent
	spec := &types.VmfsDatastoreCreateSpec{VmfsDatastoreSpec: types.VmfsDatastoreSpec{DiskUuid: "02" + strings.TrimPrefix(found.name, "naa.")},
		Partition: types.HostDiskPartitionSpec{PartitionFormat: "gpt", TotalSectors: found.Blocks,
			Partition: []types.HostDiskPartitionAttributes{{Partition: 1, StartSector: markBlock, EndSector: last, Type: "vmfs"}}},
		Vmfs: types.HostVmfsSpec{Extent: types.HostScsiDiskPartition{DiskName: found.name, Partition: 1}, MajorVersion: version}}
	return types.VmfsDatastoreOption{Info: option, Spec: spec}
}

// QueryVmfsDatastoreExpandOptions finds nothing: every volume takes its whole disk.
func (d *datastoreSystem) QueryVmfsDatastoreExpandOptions(*simulator.Context, *types.QueryVmfsDatastoreExpandOptions) soap.HasFault {
	return &methods.QueryVmfsDatastoreExpandOptionsBody{Res: &types.QueryVmfsDatastoreExpandOptionsResponse{}}
}

func (d *datastoreSystem) CreateVmfsDatastore(ctx *simulator.Context, req *types.CreateVmfsDatastore) soap.HasFault {
	body := &methods.CreateVmfsDatastoreBody{}
	name := req.Spec.Vmfs.VolumeName
	found := d.device(req.Spec.Vmfs.Extent.DiskName)
	if d.named(ctx, name) != nil {
		body.Fault_ = fault("the name is taken", &types.DuplicateName{Name: name})
		return body
	}
	if found == nil || !d.free(found) {
		body.Fault_ = fault("the disk cannot take a VMFS", &types.HostConfigFault{})
		return body
	}
	version := req.Spec.Vmfs.MajorVersion
	if version == 0 {
		version = 6
	}
	made := &volume{mark: mark{UUID: uuid.NewString(), Name: name, Version: version, Device: found.name}, naa: found.name, capacity: found.BlockBytes * (found.Blocks - markBlock)}
	if err := d.host.writeMark(found, &made.mark); err != nil {
		body.Fault_ = fault(err.Error(), &types.HostConfigFault{})
		return body
	}
	for _, other := range d.host.world.hosts {
		if same := other.disks[found.name]; same != nil && (other == d.host || !d.host.world.strict[ownRescanOnly]) {
			same.mark, same.partitions = &made.mark, nil
		}
	}
	d.host.world.volumes[found.name] = made
	if refusal := d.mount(ctx, made); refusal != nil {
		body.Fault_ = refusal
		return body
	}
	body.Res = &types.CreateVmfsDatastoreResponse{Returnval: made.store}
	return body
}

// held is whether a file on the datastore is open, as a test has said.
func (w *world) held(store *simulator.Datastore) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.strict[busyFiles] {
		return false
	}
	for path := range w.opened {
		if strings.HasPrefix(path, "["+store.Name+"] ") {
			return true
		}
	}
	return false
}

func (d *datastoreSystem) named(ctx *simulator.Context, name string) *simulator.Datastore {
	if entity := ctx.Map.FindByName(name, d.Datastore); entity != nil {
		return entity.(*simulator.Datastore)
	}
	return nil
}

// mount makes a volume a datastore of this host; the stock part keeps its files in a folder.
func (d *datastoreSystem) mount(ctx *simulator.Context, vol *volume) *soap.Fault {
	if vol.folder == "" {
		vol.folder = filepath.Join(d.host.world.volumesHome, vol.UUID)
		if err := makeRoot(vol); err != nil {
			return fault(err.Error(), &types.HostConfigFault{})
		}
	}
	answer := d.CreateLocalDatastore(ctx, &types.CreateLocalDatastore{This: d.Self, Name: vol.Name, Path: vol.folder}).(*methods.CreateLocalDatastoreBody)
	if answer.Fault_ != nil {
		return answer.Fault_
	}
	store := d.named(ctx, vol.Name)
	vol.store = store.Self
	capacity, yes := vol.capacity, types.NewBool(true)
	if vol.naa != "" {
		store.Info = &types.VmfsDatastoreInfo{DatastoreInfo: types.DatastoreInfo{Name: vol.Name, Url: vol.folder, FreeSpace: capacity, Timestamp: types.NewTime(time.Now())},
			Vmfs: d.host.vmfs(vol)}
		store.Summary.Type = "VMFS"
	}
	store.Capability.RawDiskMappingsSupported = true
	store.Summary.Capacity, store.Summary.FreeSpace = capacity, capacity
	store.Summary.MultipleHostAccess = types.NewBool(len(store.Host) > 1)
	entry := types.HostFileSystemMountInfo{MountInfo: types.HostMountInfo{Path: "/vmfs/volumes/" + vol.UUID, AccessMode: "readWrite", Mounted: yes, Accessible: types.NewBool(true)},
		Volume: d.host.fileSystem(vol)}
	d.host.mounts = append(d.host.mounts, entry)
	d.host.changed()
	return nil
}

// makeRoot makes the folder that the files of a volume lie in; another simulation that shares the LUN may have done so.
func makeRoot(vol *volume) error {
	if err := os.MkdirAll(vol.folder, 0o700); err != nil || vol.naa == "" {
		return err
	}
	for _, name := range systemFiles {
		file, err := os.OpenFile(filepath.Join(vol.folder, name), os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		file.Close()
	}
	return nil
}

func (h *host) vmfs(vol *volume) *types.HostVmfsVolume {
	return &types.HostVmfsVolume{HostFileSystemVolume: types.HostFileSystemVolume{Type: "VMFS", Name: vol.Name, Capacity: vol.capacity}, BlockSizeMb: 1, BlockSize: 1024,
		MajorVersion: vol.Version, Version: fmt.Sprintf("%d.82", vol.Version), Uuid: vol.UUID, Extent: []types.HostScsiDiskPartition{{DiskName: vol.naa, Partition: 1}},
		VmfsUpgradable: false, Ssd: types.NewBool(false), Local: types.NewBool(false)}
}

func (h *host) fileSystem(vol *volume) types.BaseHostFileSystemVolume {
	if vol.naa != "" {
		return h.vmfs(vol)
	}
	where, remote, _ := strings.Cut(vol.UUID, " ")
	return &types.HostNasVolume{HostFileSystemVolume: types.HostFileSystemVolume{Type: "NFS", Name: vol.Name, Capacity: vol.capacity}, RemoteHost: where, RemotePath: remote}
}

// CreateNasDatastore reaches for the real NFS server; whether the export exists there is not looked at.
func (d *datastoreSystem) CreateNasDatastore(ctx *simulator.Context, req *types.CreateNasDatastore) soap.HasFault {
	body := &methods.CreateNasDatastoreBody{}
	spec := req.Spec
	if d.named(ctx, spec.LocalPath) != nil {
		body.Fault_ = fault("the name is taken", &types.DuplicateName{Name: spec.LocalPath})
		return body
	}
	line, err := net.DialTimeout("tcp", net.JoinHostPort(spec.RemoteHost, "2049"), iscsi.Patience)
	if err != nil {
		body.Fault_ = fault("the NFS server does not answer: "+err.Error(), &types.HostConfigFault{})
		return body
	}
	line.Close()
	vol := &volume{mark: mark{UUID: spec.RemoteHost + " " + spec.RemotePath, Name: spec.LocalPath}, capacity: 1 << 30}
	for _, other := range d.host.world.volumes {
		if other.UUID == vol.UUID {
			vol = other
		}
	}
	if vol.folder == "" {
		vol.folder = filepath.Join(d.host.world.volumesHome, uuid.NewString())
		if err := os.MkdirAll(vol.folder, 0o700); err != nil {
			body.Fault_ = fault(err.Error(), &types.HostConfigFault{})
			return body
		}
	}
	d.host.world.volumes[vol.UUID] = vol
	if body.Fault_ = d.mount(ctx, vol); body.Fault_ != nil {
		return body
	}
	store := d.named(ctx, vol.Name)
	store.Summary.Type = "NFS"
	store.Info = &types.NasDatastoreInfo{DatastoreInfo: types.DatastoreInfo{Name: vol.Name, Url: vol.folder, FreeSpace: vol.capacity}, Nas: d.host.fileSystem(vol).(*types.HostNasVolume)}
	body.Res = &types.CreateNasDatastoreResponse{Returnval: store.Self}
	return body
}

// RemoveDatastore destroys a VMFS for every host, and lets go of an NFS datastore on this one.
func (d *datastoreSystem) RemoveDatastore(ctx *simulator.Context, req *types.RemoveDatastore) soap.HasFault {
	body := &methods.RemoveDatastoreBody{}
	store, ok := ctx.Map.Get(req.Datastore).(*simulator.Datastore)
	if !ok {
		body.Fault_ = fault("there is no such datastore", &types.ManagedObjectNotFound{Obj: req.Datastore})
		return body
	}
	if len(store.Vm) > 0 {
		body.Fault_ = fault("virtual machines lie on it", &types.ResourceInUse{Type: "Datastore", Name: store.Name})
		return body
	}
	world := d.host.world
	if world.held(store) {
		body.Fault_ = fault("a file on it is open", &types.ResourceInUse{Type: "Datastore", Name: store.Name})
		return body
	}
	if world.strict[deviceLoss] && store.Summary.Type == "VMFS" && !store.Summary.Accessible {
		body.Fault_ = fault("the datastore is not accessible", &types.HostConfigFault{})
		return body
	}
	var gone *volume
	for _, vol := range world.volumes {
		if vol.store == store.Self {
			gone = vol
		}
	}
	hosts := []*host{d.host}
	if gone != nil && gone.naa != "" {
		if !world.strict[ownRescanOnly] {
			hosts = world.hosts
		}
		world.destroyed[gone.UUID] = true
		if on := d.host.disks[gone.naa]; on != nil && !on.lost {
			if err := d.host.writeMark(on, nil); err != nil {
				body.Fault_ = fault(err.Error(), &types.HostConfigFault{})
				return body
			}
		}
		delete(world.volumes, gone.naa)
		_ = os.RemoveAll(gone.folder)
	}
	for _, h := range hosts {
		h.forget(ctx, store, gone)
	}
	d.host.dissolve(ctx, store)
	body.Res = &types.RemoveDatastoreResponse{}
	return body
}

// dissolve ends a datastore that no host has any more.
func (h *host) dissolve(ctx *simulator.Context, store *simulator.Datastore) {
	if len(store.Host) > 0 {
		return
	}
	// The stock machine goes on naming datastores that it once had files on.
	for _, entity := range ctx.Map.All("VirtualMachine") {
		simulator.RemoveReference(&entity.(*simulator.VirtualMachine).Datastore, store.Self)
	}
	_ = store.DestroyTask(ctx, &types.Destroy_Task{This: store.Self})
}

func (h *host) forget(ctx *simulator.Context, store *simulator.Datastore, vol *volume) {
	var kept []types.HostFileSystemMountInfo
	for _, entry := range h.mounts {
		if entry.Volume.GetHostFileSystemVolume().Name != store.Name {
			kept = append(kept, entry)
		}
	}
	h.mounts = kept
	h.changed()
	simulator.RemoveReference(&h.stores.Datastore, store.Self)
	simulator.RemoveReference(&h.sys.Datastore, store.Self)
	var mounts []types.DatastoreHostMount
	for _, mount := range store.Host {
		if mount.Key != h.sys.Self {
			mounts = append(mounts, mount)
		}
	}
	store.Host = mounts
	if vol != nil && h.disks[vol.naa] != nil {
		h.disks[vol.naa].mark = nil
	}
}

func (h *host) entry(volumeID string) *types.HostFileSystemMountInfo {
	for index := range h.mounts {
		if vmfs, ok := h.mounts[index].Volume.(*types.HostVmfsVolume); ok && vmfs.Uuid == volumeID {
			return &h.mounts[index]
		}
	}
	return nil
}

func (h *host) knowsVolume(volumeID string) bool { return h.entry(volumeID) != nil }

func (h *host) mountedVolume(volumeID string) bool {
	entry := h.entry(volumeID)
	return entry != nil && *entry.MountInfo.Mounted
}

func (h *host) mounted() bool {
	for _, entry := range h.mounts {
		if vmfs, ok := entry.Volume.(*types.HostVmfsVolume); ok && h.mountedVolume(vmfs.Uuid) {
			return true
		}
	}
	return false
}

func (s *storageSystem) UnmountVmfsVolume(ctx *simulator.Context, req *types.UnmountVmfsVolume) soap.HasFault {
	body := &methods.UnmountVmfsVolumeBody{}
	entry := s.host.entry(req.VmfsUuid)
	if entry == nil {
		body.Fault_ = fault("there is no such volume", &types.NotFound{})
		return body
	}
	store := s.host.stores.named(ctx, entry.Volume.GetHostFileSystemVolume().Name)
	for _, reference := range store.Vm {
		vm := ctx.Map.Get(reference).(*simulator.VirtualMachine)
		blocks := s.host.world.strict[registeredBlockUnmount] || vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
		if vm.Runtime.Host != nil && *vm.Runtime.Host == s.host.sys.Self && blocks {
			body.Fault_ = fault("a virtual machine is registered on it", &types.ResourceInUse{Type: "Datastore", Name: store.Name})
			return body
		}
	}
	if s.host.world.held(store) {
		body.Fault_ = fault("a file on it is open", &types.ResourceInUse{Type: "Datastore", Name: store.Name})
		return body
	}
	s.host.setMounted(ctx, entry, false, "")
	body.Res = &types.UnmountVmfsVolumeResponse{}
	return body
}

func (s *storageSystem) MountVmfsVolume(ctx *simulator.Context, req *types.MountVmfsVolume) soap.HasFault {
	body := &methods.MountVmfsVolumeBody{}
	entry := s.host.entry(req.VmfsUuid)
	if entry == nil {
		body.Fault_ = fault("there is no such volume", &types.NotFound{})
		return body
	}
	s.host.setMounted(ctx, entry, true, "")
	body.Res = &types.MountVmfsVolumeResponse{}
	return body
}

// setMounted also says so on the datastore, which is accessible as long as one host can reach it.
func (h *host) setMounted(ctx *simulator.Context, entry *types.HostFileSystemMountInfo, accessible bool, reason string) {
	if reason == "" {
		entry.MountInfo.Mounted = types.NewBool(accessible)
	}
	entry.MountInfo.Accessible, entry.MountInfo.InaccessibleReason = types.NewBool(accessible), reason
	h.changed()
	store := h.stores.named(ctx, entry.Volume.GetHostFileSystemVolume().Name)
	if store == nil {
		return
	}
	any := false
	for index := range store.Host {
		if store.Host[index].Key == h.sys.Self {
			store.Host[index].MountInfo = entry.MountInfo
		}
		any = any || *store.Host[index].MountInfo.Accessible
	}
	store.Summary.Accessible = any
}

// rescanVolumes mounts what a rescan of the adapters has brought to light, and sees what is lost.
func (h *host) rescanVolumes(ctx *simulator.Context) {
	h.reread()
	for _, name := range h.names() {
		found := h.disks[name]
		vol := h.world.volumes[name]
		if found.mark != nil && !found.lost && (vol == nil || vol.UUID != found.mark.UUID) {
			// A host on its own has made it, with another simulation as its world.
			vol = &volume{mark: *found.mark, naa: name, capacity: found.BlockBytes * (found.Blocks - markBlock)}
			h.world.volumes[name] = vol
		}
		if found.mark != nil && vol != nil && vol.UUID == found.mark.UUID && !found.lost && !h.copied(found) && !h.knowsVolume(found.mark.UUID) {
			_ = h.stores.mount(ctx, vol)
		}
	}
	for _, seen := range slices.Clone(h.mounts) {
		vmfs, ok := seen.Volume.(*types.HostVmfsVolume)
		if !ok {
			continue
		}
		entry := h.entry(vmfs.Uuid)
		found := h.disks[vmfs.Extent[0].DiskName]
		there := found != nil && !found.lost && found.mark != nil && found.mark.UUID == vmfs.Uuid
		if store := h.stores.named(ctx, vmfs.Name); store != nil && !there && found != nil && !found.lost && h.world.destroyed[vmfs.Uuid] {
			// Another host has destroyed it.
			h.forget(ctx, store, nil)
			h.dissolve(ctx, store)
			continue
		}
		if !*entry.MountInfo.Mounted {
			// What is unmounted and nowhere any more is forgotten; that is how a host gets rid of a lost datastore.
			if store := h.stores.named(ctx, vmfs.Name); !there && h.world.strict[deviceLoss] && store != nil && len(store.Vm) == 0 {
				h.forget(ctx, store, nil)
				h.dissolve(ctx, store)
			}
			continue
		}
		reason := ""
		if !there {
			reason = string(types.HostMountInfoInaccessibleReasonPermanentDeviceLoss)
			if found != nil && found.lost && !found.gone {
				reason = string(types.HostMountInfoInaccessibleReasonAllPathsDown_Start)
			}
			h.setMounted(ctx, entry, false, reason)
		} else if !*entry.MountInfo.Accessible {
			h.setMounted(ctx, entry, true, reason)
		}
	}
}

// RetrieveDiskPartitionInfo tells of the one partition of a disk with a VMFS, or of those that its real table names.
func (s *storageSystem) RetrieveDiskPartitionInfo(_ *simulator.Context, req *types.RetrieveDiskPartitionInfo) soap.HasFault {
	body := &methods.RetrieveDiskPartitionInfoBody{Res: &types.RetrieveDiskPartitionInfoResponse{}}
	for _, path := range req.DevicePath {
		if s.host.local(path) {
			body.Res.Returnval = append(body.Res.Returnval, types.HostDiskPartitionInfo{DeviceName: path})
			continue
		}
		found := s.host.stores.device(path)
		if found != nil {
			s.host.reread()
		}
		if found == nil {
			return &methods.RetrieveDiskPartitionInfoBody{Fault_: fault("there is no disk "+path, &types.NotFound{})}
		}
		info := types.HostDiskPartitionInfo{DeviceName: path}
		whole := wholeDisk(found, 6)
		info.Layout.Total = whole.Info.GetVmfsDatastoreBaseOption().Layout.Total
		info.Spec.TotalSectors = found.Blocks
		info.Spec.Partition = found.partitions
		for _, part := range found.partitions {
			info.Layout.Partition = append(info.Layout.Partition, types.HostDiskPartitionBlockRange{Partition: part.Partition, Type: part.Type,
				Start: types.HostDiskDimensionsLba{BlockSize: int32(found.BlockBytes), Block: part.StartSector}, End: types.HostDiskDimensionsLba{BlockSize: int32(found.BlockBytes), Block: part.EndSector}})
		}
		if found.mark != nil {
			info.Layout.Partition = whole.Info.GetVmfsDatastoreBaseOption().Layout.Partition
			info.Spec = whole.Spec.(*types.VmfsDatastoreCreateSpec).Partition
		}
		body.Res.Returnval = append(body.Res.Returnval, info)
	}
	return body
}

// QueryUnresolvedVmfsVolume tells of volumes that were made on a device of another name.
func (s *storageSystem) QueryUnresolvedVmfsVolume(*simulator.Context, *types.QueryUnresolvedVmfsVolume) soap.HasFault {
	body := &methods.QueryUnresolvedVmfsVolumeBody{Res: &types.QueryUnresolvedVmfsVolumeResponse{}}
	for _, name := range s.host.names() {
		found := s.host.disks[name]
		if !s.host.copied(found) {
			continue
		}
		body.Res.Returnval = append(body.Res.Returnval, types.HostUnresolvedVmfsVolume{VmfsLabel: found.mark.Name, VmfsUuid: found.mark.UUID,
			ResolveStatus: types.HostUnresolvedVmfsVolumeResolveStatus{Resolvable: true},
			Extent: []types.HostUnresolvedVmfsExtent{{Device: types.HostScsiDiskPartition{DiskName: name, Partition: 1}, DevicePath: "/vmfs/devices/disks/" + name + ":1",
				VmfsUuid: found.mark.UUID, IsHeadExtent: true, Reason: string(types.HostUnresolvedVmfsExtentUnresolvedReasonDiskIdMismatch)}}})
	}
	return body
}

// ---------------------------------------------------------------- virtual disks

// virtualDisks adds the zeroing of a disk, which vmkfstools -w and --eagerzero do on a host.
type virtualDisks struct {
	*simulator.VirtualDiskManager
}

func (v *virtualDisks) zero(ctx *simulator.Context, name string, datacenter *types.ManagedObjectReference, action string) types.ManagedObjectReference {
	task := simulator.CreateTask(v, action, func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		answer := v.QueryVirtualDiskUuid(ctx, &types.QueryVirtualDiskUuid{This: v.Self, Name: name, Datacenter: datacenter})
		if refused := answer.Fault(); refused != nil {
			return nil, &types.FileNotFound{FileFault: types.FileFault{File: name}}
		}
		return nil, nil
	})
	return task.Run(ctx)
}

func (v *virtualDisks) ZeroFillVirtualDiskTask(ctx *simulator.Context, req *types.ZeroFillVirtualDisk_Task) soap.HasFault {
	return &methods.ZeroFillVirtualDisk_TaskBody{Res: &types.ZeroFillVirtualDisk_TaskResponse{Returnval: v.zero(ctx, req.Name, req.Datacenter, "zeroFillVirtualDisk")}}
}

func (v *virtualDisks) EagerZeroVirtualDiskTask(ctx *simulator.Context, req *types.EagerZeroVirtualDisk_Task) soap.HasFault {
	return &methods.EagerZeroVirtualDisk_TaskBody{Res: &types.EagerZeroVirtualDisk_TaskResponse{Returnval: v.zero(ctx, req.Name, req.Datacenter, "eagerZeroVirtualDisk")}}
}
