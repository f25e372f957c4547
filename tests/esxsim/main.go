// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Esxsim is a simulated ESXi or vCenter for the tests of storlab.testbed: govmomi's simulator with the parts it lacks.
//
// What is real: TLS, the SOAP interface, and every rescan, which discovers and logs in to the real iSCSI target (CHAP
// included) and shows the LUNs found there. A VMFS is a mark on the real LUN; files on it lie in a folder of this machine.
// What is not: no VMkernel moves a byte, guests do not run, performance counters are made up. See docs/esxi.md.
package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // the REST interface of a vCenter; a standalone ESXi model does not show it
)

func main() {
	model := flag.String("model", "esx", "esx (one standalone host) or vpx (a vCenter with two hosts)")
	listen := flag.String("listen", "127.0.0.1:0", "address and port of the SOAP interface, or fd:N for a socket that is open already")
	control := flag.String("control", "127.0.0.1:0", "address and port of the test's own control interface, or fd:N")
	user := flag.String("user", "root", "user who may log in")
	passwordFile := flag.String("password-file", "", "file with this user's password")
	lenient := flag.String("lenient", "", "ways of being strict to do without, separated by commas: "+strings.Join(everyStrictness, ", "))
	lab := flag.String("lab", "", "peculiarities of the lab, separated by commas: "+strings.Join(everyLab, ", "))
	home := flag.String("home", "", "folder for datastores, the certificate and the ready file; must exist")
	volumes := flag.String("volumes", "", "folder for the files of volumes, by default in -home; hosts on their own that share a LUN share it, too")
	recorded := flag.String("recorded", "", "file with a host as a real one has answered (ObjectContent as XML): the host answers as that one did and refuses every change")
	flag.Parse()
	if *volumes == "" {
		*volumes = filepath.Join(*home, "volumes")
	}
	if err := run(*model, *listen, *control, *user, *passwordFile, *home, *volumes, *lenient, *lab, *recorded); err != nil {
		log.Fatalf("esxsim: %v", err)
	}
}

func run(kind, listen, control, user, passwordFile, home, volumes, lenient, lab, file string) error {
	strict, err := strictness(lenient, lab)
	if err != nil {
		return err
	}
	var recorded *recordedHost
	if file != "" {
		if recorded, err = readRecorded(file); err != nil {
			return err
		}
	}
	password, err := os.ReadFile(passwordFile)
	if err != nil {
		return fmt.Errorf("-password-file: %w", err)
	}
	if info, err := os.Stat(home); err != nil || !info.IsDir() {
		return fmt.Errorf("-home %q is not a folder", home)
	}
	var m *simulator.Model
	switch kind {
	case "esx":
		m = simulator.ESX()
	case "vpx":
		m = simulator.VPX()
		m.Host, m.Cluster = 2, 0 // standalone hosts under one vCenter
	default:
		return fmt.Errorf("-model %q: use esx or vpx", kind)
	}
	m.Machine = 0
	if recorded != nil {
		m.Datastore = 0
	}
	if err := m.Create(); err != nil {
		return err
	}
	defer m.Remove()
	m.ServiceContent.About.FullName += " (simulated)"
	gate, err := newGate(listen)
	if err != nil {
		return err
	}
	certificate, trusted, err := makeCertificate(home, gate.address(), strict[namesOnly])
	if err != nil {
		return err
	}
	m.Service.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(user, strings.TrimSpace(string(password)))}
	m.Service.RegisterEndpoints = kind == "vpx"
	world := newWorld(m, volumes, strict)
	world.thumbprint = fmt.Sprintf("%X", sha1.Sum(certificate.Certificate[0]))
	if recorded != nil {
		if err := world.replay(recorded); err != nil {
			return err
		}
		recorded.serveVersions(m.Service)
	}
	server := m.Service.NewServer()
	defer server.Close()
	gate.serve(server.URL.Host)
	controls, err := serveControl(control, m.Service, world, gate)
	if err != nil {
		return err
	}
	reached := gate.address()
	if strict[namesOnly] {
		_, port, _ := net.SplitHostPort(reached)
		reached = net.JoinHostPort("localhost", port)
	}
	ready, _ := json.Marshal(map[string]any{"address": reached, "control": controls, "certificate": trusted, "thumbprint": fmt.Sprintf("%x", sha256.Sum256(certificate.Certificate[0])), "pid": os.Getpid(), "simulated": true})
	if err := writeWhole(home+"/ready.json", ready); err != nil {
		return err
	}
	fmt.Println(string(ready))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	return os.Remove(home + "/ready.json")
}

func writeWhole(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
