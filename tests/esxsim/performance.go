// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const interval = 20 // seconds of a real-time sample, as on ESXi

// performance makes its counters up, but so that they agree with each other: device and kernel latency add up to the total.
type performance struct {
	*simulator.PerformanceManager
	world *world
}

func (p *performance) QueryPerf(ctx *simulator.Context, req *types.QueryPerf) soap.HasFault {
	names := map[int32]string{}
	for _, counter := range p.PerfCounter {
		names[counter.Key] = counter.GroupInfo.GetElementDescription().Key + "." + counter.NameInfo.GetElementDescription().Key
	}
	body := &methods.QueryPerfBody{Res: &types.QueryPerfResponse{}}
	for _, query := range req.QuerySpec {
		now := time.Now().Add(p.world.ahead)
		end, start := now, now.Add(-time.Hour)
		if query.EndTime != nil && query.EndTime.Before(end) {
			end = *query.EndTime
		}
		if query.StartTime != nil && query.StartTime.After(start) {
			start = *query.StartTime
		}
		metrics := &types.PerfEntityMetric{PerfEntityMetricBase: types.PerfEntityMetricBase{Entity: query.Entity}}
		// Samples end at whole intervals of the host's clock, whatever was asked for.
		for at := start.Unix()/interval*interval + interval; at <= end.Unix(); at += interval {
			metrics.SampleInfo = append(metrics.SampleInfo, types.PerfSampleInfo{Timestamp: time.Unix(at, 0).UTC(), Interval: interval})
		}
		if count := int32(len(metrics.SampleInfo)); query.MaxSample > 0 && count > query.MaxSample {
			metrics.SampleInfo = metrics.SampleInfo[count-query.MaxSample:]
		}
		for _, id := range each(ctx, ctx.Map.Get(query.Entity), query.MetricId, names) {
			series := &types.PerfMetricIntSeries{PerfMetricSeries: types.PerfMetricSeries{Id: id}}
			for _, sample := range metrics.SampleInfo {
				value := p.world.madeUp(names[id.CounterId], query.Entity.Value+id.Instance, sample.Timestamp.Unix()/interval)
				_, name, _ := strings.Cut(names[id.CounterId], ".")
				if slices.Contains(troubles, name) {
					value = p.world.trouble(name, id.Instance)
				}
				if strings.HasPrefix(name, "number") {
					value += p.world.busy(query.Entity.Value, id.Instance, sample.Timestamp.Add(-p.world.ahead))
				}
				series.Value = append(series.Value, value)
			}
			metrics.Value = append(metrics.Value, series)
		}
		if query.Format == string(types.PerfFormatCsv) {
			body.Res.Returnval = append(body.Res.Returnval, asText(metrics))
		} else {
			body.Res.Returnval = append(body.Res.Returnval, metrics)
		}
	}
	return body
}

// troubles are counters that a host counts nothing in while all is well.
var troubles = []string{"commandsAborted", "busResets"}

// trouble is what every sample of a device says once a test has asked for it.
func (w *world) trouble(counter, device string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.troubled[counter+" "+device]
}

func asText(metrics *types.PerfEntityMetric) *types.PerfEntityMetricCSV {
	var samples []string
	for _, sample := range metrics.SampleInfo {
		samples = append(samples, fmt.Sprint(sample.Interval), sample.Timestamp.Format(time.RFC3339))
	}
	found := &types.PerfEntityMetricCSV{PerfEntityMetricBase: metrics.PerfEntityMetricBase, SampleInfoCSV: strings.Join(samples, ",")}
	for _, series := range metrics.Value {
		var values []string
		for _, value := range series.(*types.PerfMetricIntSeries).Value {
			values = append(values, fmt.Sprint(value))
		}
		found.Value = append(found.Value, types.PerfMetricSeriesCSV{PerfMetricSeries: series.(*types.PerfMetricIntSeries).PerfMetricSeries, Value: strings.Join(values, ",")})
	}
	return found
}

// each names the instances that "*" stands for.
func each(ctx *simulator.Context, entity mo.Reference, asked []types.PerfMetricId, names map[int32]string) []types.PerfMetricId {
	var found []types.PerfMetricId
	for _, id := range asked {
		group, _, _ := strings.Cut(names[id.CounterId], ".")
		if id.Instance != "*" {
			found = append(found, id)
			continue
		}
		for _, instance := range instances(ctx, entity, group) {
			found = append(found, types.PerfMetricId{CounterId: id.CounterId, Instance: instance})
		}
	}
	return found
}

func instances(ctx *simulator.Context, entity mo.Reference, group string) (found []string) {
	switch entity := entity.(type) {
	case *simulator.HostSystem:
		switch group {
		case "disk":
			for _, lun := range entity.Config.StorageDevice.ScsiLun {
				if disk, ok := lun.(*types.HostScsiDisk); ok {
					found = append(found, disk.CanonicalName)
				}
			}
		case "storageAdapter":
			for _, adapter := range entity.Config.StorageDevice.HostBusAdapter {
				found = append(found, adapter.GetHostHostBusAdapter().Device)
			}
		case "datastore":
			for _, reference := range entity.Datastore {
				found = append(found, instanceOf(ctx.Map.Get(reference).(*simulator.Datastore)))
			}
		}
	case *simulator.VirtualMachine:
		if group != "virtualDisk" {
			return nil
		}
		devices := object.VirtualDeviceList(entity.Config.Hardware.Device)
		for _, device := range devices.SelectByType((*types.VirtualDisk)(nil)) {
			if controller, ok := devices.FindByKey(device.GetVirtualDevice().ControllerKey).(types.BaseVirtualController); ok {
				family := "scsi"
				switch controller.(type) {
				case *types.VirtualIDEController:
					family = "ide"
				case *types.VirtualAHCIController:
					family = "sata"
				case *types.VirtualNVMEController:
					family = "nvme"
				}
				found = append(found, fmt.Sprintf("%s%d:%d", family, controller.GetVirtualController().BusNumber, *device.GetVirtualDevice().UnitNumber))
			}
		}
	}
	return found
}

// madeUp is the same for the same counter, instance and moment: milliseconds of latency, MHz, or a rate.
func (w *world) madeUp(counter, instance string, tick int64) int64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(instance))
	noise := int64(sum.Sum32()%5) + tick%3
	group, name, _ := strings.Cut(counter, ".")
	switch {
	case strings.HasSuffix(name, "Latency") && w.strict[shortLatencies]:
		return 0
	case strings.HasPrefix(name, "device") && strings.HasSuffix(name, "Latency"):
		return 4 + noise
	case strings.HasPrefix(name, "kernel") && strings.HasSuffix(name, "Latency"):
		return 1
	case strings.HasPrefix(name, "queue") && strings.HasSuffix(name, "Latency"):
		return 0
	case strings.HasPrefix(name, "total") && strings.HasSuffix(name, "Latency"):
		return 5 + noise
	case strings.HasSuffix(name, "LatencyUS"):
		return 480 + 10*noise
	case name == "usagemhz":
		return 900 + 40*noise
	case strings.HasPrefix(name, "number"), strings.HasPrefix(name, "commands"):
		return 2000 + 100*noise
	case group == "cpu":
		return 1500 + noise
	}
	return 8000 + 400*noise
}
