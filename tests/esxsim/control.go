// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// gate forwards the public port to the simulator, so that connections can be cut and left hanging as a network does.
type gate struct {
	listener net.Listener
	mu       sync.Mutex
	open     map[net.Conn]bool
	shut     time.Time
	hang     time.Time
}

func newGate(listen string) (*gate, error) {
	listener, err := listenOn(listen)
	return &gate{listener: listener, open: map[net.Conn]bool{}}, err
}

// listenOn takes an address, or fd:N for a socket that the parent has opened, perhaps in another network namespace.
func listenOn(where string) (net.Listener, error) {
	number, inherited := strings.CutPrefix(where, "fd:")
	if !inherited {
		return net.Listen("tcp", where)
	}
	descriptor, err := strconv.Atoi(number)
	if err != nil {
		return nil, fmt.Errorf("%q is no descriptor", where)
	}
	file := os.NewFile(uintptr(descriptor), where)
	defer file.Close()
	return net.FileListener(file)
}

func (g *gate) address() string { return g.listener.Addr().String() }

func (g *gate) serve(inner string) {
	go func() {
		for {
			client, err := g.listener.Accept()
			if err != nil {
				return
			}
			g.mu.Lock()
			refuse := time.Now().Before(g.shut)
			g.open[client] = !refuse
			g.mu.Unlock()
			if refuse {
				g.forget(client)
				continue
			}
			go g.forward(client, inner)
		}
	}()
}

func (g *gate) forward(client net.Conn, inner string) {
	defer g.forget(client)
	server, err := net.Dial("tcp", inner)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, waiting{client, g})
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

func (g *gate) forget(conn net.Conn) {
	conn.Close()
	g.mu.Lock()
	delete(g.open, conn)
	g.mu.Unlock()
}

// waiting hands on what a client sends only when the line does not hang.
type waiting struct {
	net.Conn
	gate *gate
}

func (w waiting) Read(buffer []byte) (int, error) {
	count, err := w.Conn.Read(buffer)
	w.gate.mu.Lock()
	until := w.gate.hang
	w.gate.mu.Unlock()
	time.Sleep(time.Until(until))
	return count, err
}

// cut ends every connection and refuses new ones for a while.
func (g *gate) cut(refuse time.Duration) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = time.Now().Add(refuse)
	for conn := range g.open {
		conn.Close()
	}
	return len(g.open)
}

// order is what a test may ask for.
type order struct {
	Method  string  `json:"method"`  // SOAP method, * for all
	Fault   string  `json:"fault"`   // a name of faults below
	Skip    int     `json:"skip"`    // calls that pass before it strikes
	Times   int     `json:"times"`   // how often it strikes; 0 is for ever. Of trouble: what each sample counts
	Seconds float64 `json:"seconds"` // of cut (connections refused), hang, slow and late (a task begins)
	Name    string  `json:"name"`    // of a virtual machine, or of a device
	Host    string  `json:"host"`    // where it goes, or what is restarted
	Holds   bool    `json:"holds"`   // whether a situation does from now on
}

var faults = map[string]types.BaseMethodFault{
	"NoPermission":     &types.NoPermission{PrivilegeId: "Host.Config.Storage"},
	"NotAuthenticated": &types.NotAuthenticated{NoPermission: types.NoPermission{PrivilegeId: "System.View"}},
	"ResourceInUse":    &types.ResourceInUse{Type: "Datastore", Name: "in use by the test"},
	"HostConfigFault":  &types.HostConfigFault{},
	"Timedout":         &types.Timedout{},
}

