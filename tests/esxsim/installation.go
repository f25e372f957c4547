// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	installationKey = "guestinfo.storlab.installation"
	addressKey      = "guestinfo.storlab.ip"
	restartOff      = 500 * time.Millisecond // that a machine is off when it restarts
	installRate     = 700                    // commands per second of a datastore besides what it has anyway
)

// installation is what a machine says of itself in its settings, because no guest runs here: how its installation goes when it is turned on
// with an ISO image that is there. Restarts are the hard kind, in which the host sees the machine off.
type installation struct {
	Seconds float64 `json:"seconds"`
	Reboots int     `json:"reboots"`
	Ends    string  `json:"ends"` // powered_off, tools or address
	Asks    string  `json:"asks"` // a question of the host half way, until /answer
	Past    float64 `json:"past"` // seconds for which it has kept its datastore busy already, because samples take 20 s each
}

// course is one installation that was begun; its machine begins no other.
type course struct {
	installation
	began, ended time.Time
	stores       []string // instances of the datastores it keeps busy
	machine      string
}

// begin starts the installation of a machine that has just been turned on, when it says that it has one.
func (w *world) begin(ctx *simulator.Context, vm *mo.VirtualMachine) {
	text, medium := told(vm, installationKey), connect(ctx, vm)
	w.mu.Lock()
	defer w.mu.Unlock()
	if text == "" || w.courses[vm.Self] != nil || !medium {
		return
	}
	own := &course{began: time.Now(), machine: vm.Self.Value}
	if err := json.Unmarshal([]byte(text), &own.installation); err != nil {
		log.Printf("%s of %s: %v", installationKey, vm.Name, err)
		return
	}
	own.began = own.began.Add(-time.Duration(own.Past * float64(time.Second)))
	for _, reference := range vm.Datastore {
		own.stores = append(own.stores, instanceOf(ctx.Map.Get(reference).(*simulator.Datastore)))
	}
	w.courses[vm.Self] = own
	// Locks belong to contexts: this one outlives the request that turned the machine on.
	background := &simulator.Context{Context: context.Background(), Session: ctx.Session, Map: ctx.Map}
	go w.install(background, vm.Self, own)
}

// connect connects the CD-ROM drives whose images are there, and no others; it says whether there are any.
func connect(ctx *simulator.Context, vm *mo.VirtualMachine) (found bool) {
	for _, device := range object.VirtualDeviceList(vm.Config.Hardware.Device).SelectByType((*types.VirtualCdrom)(nil)) {
		image, ok := device.GetVirtualDevice().Backing.(*types.VirtualCdromIsoBackingInfo)
		connection := device.GetVirtualDevice().Connectable
		if !ok || connection == nil {
			continue
		}
		name, file, _ := strings.Cut(strings.TrimPrefix(image.FileName, "["), "] ")
		there := false
		for _, entity := range ctx.Map.All("Datastore") {
			store := entity.(*simulator.Datastore)
			if _, err := os.Stat(filepath.Join(store.Info.GetDatastoreInfo().Url, file)); store.Name == name && err == nil {
				there = connection.StartConnected
			}
		}
		// Said once: who looks meanwhile must not see a drive let go of that was connected all the time.
		connection.Connected = there
		found = found || connection.Connected
	}
	return found
}

// instanceOf names a datastore as its counters do.
func instanceOf(store *simulator.Datastore) string {
	if info, ok := store.Info.(*types.VmfsDatastoreInfo); ok && info.Vmfs != nil {
		return info.Vmfs.Uuid
	}
	return filepath.Base(strings.TrimRight(store.Info.GetDatastoreInfo().Url, "/"))
}

func (w *world) install(ctx *simulator.Context, self types.ManagedObjectReference, own *course) {
	defer func() {
		w.mu.Lock()
		own.ended = time.Now()
		w.mu.Unlock()
	}()
	part := time.Duration(own.Seconds / float64(own.Reboots+1) * float64(time.Second))
	for restart := 0; ; restart++ {
		if restart == own.Reboots/2 && own.Asks != "" && !w.ask(ctx, self, own.Asks) {
			return
		}
		time.Sleep(part)
		vm, there := ctx.Map.Get(self).(*simulator.VirtualMachine)
		// Somebody may have turned it off or destroyed it meanwhile.
		if !there || !on(ctx, vm) {
			return
		}
		if restart < own.Reboots {
			vm.PowerOffVMTask(ctx, &types.PowerOffVM_Task{This: self})
			time.Sleep(restartOff)
			vm.PowerOnVMTask(ctx, &types.PowerOnVM_Task{This: self})
			continue
		}
		switch own.Ends {
		case "tools":
			ctx.WithLock(vm, func() {
				ctx.Update(vm, []types.PropertyChange{{Name: "guest.toolsRunningStatus", Val: string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)}})
			})
		case "address":
			ctx.WithLock(vm, func() {
				ctx.Update(vm, []types.PropertyChange{{Name: "guest.ipAddress", Val: told(&vm.VirtualMachine, addressKey)}})
			})
		default:
			vm.PowerOffVMTask(ctx, &types.PowerOffVM_Task{This: self})
		}
		return
	}
}

func on(ctx *simulator.Context, vm *simulator.VirtualMachine) (running bool) {
	ctx.WithLock(vm, func() { running = vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn })
	return running
}

// ask blocks the machine until its question is answered; false when it was turned off instead.
func (w *world) ask(ctx *simulator.Context, self types.ManagedObjectReference, text string) bool {
	vm, there := ctx.Map.Get(self).(*simulator.VirtualMachine)
	if !there {
		return false
	}
	question := &types.VirtualMachineQuestionInfo{Id: "1", Text: text, Choice: types.ChoiceOption{
		ChoiceInfo: []types.BaseElementDescription{&types.ElementDescription{Description: types.Description{Label: "Yes", Summary: "Yes"}, Key: "0"}}}}
	ctx.WithLock(vm, func() { ctx.Update(vm, []types.PropertyChange{{Name: "runtime.question", Val: question}}) })
	w.mu.Lock()
	answered := w.answered
	w.mu.Unlock()
	<-answered
	ctx.WithLock(vm, func() { ctx.Update(vm, []types.PropertyChange{{Name: "runtime.question", Val: nil}}) })
	return on(ctx, vm)
}

// answer lets all machines go on that wait for an answer.
func (w *world) answer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.answered)
	w.answered = make(chan struct{})
}

// busy is how many commands per second installations add to a sample: of the datastores they use, and of their machines' disks.
func (w *world) busy(entity, instance string, end time.Time) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rate float64
	for _, own := range w.courses {
		mine := own.machine == entity
		for _, store := range own.stores {
			mine = mine || store == instance
		}
		from, until := end.Add(-interval*time.Second), end
		if own.began.After(from) {
			from = own.began
		}
		if !own.ended.IsZero() && own.ended.Before(until) {
			until = own.ended
		}
		if share := until.Sub(from).Seconds() / interval; mine && share > 0 {
			rate += share * installRate
		}
	}
	return int64(rate)
}
