// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	inventoryDelay = 300 * time.Millisecond
	discoveryDelay = 700 * time.Millisecond
	// How long the host has been running when the simulation begins.
	uptime = time.Hour
	// How far the clocks of a vCenter's hosts are ahead of its own.
	clockAhead = 40 * time.Second
)

// due is something that a host does a while after the call that asked for it has returned.
type due struct {
	at  time.Time
	act func(*simulator.Context)
}

// agenda holds what a host is yet to do, in the order in which it was asked.
type agenda struct {
	mu    sync.Mutex
	items []due
}

func (a *agenda) add(delay time.Duration, act func(*simulator.Context)) {
	a.mu.Lock()
	a.items = append(a.items, due{time.Now().Add(delay), act})
	a.mu.Unlock()
}

// next takes out the first item that is due by then, nil when there is none.
func (a *agenda) next(then time.Time) *due {
	a.mu.Lock()
	defer a.mu.Unlock()
	for index, item := range a.items {
		if !then.Before(item.at) {
			a.items = append(a.items[:index:index], a.items[index+1:]...)
			return &item
		}
	}
	return nil
}

// catchUp does what is due. Time passes for a host only when somebody calls it, so that nothing happens behind the simulator's locks.
func (w *world) catchUp(ctx *simulator.Context) {
	if ctx.Session == nil {
		return
	}
	w.act(ctx, time.Now)
}

// settle does all that is left to do, now.
func (w *world) settle() error {
	w.act(w.model.Service.Context, func() time.Time { return time.Now().Add(uptime) })
	return nil
}

func (w *world) act(ctx *simulator.Context, then func() time.Time) {
	w.turn.Lock()
	defer w.turn.Unlock()
	for _, h := range w.hosts {
		for item := h.agenda.next(then()); item != nil; item = h.agenda.next(then()) {
			item.act(ctx)
		}
	}
}

// changed lets clients see what has changed, at once or a while later.
func (h *host) changed() {
	if h.world.strict[lateInventory] {
		h.agenda.add(inventoryDelay, func(*simulator.Context) { h.publish() })
		return
	}
	h.publish()
}

// discover does what a rescan has asked for, at once or after the call has returned.
func (h *host) discover(ctx *simulator.Context, act func(*simulator.Context)) {
	if h.world.strict[slowDiscovery] {
		h.agenda.add(discoveryDelay, act)
		return
	}
	act(ctx)
}

// restart starts a host anew: configured options hold, and an adapter that was disabled is gone.
func (w *world) restart(name string) error {
	for _, h := range w.hosts {
		if h.sys.Name != name && name != "" {
			continue
		}
		// Each run has lasted for a while, as those of real hosts do.
		started := h.sys.Runtime.BootTime.Add(uptime / 6)
		h.sys.Runtime.BootTime, h.sys.Summary.Runtime.BootTime = &started, &started
		h.holding = h.configured()
		if !h.enabled {
			h.listed = false
			h.disks = map[string]*disk{}
		}
		h.publish()
		return nil
	}
	return fmt.Errorf("there is no host %q", name)
}

// configured are the options as they are set: those of the host by key, those of kernel modules by module.
func (h *host) configured() map[string]string {
	found := map[string]string{}
	for _, option := range h.options().Setting {
		found[option.GetOptionValue().Key] = fmt.Sprint(option.GetOptionValue().Value)
	}
	for module, text := range h.modules.options {
		found[module] = text
	}
	return found
}

// inForce are the options that the running host goes by.
func (h *host) inForce() map[string]string {
	if h.world.strict[optionsNeedRestart] {
		return h.holding
	}
	return h.configured()
}

func (h *host) options() *simulator.OptionManager {
	return h.world.model.Map().Get(*h.sys.ConfigManager.AdvancedOption).(*simulator.OptionManager)
}

// mistyped is why an option's new value is refused: a host takes a number only in the width that it declares.
func mistyped(old, change types.AnyType) types.BaseMethodFault {
	if fmt.Sprintf("%T", old) == fmt.Sprintf("%T", change) {
		return nil
	}
	return &types.InvalidArgument{InvalidProperty: "value"}
}

// misset is why a request to change options of a host cannot be met, nil when it can.
func (w *world) misset(request *types.UpdateOptions) types.BaseMethodFault {
	for _, h := range w.hosts {
		if *h.sys.ConfigManager.AdvancedOption != request.This {
			continue
		}
		for _, change := range request.ChangedValue {
			if w.outside(change.GetOptionValue()) {
				return &types.InvalidArgument{InvalidProperty: change.GetOptionValue().Key}
			}
			for _, option := range h.options().Setting {
				if own := option.GetOptionValue(); own.Key == change.GetOptionValue().Key {
					if refusal := mistyped(own.Value, change.GetOptionValue().Value); refusal != nil {
						return refusal
					}
				}
			}
		}
	}
	return nil
}