func serveControl(listen string, service *simulator.Service, world *world, gate *gate) (string, error) {
	listener, err := listenOn(listen)
	if err != nil {
		return "", err
	}
	handle := func(path string, act func(order) (any, error)) {
		http.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			var asked order
			if r.Method == http.MethodPost {
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
			}
			answer, err := act(asked)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	handle("/fault", func(asked order) (any, error) {
		fault, known := faults[asked.Fault]
		if !known || asked.Method == "" {
			return nil, fmt.Errorf("fault %q of method %q is not known", asked.Fault, asked.Method)
		}
		service.AddFaultRule(&simulator.FaultInjectionRule{MethodName: asked.Method, ObjectType: "*", ObjectName: "*", Probability: 1,
			FaultType: simulator.FaultTypeCustom, Fault: fault, Message: "injected by the test", MaxCount: asked.Times, SkipCount: asked.Skip, Enabled: true})
		return "set", nil
	})
	handle("/clear", func(order) (any, error) {
		service.ClearFaultRules()
		gate.mu.Lock()
		gate.shut, gate.hang = time.Time{}, time.Time{}
		gate.mu.Unlock()
		return "cleared", nil
	})
	handle("/cut", func(asked order) (any, error) {
		return gate.cut(time.Duration(asked.Seconds * float64(time.Second))), nil
	})
	handle("/hang", func(asked order) (any, error) {
		gate.mu.Lock()
		gate.hang = time.Now().Add(time.Duration(asked.Seconds * float64(time.Second)))
		gate.mu.Unlock()
		return "hanging", nil
	})
	handle("/answer", func(order) (any, error) {
		world.answer()
		return "answered", nil
	})
	handle("/move", func(asked order) (any, error) { return "moved", world.move(asked.Name, asked.Host) })
	handle("/slow", func(asked order) (any, error) {
		world.mu.Lock()
		world.slow[asked.Method] = time.Duration(asked.Seconds * float64(time.Second))
		world.mu.Unlock()
		return "slow", nil
	})
	// A file, as [datastore] path, is open from now on, or no longer.
	handle("/open", func(asked order) (any, error) { return "open", world.hold(asked.Name, true) })
	handle("/close", func(asked order) (any, error) { return "closed", world.hold(asked.Name, false) })
	// The counter that is named as the method goes on counting so much in each sample of the device.
	handle("/trouble", func(asked order) (any, error) {
		if !slices.Contains(troubles, asked.Method) {
			return nil, fmt.Errorf("%q is no counter of trouble", asked.Method)
		}
		world.mu.Lock()
		world.troubled[asked.Method+" "+asked.Name] = int64(asked.Times)
		world.mu.Unlock()
		return "troubled", nil
	})
	// The task is there, and has not begun: what it works on is not yet known.
	handle("/late", func(asked order) (any, error) {
		simulator.TaskDelay.MethodDelay = map[string]int{"LockHandoff": 0, asked.Method: int(asked.Seconds * 1000)}
		return "late", nil
	})
	// The portal that is named is down, or up again.
	handle("/path", func(asked order) (any, error) {
		world.setPath(asked.Name, asked.Method == "down")
		return asked.Method, nil
	})
	// The disk that is named is offered for raw mappings no more, or again.
	handle("/withhold", func(asked order) (any, error) {
		if asked.Holds {
			world.withheld.Store(asked.Name, true)
		} else {
			world.withheld.Delete(asked.Name)
		}
		return "as asked", nil
	})
	handle("/situation", func(asked order) (any, error) { return "as asked", world.situate(asked.Name, asked.Holds) })
	handle("/settle", func(order) (any, error) { return "settled", world.settle() })
	handle("/restart", func(asked order) (any, error) { return "restarted", world.restart(asked.Host) })
	handle("/options", func(order) (any, error) {
		found := map[string]map[string]string{}
		for _, h := range world.hosts {
			found[h.sys.Name] = h.inForce()
		}
		return found, nil
	})
	handle("/properties", func(order) (any, error) { return world.takeProperties(), nil })
	handle("/calls", func(order) (any, error) { return world.takeCalls(), nil })
	go func() { _ = http.Serve(listener, nil) }()
	return listener.Addr().String(), nil
}

func (w *world) hold(path string, open bool) error {
	if !strings.HasPrefix(path, "[") || !strings.Contains(path, "] ") {
		return fmt.Errorf("%q is not [datastore] path", path)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if open {
		w.opened[path] = true
	} else {
		delete(w.opened, path)
	}
	return nil
}

// makeCertificate is self-signed for the address that clients use; its PEM file is what they trust.
func makeCertificate(home, address string, named bool) (tls.Certificate, string, error) {
	host, _, _ := net.SplitHostPort(address)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "esxsim (simulated)"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}}
	if !named {
		template.IPAddresses = []net.IP{net.ParseIP(host)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	file := filepath.Join(home, "certificate.pem")
	err = writeWhole(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file, err
}
