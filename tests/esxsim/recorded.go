// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// recordedHost is what a real host has answered: the properties of a HostSystem (ObjectContent, as XML). The simulator answers with these, and refuses
// every change, because no recording shows what would have come of it. The host lacks everything that the recording lacks.
type recordedHost struct {
	mo.HostSystem
}

// readRecorded reads the file of a recorded host.
func readRecorded(path string) (*recordedHost, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var content types.ObjectContent
	decoder := xml.NewDecoder(file)
	decoder.TypeFunc = types.TypeFunc()
	if err := decoder.Decode(&content); err != nil {
		return nil, fmt.Errorf("-recorded %s: %w", path, err)
	}
	if content.Obj.Type != "HostSystem" {
		return nil, fmt.Errorf("-recorded %s: it holds a %q and no HostSystem", path, content.Obj.Type)
	}
	recorded := &recordedHost{}
	if err := mo.LoadObjectContent([]types.ObjectContent{content}, &recorded.HostSystem); err != nil {
		return nil, fmt.Errorf("-recorded %s: %w", path, err)
	}
	if recorded.Config == nil || recorded.product() == nil {
		return nil, fmt.Errorf("-recorded %s: it has no configuration, or does not say which product it is of", path)
	}
	if recorded.apiVersion() == "" {
		return nil, fmt.Errorf("-recorded %s: no version of the API is known for the product's, %q", path, recorded.product().Version)
	}
	return recorded, nil
}

// product is what the host is, from its configuration or its summary.
func (r *recordedHost) product() *types.AboutInfo {
	if r.Config.Product.Version != "" {
		return &r.Config.Product
	}
	return r.Summary.Config.Product
}

// apiVersions are those of the API, newest first, as pyVmomi and govmomi know them; hosts list their own and those before it.
var apiVersions = []string{"9.1.1.0", "9.1.0.0", "9.0.0.0", "8.0.3.1", "8.0.3.0", "8.0.2.0", "8.0.1.0", "8.0.0.2", "8.0.0.1", "8.0.0.0", "7.0.3.2", "7.0.3.1", "7.0.3.0",
	"7.0.2.1", "7.0.2.0", "7.0.1.1", "7.0.1.0", "7.0.0.2", "7.0.0.0", "6.9.1", "6.8.7", "6.7.3", "6.7.2", "6.7.1", "6.7", "6.5", "6.0", "5.5", "5.1", "5.0", "4.1", "4.0",
	"2.5u2", "2.5", "2.0"}

// firstWithIscsiManager is the version since which hosts bind interfaces to the adapter by the API (documentation of IscsiManager).
const firstWithIscsiManager = "5.0"

// apiVersion is that of the API which the host speaks. A recording may leave it out, and the product's says it then; "" when there is no such version.
func (r *recordedHost) apiVersion() string {
	product := r.product()
	numbers := strings.Split(product.Version, ".")
	for _, version := range []string{product.ApiVersion, product.Version + ".0", strings.Join(numbers[:min(2, len(numbers))], ".")} {
		if slices.Contains(apiVersions, version) {
			return version
		}
	}
	return ""
}

// serveVersions lists the recorded version and all versions before it; the stock handler lists 6.0 for every client.
func (r *recordedHost) serveVersions(service *simulator.Service) {
	own := r.apiVersion()
	prior := strings.Join(apiVersions[slices.Index(apiVersions, own)+1:], "</version><version>")
	service.ServeMux = http.NewServeMux()
	service.ServeMux.HandleFunc("GET /sdk/vimServiceVersions.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `%s<namespaces version="1.0"><namespace><name>urn:vim25</name><version>%s</version><priorVersions><version>%s</version></priorVersions></namespace></namespaces>`,
			xml.Header, own, prior)
	})
}

