// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// powerSystem keeps the policy that a host saves power by. It changes nothing that is measured.
type powerSystem struct {
	mo.HostPowerSystem
}

// dateTimeSystem keeps the servers that a host's clock is to go by. No clock is set.
type dateTimeSystem struct {
	mo.HostDateTimeSystem
	world *world
}

// QueryDateTime is the host's clock.
func (s *dateTimeSystem) QueryDateTime(*types.QueryDateTime) soap.HasFault {
	return &methods.QueryDateTimeBody{Res: &types.QueryDateTimeResponse{Returnval: time.Now().Add(s.world.ahead).UTC()}}
}

// serviceSystem keeps which services run. None does.
type serviceSystem struct {
	mo.HostServiceSystem
}

// equipSettings gives a host these systems; the stock ones have references to none.
func (h *host) equipSettings(number int) {
	registry, config, manager := h.world.model.Map(), h.sys.Config, &h.sys.ConfigManager
	own := func(kind string) types.ManagedObjectReference {
		return types.ManagedObjectReference{Type: kind, Value: fmt.Sprintf("%s-%d", kind, number)}
	}
	power := &powerSystem{}
	power.Self, power.Capability, power.Info = own("HostPowerSystem"), *config.PowerSystemCapability, *config.PowerSystemInfo
	clock := &dateTimeSystem{world: h.world}
	clock.Self = own("HostDateTimeSystem")
	clock.DateTimeInfo = types.HostDateTimeInfo{TimeZone: types.HostDateTimeSystemTimeZone{Key: "UTC", Name: "UTC", Description: "UTC"}, NtpConfig: &types.HostNtpConfig{}}
	services := &serviceSystem{}
	services.Self, services.ServiceInfo = own("HostServiceSystem"), *config.Service
	services.ServiceInfo.Service = slices.Clone(config.Service.Service)
	// One truth behind both property paths.
	config.PowerSystemCapability, config.PowerSystemInfo = &power.Capability, &power.Info
	config.DateTimeInfo, config.Service = &clock.DateTimeInfo, &services.ServiceInfo
	manager.PowerSystem, manager.DateTimeSystem, manager.ServiceSystem = &power.Self, &clock.Self, &services.Self
	registry.Put(power)
	registry.Put(clock)
	registry.Put(services)
}

func (s *powerSystem) ConfigurePowerPolicy(req *types.ConfigurePowerPolicy) soap.HasFault {
	body := &methods.ConfigurePowerPolicyBody{}
	for _, policy := range s.Capability.AvailablePolicy {
		if policy.Key == req.Key {
			s.Info.CurrentPolicy = policy
			body.Res = &types.ConfigurePowerPolicyResponse{}
			return body
		}
	}
	body.Fault_ = fault("there is no such policy", &types.InvalidArgument{InvalidProperty: "key"})
	return body
}

// UpdateDateTimeConfig takes what is given. Time servers without any are taken away, as the API documents.
func (s *dateTimeSystem) UpdateDateTimeConfig(req *types.UpdateDateTimeConfig) soap.HasFault {
	body := &methods.UpdateDateTimeConfigBody{}
	if ntp := req.Config.NtpConfig; ntp != nil {
		for _, server := range ntp.Server {
			if strings.TrimSpace(server) == "" {
				body.Fault_ = fault("a time server has a name", &types.InvalidArgument{InvalidProperty: "config.ntpConfig.server"})
				return body
			}
		}
		s.DateTimeInfo.NtpConfig = &types.HostNtpConfig{Server: slices.Clone(ntp.Server)}
	}
	body.Res = &types.UpdateDateTimeConfigResponse{}
	return body
}

// service is a service of the host; a fault when there is none of that name, or when it does not run as it has to.
func (s *serviceSystem) service(id string, running ...bool) (*types.HostService, *soap.Fault) {
	for index := range s.ServiceInfo.Service {
		service := &s.ServiceInfo.Service[index]
		if service.Key != id {
			continue
		}
		if len(running) > 0 && service.Running != running[0] {
			return nil, fault(fmt.Sprintf("whether %s runs: %t", id, service.Running), &types.InvalidState{})
		}
		return service, nil
	}
	return nil, fault("there is no service "+id, &types.NotFound{})
}

func (s *serviceSystem) StartService(req *types.StartService) soap.HasFault {
	body := &methods.StartServiceBody{}
	service, refusal := s.service(req.Id, false)
	if body.Fault_ = refusal; refusal == nil {
		service.Running = true
		body.Res = &types.StartServiceResponse{}
	}
	return body
}

func (s *serviceSystem) StopService(req *types.StopService) soap.HasFault {
	body := &methods.StopServiceBody{}
	service, refusal := s.service(req.Id, true)
	if body.Fault_ = refusal; refusal == nil {
		service.Running = false
		body.Res = &types.StopServiceResponse{}
	}
	return body
}

func (s *serviceSystem) RestartService(req *types.RestartService) soap.HasFault {
	body := &methods.RestartServiceBody{}
	if _, body.Fault_ = s.service(req.Id, true); body.Fault_ == nil {
		body.Res = &types.RestartServiceResponse{}
	}
	return body
}

func (s *serviceSystem) UpdateServicePolicy(req *types.UpdateServicePolicy) soap.HasFault {
	body := &methods.UpdateServicePolicyBody{}
	service, refusal := s.service(req.Id)
	switch {
	case refusal != nil:
		body.Fault_ = refusal
	case !slices.Contains([]string{"on", "off", "automatic"}, req.Policy):
		body.Fault_ = fault("there is no such policy", &types.InvalidArgument{InvalidProperty: "policy"})
	default:
		service.Policy = req.Policy
		body.Res = &types.UpdateServicePolicyResponse{}
	}
	return body
}
