// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/vmware/govmomi/vim25/types"

	"storlab.test/esxsim/iscsi"
)

const gptProtective = 0xee

// readPartitions reads the real partition table of a LUN: GPT where the MBR points to one, else the MBR's own entries.
func readPartitions(session *iscsi.Session, lun iscsi.LUN) []types.HostDiskPartitionAttributes {
	sector, err := session.ReadBlock(lun.Number, 0, lun.BlockBytes)
	if err != nil || sector[510] != 0x55 || sector[511] != 0xaa {
		return nil
	}
	var found []types.HostDiskPartitionAttributes
	for number := 0; number < 4; number++ {
		entry := sector[446+16*number:][:16]
		start, count := int64(binary.LittleEndian.Uint32(entry[8:])), int64(binary.LittleEndian.Uint32(entry[12:]))
		switch {
		case entry[4] == gptProtective:
			return readGPT(session, lun)
		case entry[4] != 0:
			found = append(found, types.HostDiskPartitionAttributes{Partition: int32(number + 1), StartSector: start, EndSector: start + count - 1, Type: kindOf(entry[4])})
		}
	}
	return found
}

// kindOf names a partition's type as the API does: by word where it has one, else by number.
func kindOf(code byte) string {
	switch code {
	case 0x83:
		return string(types.HostDiskPartitionInfoTypeLinuxNative)
	case 0x82:
		return string(types.HostDiskPartitionInfoTypeLinuxSwap)
	case 0x07:
		return string(types.HostDiskPartitionInfoTypeNtfs)
	case 0xfb:
		return string(types.HostDiskPartitionInfoTypeVmfs)
	}
	return fmt.Sprintf("0x%x", code)
}

func readGPT(session *iscsi.Session, lun iscsi.LUN) []types.HostDiskPartitionAttributes {
	header, err := session.ReadBlock(lun.Number, 1, lun.BlockBytes)
	if err != nil || !bytes.HasPrefix(header, []byte("EFI PART")) {
		return nil
	}
	at, count, size := int64(binary.LittleEndian.Uint64(header[72:])), int64(binary.LittleEndian.Uint32(header[80:])), int64(binary.LittleEndian.Uint32(header[84:]))
	if size < 128 || count > 128 || lun.BlockBytes%size != 0 {
		return nil
	}
	var found []types.HostDiskPartitionAttributes
	for number := int64(0); number < count; number++ {
		block, err := session.ReadBlock(lun.Number, at+number*size/lun.BlockBytes, lun.BlockBytes)
		if err != nil {
			return found
		}
		entry := block[number*size%lun.BlockBytes:][:size]
		if !bytes.Equal(entry[:16], make([]byte, 16)) {
			found = append(found, types.HostDiskPartitionAttributes{Partition: int32(number + 1), StartSector: int64(binary.LittleEndian.Uint64(entry[32:])),
				EndSector: int64(binary.LittleEndian.Uint64(entry[40:])), Type: fmt.Sprintf("%x", entry[:16])})
		}
	}
	return found
}
