// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package iscsi

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	initiator = "iqn.2026-11.test.storlab:esxsim-test"
	target    = "iqn.2026-11.test.storlab:unit"
)

// startTarget runs a real tgtd on loopback with one LUN of 8 MiB that wants CHAP.
func startTarget(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tgtd")
	if err != nil {
		t.Fatal("tgtd is not installed")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	portal := listener.Addr().String()
	listener.Close()
	control := fmt.Sprint(20000 + os.Getpid()%10000)
	daemon := exec.Command(path, "-f", "-C", control, "--iscsi", "portal="+portal)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	admin := func(arguments ...string) error {
		return exec.Command("tgtadm", append([]string{"-C", control, "--lld", "iscsi"}, arguments...)...).Run()
	}
	t.Cleanup(func() {
		_ = admin("--mode", "target", "--op", "delete", "--force", "--tid", "1")
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	backing := filepath.Join(t.TempDir(), "lun1")
	if err := os.WriteFile(backing, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); admin("--mode", "target", "--op", "show") != nil; {
		if time.Now().After(deadline) {
			t.Fatal("tgtd does not answer")
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, arguments := range [][]string{
		{"--mode", "target", "--op", "new", "--tid", "1", "--targetname", target},
		{"--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", backing},
		{"--mode", "logicalunit", "--op", "update", "--tid", "1", "--lun", "1", "--params", "scsi_id=00c0ffee00112233,scsi_sn=SN4711"},
		{"--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL"},
		{"--mode", "account", "--op", "new", "--user", "esx", "--password", "incoming-secret-1"},
		{"--mode", "account", "--op", "bind", "--tid", "1", "--user", "esx"},
		{"--mode", "account", "--op", "new", "--user", "array", "--password", "outgoing-secret-2"},
		{"--mode", "account", "--op", "bind", "--tid", "1", "--user", "array", "--outgoing"},
	} {
		if err := admin(arguments...); err != nil {
			t.Fatalf("tgtadm %v: %v", arguments, err)
		}
	}
	return portal
}

func TestAgainstARealTarget(t *testing.T) {
	portal := startTarget(t)
	found, err := Discover(portal, initiator, CHAP{})
	if err != nil || len(found) != 1 || found[0].IQN != target || found[0].Portals[0] != portal {
		t.Fatalf("discovery: %v %v", found, err)
	}
	for name, chap := range map[string]CHAP{
		"no secret":           {},
		"wrong secret":        {Name: "esx", Secret: "another-secret-3"},
		"wrong mutual secret": {Name: "esx", Secret: "incoming-secret-1", MutualName: "array", MutualSecret: "another-secret-3"},
		"wrong mutual name":   {Name: "esx", Secret: "incoming-secret-1", MutualName: "stranger", MutualSecret: "outgoing-secret-2"},
	} {
		if _, err := Login(portal, initiator, target, chap); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, chap := range map[string]CHAP{
		"one way": {Name: "esx", Secret: "incoming-secret-1"},
		"mutual":  {Name: "esx", Secret: "incoming-secret-1", MutualName: "array", MutualSecret: "outgoing-secret-2"},
	} {
		t.Run(name, func(t *testing.T) {
			session, err := Login(portal, initiator, target, chap)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			luns, err := session.LUNs()
			if err != nil || len(luns) != 2 {
				t.Fatalf("%v %v", luns, err)
			}
			// LUN 0 of tgt is its controller.
			if luns[0].DeviceType != 0x0c || luns[1].DeviceType != 0 {
				t.Errorf("device types: %+v", luns)
			}
			disk := luns[1]
			if disk.Number != 1 || disk.Serial != "SN4711" || disk.NAA != "600000000000000000c0ffee00112233" || disk.BlockBytes*disk.Blocks != 8<<20 {
				t.Errorf("%+v", disk)
			}
			block := bytes.Repeat([]byte(name[:1]), int(disk.BlockBytes))
			if err := session.WriteBlock(1, 2048, block); err != nil {
				t.Fatal(err)
			}
			back, err := session.ReadBlock(1, 2048, disk.BlockBytes)
			if err != nil || !bytes.Equal(back, block) {
				t.Fatalf("read back %q %v", back[:8], err)
			}
			if _, err := session.ReadBlock(1, disk.Blocks, disk.BlockBytes); err == nil {
				t.Error("a block beyond the end was read")
			}
		})
	}
}