// replay has the host answer as the recorded one did.
func (w *world) replay(recorded *recordedHost) error {
	if len(w.hosts) != 1 {
		return errors.New("-recorded: use -model esx")
	}
	h, config, registry := w.hosts[0], recorded.Config, w.model.Map()
	w.recorded = true
	about := &w.model.ServiceContent.About
	product := recorded.product()
	about.Name, about.Version, about.Build, about.ApiVersion = product.Name, product.Version, product.Build, recorded.apiVersion()
	about.FullName = fmt.Sprintf("%s %s build-%s (simulated by esxsim)", product.Name, product.Version, product.Build)
	registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About = *about
	for _, name := range []string{recorded.Name, recorded.Summary.Config.Name} {
		if name != "" {
			h.sys.Name, h.sys.Summary.Config.Name = name, name
			break
		}
	}
	h.sys.Summary.Config.Product = product
	if recorded.Summary.Hardware != nil {
		h.sys.Summary.Hardware = recorded.Summary.Hardware
	}
	// Every host has started once; a recording may leave it out.
	runtime := types.HostRuntimeInfo{ConnectionState: types.HostSystemConnectionStateConnected, PowerState: types.HostSystemPowerStatePoweredOn,
		InMaintenanceMode: recorded.Runtime.InMaintenanceMode, BootTime: h.sys.Runtime.BootTime}
	if recorded.Runtime.BootTime != nil {
		runtime.BootTime = recorded.Runtime.BootTime
	}
	h.sys.Runtime, h.sys.Summary.Runtime = runtime, &runtime
	if slices.Index(apiVersions, recorded.apiVersion()) > slices.Index(apiVersions, firstWithIscsiManager) {
		h.sys.ConfigManager.IscsiManager = nil
	}
	h.replayStorage(config)
	h.replayNetwork(config)
	h.replaySettings(config)
	// One truth behind both property paths.
	whole, stock := *config, h.sys.Config
	whole.Host, whole.Product = h.sys.Self, *product
	whole.StorageDevice, whole.FileSystemVolume, whole.Network = stock.StorageDevice, stock.FileSystemVolume, stock.Network
	whole.PowerSystemCapability, whole.PowerSystemInfo = stock.PowerSystemCapability, stock.PowerSystemInfo
	whole.DateTimeInfo, whole.Service = stock.DateTimeInfo, stock.Service
	h.sys.Config = &whole
	return nil
}

func (h *host) replayStorage(config *types.HostConfigInfo) {
	info, volumes := h.storage.StorageDeviceInfo, &h.storage.FileSystemVolumeInfo
	*info, *volumes = types.HostStorageDeviceInfo{}, types.HostFileSystemVolumeInfo{}
	if config.StorageDevice != nil {
		*info = *config.StorageDevice
	}
	if config.FileSystemVolume != nil {
		*volumes = *config.FileSystemVolume
	}
	for _, adapter := range info.HostBusAdapter {
		if software, ok := adapter.(*types.HostInternetScsiHba); ok {
			h.adapter, h.listed = software, true
		}
	}
	options := h.options()
	options.Setting, options.SupportedOption = config.Option, config.OptionDef
}

func (h *host) replayNetwork(config *types.HostConfigInfo) {
	*h.network.NetworkInfo = types.HostNetworkInfo{}
	if config.Network != nil {
		*h.network.NetworkInfo = *config.Network
	}
	h.network.manager.Info = types.HostVirtualNicManagerInfo{}
	if config.VirtualNicManagerInfo != nil {
		h.network.manager.Info = *config.VirtualNicManagerInfo
	}
}

func (h *host) replaySettings(config *types.HostConfigInfo) {
	registry, managers := h.world.model.Map(), &h.sys.ConfigManager
	power := registry.Get(*managers.PowerSystem).(*powerSystem)
	clock := registry.Get(*managers.DateTimeSystem).(*dateTimeSystem)
	services := registry.Get(*managers.ServiceSystem).(*serviceSystem)
	services.ServiceInfo = types.HostServiceInfo{}
	if config.Service != nil {
		services.ServiceInfo = *config.Service
	}
	if config.PowerSystemInfo != nil && config.PowerSystemCapability != nil {
		power.Info, power.Capability = *config.PowerSystemInfo, *config.PowerSystemCapability
	} else {
		managers.PowerSystem, h.sys.Config.PowerSystemInfo, h.sys.Config.PowerSystemCapability = nil, nil, nil
	}
	// The time system stays: hosts of every version have a clock.
	clock.DateTimeInfo = types.HostDateTimeInfo{TimeZone: types.HostDateTimeSystemTimeZone{Key: "UTC", Name: "UTC", Description: "UTC"}}
	if config.DateTimeInfo != nil {
		clock.DateTimeInfo = *config.DateTimeInfo
	}
}
