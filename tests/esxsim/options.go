// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"github.com/vmware/govmomi/vim25/types"
)

// Options are those that hosts of ESXi 7 and later have, with their bounds and which nobody may set, as real ones have answered; texts of options of
// the host end as real ones do.
// belief: that a host answers a value outside the bounds, or one of a read-only option, with InvalidArgument.
const realAdapterOptions = "real-adapter-options"

func init() { everyStrictness = append(everyStrictness, realAdapterOptions) }

// adapterOption is one of the software iSCSI adapter.
type adapterOption struct {
	key         string
	value       any
	least, most int32
	readOnly    bool
}

var adapterOptions = []adapterOption{
	{"ErrorRecoveryLevel", int32(0), 0, 2, true},
	{"LoginRetryMax", int32(4), 0, 64, true},
	{"MaxOutstandingR2T", int32(1), 1, 8, false},
	{"FirstBurstLength", int32(262144), 512, 16777215, false},
	{"MaxBurstLength", int32(262144), 512, 16777215, false},
	{"MaxRecvDataSegLen", int32(131072), 512, 16777215, false},
	{"MaxCommands", int32(128), 2, 2048, true},
	{"DefaultTimeToWait", int32(0), 0, 60, true},
	{"DefaultTimeToRetain", int32(0), 0, 60, true},
	{"LoginTimeout", int32(5), 1, 60, false},
	{"LogoutTimeout", int32(15), 0, 60, true},
	{"RecoveryTimeout", int32(10), 1, 120, false},
	{"NoopTimeout", int32(10), 10, 30, false},
	{"NoopInterval", int32(15), 1, 60, false},
	{"InitR2T", false, 0, 0, true},
	{"ImmediateData", false, 0, 0, true},
	{"DelayedAck", true, 0, 0, false},
}

// hostOption is an advanced option of a host that the stock one has not.
type hostOption struct {
	key, text          string
	value, least, most int64
}

var hostOptions = []hostOption{
	{"ISCSI.MaxIoSizeKB", "Largest I/O of software iSCSI in KB. Requires rebooting the host.", 128, 128, 512},
	{"ISCSI.SocketRcvBufLenKB", "Receive buffer of a socket in KB", 256, 256, 6144},
	{"ISCSI.SocketSndBufLenKB", "Send buffer of a socket in KB", 600, 600, 6144},
}

// give gives an adapter its options.
func give(adapter *types.HostInternetScsiHba) {
	for _, option := range adapterOptions {
		adapter.AdvancedOptions = append(adapter.AdvancedOptions, types.HostInternetScsiHbaParamValue{OptionValue: types.OptionValue{Key: option.key, Value: option.value}})
		definition := types.OptionDef{ElementDescription: types.ElementDescription{Key: option.key}}
		kind := types.OptionType{ValueIsReadonly: types.NewBool(option.readOnly)}
		if flag, isFlag := option.value.(bool); isFlag {
			definition.OptionType = &types.BoolOption{OptionType: kind, Supported: true, DefaultValue: flag}
		} else {
			definition.OptionType = &types.IntOption{OptionType: kind, Min: option.least, Max: option.most, DefaultValue: option.value.(int32)}
		}
		adapter.SupportedAdvancedOptions = append(adapter.SupportedAdvancedOptions, definition)
	}
}

// unfit says whether an adapter does not take this value of an option of its own.
func (h *host) unfit(option types.HostInternetScsiHbaParamValue) bool {
	if !h.world.strict[realAdapterOptions] {
		return false
	}
	for _, known := range adapterOptions {
		if known.key == option.Key {
			number, isNumber := option.Value.(int32)
			return known.readOnly || isNumber && (number < known.least || number > known.most)
		}
	}
	return false
}

// outside says whether a host does not take this value of an option of its own.
func (w *world) outside(option *types.OptionValue) bool {
	number, isNumber := option.Value.(int64)
	for _, known := range hostOptions {
		if known.key == option.Key {
			return w.strict[realAdapterOptions] && isNumber && (number < known.least || number > known.most)
		}
	}
	return false
}
