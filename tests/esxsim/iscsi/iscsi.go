// Copyright (c) 2026 The storlab.testbed developers
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Package iscsi is as much of an iSCSI initiator (RFC 7143) as a rescan needs: discovery, login with one-way or mutual
// CHAP, REPORT LUNS, INQUIRY, READ CAPACITY, and one block read or written. One command at a time, no digests.
package iscsi

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Patience for a connection and for every answer on it.
const Patience = 5 * time.Second

const (
	opSCSI     = 0x01
	opLogin    = 0x03
	opText     = 0x04
	opLogout   = 0x06
	opSCSIDone = 0x21
	opLoginAns = 0x23
	opTextAns  = 0x24
	opDataIn   = 0x25
	opReject   = 0x3f
	immediate  = 0x40
	final      = 0x80

	securityStage    = 0
	operationalStage = 1
	fullFeature      = 3

	statusGood           = 0x00
	statusCheckCondition = 0x02
)

// CHAP holds the initiator's credentials, and those it asks the target for when MutualName is set.
type CHAP struct {
	Name, Secret, MutualName, MutualSecret string
}

// Target is what discovery tells of one target.
type Target struct {
	IQN     string
	Portals []string
}

// LUN is what a login finds behind one logical unit.
type LUN struct {
	Number                    int
	DeviceType                byte // of the standard INQUIRY; 0 is a disk
	Vendor, Product, Revision string
	Serial                    string // page 80h
	NAA                       string // NAA designator of page 83h, in lower-case hex; empty when there is none
	BlockBytes                int64
	Blocks                    int64
}

// ErrRefused says that the target does not let this initiator in.
var ErrRefused = errors.New("the target refuses the login")

// Session is one connection with one target.
type Session struct {
	conn                 net.Conn
	task, command, state uint32
}

// Discover lists the targets that a portal shows this initiator.
func Discover(portal, initiator string, chap CHAP) ([]Target, error) {
	session, err := login(portal, initiator, "", chap)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	text, err := session.text("SendTargets=All\x00")
	if err != nil {
		return nil, err
	}
	var found []Target
	for _, pair := range strings.Split(text, "\x00") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "TargetName":
			found = append(found, Target{IQN: value})
		case "TargetAddress":
			if last := len(found) - 1; last >= 0 {
				address, _, _ := strings.Cut(value, ",")
				found[last].Portals = append(found[last].Portals, address)
			}
		}
	}
	return found, nil
}

// Login opens a normal session with a target.
func Login(portal, initiator, target string, chap CHAP) (*Session, error) {
	return login(portal, initiator, target, chap)
}

// Close logs out.
func (s *Session) Close() {
	header := make([]byte, 48)
	header[0], header[1] = opLogout|immediate, final
	s.number(header)
	if s.write(header, nil) == nil {
		_, _, _ = s.read()
	}
	s.conn.Close()
}

// LUNs lists the logical units with what they say of themselves.
func (s *Session) LUNs() ([]LUN, error) {
	cdb := make([]byte, 16)
	cdb[0] = 0xa0
	binary.BigEndian.PutUint32(cdb[6:], 4096)
	answer, err := s.scsi(0, cdb, 4096, nil)
	if err != nil {
		return nil, fmt.Errorf("REPORT LUNS: %w", err)
	}
	var found []LUN
	for entry := answer[8:min(len(answer), 8+int(binary.BigEndian.Uint32(answer)))]; len(entry) >= 8; entry = entry[8:] {
		number := int(entry[0]&0x3f)<<8 | int(entry[1])
		lun, err := s.describe(number)
		if err != nil {
			return nil, fmt.Errorf("LUN %d: %w", number, err)
		}
		found = append(found, lun)
	}
	return found, nil
}

// ReadBlock returns one block.
func (s *Session) ReadBlock(lun int, address, blockBytes int64) ([]byte, error) {
	return s.scsi(lun, transfer(0x88, address), int(blockBytes), nil)
}

// WriteBlock writes one block.
func (s *Session) WriteBlock(lun int, address int64, block []byte) error {
	_, err := s.scsi(lun, transfer(0x8a, address), 0, block)
	return err
}

func transfer(operation byte, address int64) []byte {
	cdb := make([]byte, 16)
	cdb[0] = operation
	binary.BigEndian.PutUint64(cdb[2:], uint64(address))
	binary.BigEndian.PutUint32(cdb[10:], 1)
	return cdb
}

func (s *Session) describe(number int) (LUN, error) {
	lun := LUN{Number: number}
	standard, err := s.inquiry(number, false, 0)
	if err != nil || len(standard) < 36 {
		return lun, fmt.Errorf("INQUIRY: %w", errors.Join(err, short(standard, 36)))
	}
	lun.DeviceType = standard[0] & 0x1f
	field := func(from, to int) string { return strings.TrimSpace(string(bytes.Trim(standard[from:to], "\x00"))) }
	lun.Vendor, lun.Product, lun.Revision = field(8, 16), field(16, 32), field(32, 36)
	if page, err := s.inquiry(number, true, 0x80); err == nil && len(page) > 4 {
		lun.Serial = strings.TrimSpace(strings.Trim(string(page[4:min(len(page), 4+int(page[3]))]), "\x00"))
	}
	if page, err := s.inquiry(number, true, 0x83); err == nil {
		lun.NAA = naa(page)
	}
	if lun.DeviceType != 0 {
		return lun, nil
	}
	cdb := make([]byte, 16)
	cdb[0], cdb[1] = 0x9e, 0x10
	binary.BigEndian.PutUint32(cdb[10:], 32)
	capacity, err := s.scsi(number, cdb, 32, nil)
	if err != nil || len(capacity) < 12 {
		return lun, fmt.Errorf("READ CAPACITY: %w", errors.Join(err, short(capacity, 12)))
	}
	lun.Blocks = int64(binary.BigEndian.Uint64(capacity)) + 1
	lun.BlockBytes = int64(binary.BigEndian.Uint32(capacity[8:]))
	return lun, nil
}

func short(answer []byte, least int) error {
	if len(answer) < least {
		return fmt.Errorf("%d bytes came back, %d are the least", len(answer), least)
	}
	return nil
}

// naa finds the NAA designator (type 3, binary) of a device identification page (SPC-5, 7.7.6): the longest, because a
// target that also gives a locally assigned one is known by the registered one.
func naa(page []byte) (best string) {
	if len(page) < 4 {
		return ""
	}
	for rest := page[4:]; len(rest) >= 4; {
		length := int(rest[3])
		if len(rest) < 4+length {
			return best
		}
		if rest[0]&0x0f == 1 && rest[1]&0x0f == 3 && 2*length > len(best) {
			best = hex.EncodeToString(rest[4 : 4+length])
		}
		rest = rest[4+length:]
	}
	return best
}

func (s *Session) inquiry(lun int, vital bool, page byte) ([]byte, error) {
	cdb := make([]byte, 16)
	cdb[0], cdb[2], cdb[4] = 0x12, page, 0xff
	if vital {
		cdb[1] = 1
	}
	return s.scsi(lun, cdb, 0xff, nil)
}

// scsi runs one command and returns what it reads. A unit attention is what a new session meets first; it is asked again.
func (s *Session) scsi(lun int, cdb []byte, readBytes int, write []byte) ([]byte, error) {
	for attempt := 0; ; attempt++ {
		data, sense, err := s.once(lun, cdb, readBytes, write)
		if err == nil && sense != nil {
			if sense[0] == 6 && attempt < 8 {
				continue
			}
			err = fmt.Errorf("the device answers with sense key %d, code %02x/%02x", sense[0], sense[1], sense[2])
		}
		return data, err
	}
}

// once returns what was read, or {sense key, code, qualifier} of a command that failed.
func (s *Session) once(lun int, cdb []byte, readBytes int, write []byte) ([]byte, []byte, error) {
	header := make([]byte, 48)
	header[0], header[1] = opSCSI, final|0x01
	size := readBytes
	if write != nil {
		header[1] |= 0x20
		size = len(write)
	} else if readBytes > 0 {
		header[1] |= 0x40
	}
	header[8], header[9] = byte(lun>>8)&0x3f, byte(lun)
	binary.BigEndian.PutUint32(header[20:], uint32(size))
	copy(header[32:], cdb)
	s.number(header)
	s.command++
	if err := s.write(header, write); err != nil {
		return nil, nil, err
	}
	var data []byte
	for {
		answer, part, err := s.read()
		if err != nil {
			return nil, nil, err
		}
		switch answer[0] & 0x3f {
		case opDataIn:
			data = append(data, part...)
			if answer[1]&0x01 != 0 && answer[3] == statusGood {
				return data, nil, nil
			}
		case opSCSIDone:
			if answer[2] != 0 || answer[3] == statusGood {
				return data, nil, responseError(answer[2])
			}
			if answer[3] == statusCheckCondition && len(part) >= 16 {
				return nil, []byte{part[4] & 0x0f, part[14], part[15]}, nil
			}
			return nil, nil, fmt.Errorf("the device answers with status %02x", answer[3])
		default:
			return nil, nil, fmt.Errorf("unexpected answer %02x to a SCSI command", answer[0]&0x3f)
		}
	}
}

func responseError(code byte) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("the target could not carry out the command (response %02x)", code)
}

func (s *Session) text(request string) (string, error) {
	header := make([]byte, 48)
	header[0], header[1] = opText, final
	binary.BigEndian.PutUint32(header[20:], 0xffffffff)
	s.number(header)
	s.command++
	if err := s.write(header, []byte(request)); err != nil {
		return "", err
	}
	answer, data, err := s.read()
	if err == nil && answer[0]&0x3f != opTextAns {
		err = fmt.Errorf("unexpected answer %02x to a text request", answer[0]&0x3f)
	}
	return string(data), err
}

// ---------------------------------------------------------------- login

func login(portal, initiator, target string, chap CHAP) (*Session, error) {
	conn, err := net.DialTimeout("tcp", portal, Patience)
	if err != nil {
		return nil, err
	}
	session := &Session{conn: conn, task: 1, command: 1}
	if err := session.negotiate(initiator, target, chap); err != nil {
		conn.Close()
		return nil, err
	}
	return session, nil
}

func (s *Session) negotiate(initiator, target string, chap CHAP) error {
	isid := make([]byte, 6)
	_, _ = rand.Read(isid)
	isid[0] = 0x80 // a random qualifier
	keys := []string{"InitiatorName=" + initiator, "SessionType=Discovery", "AuthMethod=None"}
	if target != "" {
		keys[1] = "SessionType=Normal"
		keys = append(keys, "TargetName="+target)
	}
	if chap.Name != "" {
		keys[2] = "AuthMethod=CHAP,None"
	}
	answer, err := s.loginStep(isid, securityStage, chap.Name == "", operationalStage, keys)
	if err != nil {
		return err
	}
	if answer.keys["AuthMethod"] == "CHAP" {
		if err := s.chap(isid, chap); err != nil {
			return err
		}
	} else if !answer.done {
		if _, err := s.loginStep(isid, securityStage, true, operationalStage, nil); err != nil {
			return err
		}
	}
	keys = []string{"HeaderDigest=None", "DataDigest=None", "MaxRecvDataSegmentLength=65536", "DefaultTime2Wait=0", "DefaultTime2Retain=0"}
	if target != "" {
		keys = append(keys, "InitialR2T=Yes", "ImmediateData=Yes", "MaxBurstLength=65536", "FirstBurstLength=65536", "MaxConnections=1",
			"MaxOutstandingR2T=1", "ErrorRecoveryLevel=0", "DataPDUInOrder=Yes", "DataSequenceInOrder=Yes")
	}
	for range 8 {
		answer, err := s.loginStep(isid, operationalStage, true, fullFeature, keys)
		if err != nil {
			return err
		}
		if answer.done {
			return nil
		}
		keys = nil
	}
	return errors.New("the target does not end the negotiation")
}

func (s *Session) chap(isid []byte, chap CHAP) error {
	if chap.Secret == "" {
		return fmt.Errorf("%w: it asks for CHAP and no secret is set", ErrRefused)
	}
	answer, err := s.loginStep(isid, securityStage, false, operationalStage, []string{"CHAP_A=5"})
	if err != nil {
		return err
	}
	challenge, err := unhex(answer.keys["CHAP_C"])
	if err != nil || answer.keys["CHAP_A"] != "5" {
		return fmt.Errorf("the target offers no CHAP with MD5: %v", answer.keys)
	}
	var id byte
	if _, err := fmt.Sscan(answer.keys["CHAP_I"], &id); err != nil {
		return fmt.Errorf("CHAP_I is %q", answer.keys["CHAP_I"])
	}
	keys := []string{"CHAP_N=" + chap.Name, "CHAP_R=0x" + hex.EncodeToString(proof(id, chap.Secret, challenge))}
	own := make([]byte, 16)
	if chap.MutualName != "" {
		_, _ = rand.Read(own)
		keys = append(keys, "CHAP_I=77", "CHAP_C=0x"+hex.EncodeToString(own))
	}
	answer, err = s.loginStep(isid, securityStage, true, operationalStage, keys)
	if err != nil || chap.MutualName == "" {
		return err
	}
	given, err := unhex(answer.keys["CHAP_R"])
	if err != nil || answer.keys["CHAP_N"] != chap.MutualName || !bytes.Equal(given, proof(77, chap.MutualSecret, own)) {
		return fmt.Errorf("%w: it cannot prove that it is %s (mutual CHAP)", ErrRefused, chap.MutualName)
	}
	return nil
}

func proof(id byte, secret string, challenge []byte) []byte {
	sum := md5.Sum(append(append([]byte{id}, secret...), challenge...))
	return sum[:]
}

func unhex(value string) ([]byte, error) {
	digits, found := strings.CutPrefix(strings.ToLower(value), "0x")
	if !found {
		return nil, fmt.Errorf("%q is not hexadecimal", value)
	}
	return hex.DecodeString(digits)
}

type loginAnswer struct {
	keys map[string]string
	done bool // the target moves on to the stage that was asked for
}

func (s *Session) loginStep(isid []byte, stage byte, transit bool, next byte, keys []string) (loginAnswer, error) {
	header := make([]byte, 48)
	header[0], header[1] = opLogin|immediate, stage<<2
	if transit {
		header[1] |= final | next
	}
	copy(header[8:], isid)
	// One task for the whole login, and a new session each time.
	binary.BigEndian.PutUint32(header[16:], s.task)
	binary.BigEndian.PutUint32(header[24:], s.command)
	binary.BigEndian.PutUint32(header[28:], s.state)
	var data []byte
	for _, key := range keys {
		data = append(append(data, key...), 0)
	}
	if err := s.write(header, data); err != nil {
		return loginAnswer{}, err
	}
	answer, text, err := s.read()
	if err != nil {
		return loginAnswer{}, err
	}
	if answer[0]&0x3f != opLoginAns {
		return loginAnswer{}, fmt.Errorf("unexpected answer %02x to a login", answer[0]&0x3f)
	}
	if class, detail := answer[36], answer[37]; class != 0 {
		return loginAnswer{}, fmt.Errorf("%w (status %02x%02x)", ErrRefused, class, detail)
	}
	found := loginAnswer{keys: map[string]string{}, done: answer[1]&final != 0}
	for _, pair := range strings.Split(string(text), "\x00") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			found.keys[key] = value
		}
	}
	return found, nil
}

// ---------------------------------------------------------------- the wire

func (s *Session) number(header []byte) {
	s.task++
	binary.BigEndian.PutUint32(header[16:], s.task)
	binary.BigEndian.PutUint32(header[24:], s.command)
	binary.BigEndian.PutUint32(header[28:], s.state)
}

func (s *Session) write(header, data []byte) error {
	header[5], header[6], header[7] = byte(len(data)>>16), byte(len(data)>>8), byte(len(data))
	message := append(header, data...)
	message = append(message, make([]byte, (4-len(data)%4)%4)...)
	_ = s.conn.SetDeadline(time.Now().Add(Patience))
	_, err := s.conn.Write(message)
	return err
}

func (s *Session) read() (header, data []byte, err error) {
	header = make([]byte, 48)
	_ = s.conn.SetDeadline(time.Now().Add(Patience))
	if _, err = io.ReadFull(s.conn, header); err != nil {
		return nil, nil, err
	}
	extra := int(header[4]) * 4
	length := int(header[5])<<16 | int(header[6])<<8 | int(header[7])
	data = make([]byte, extra+length+(4-length%4)%4)
	if _, err = io.ReadFull(s.conn, data); err != nil {
		return nil, nil, err
	}
	if header[0]&0x3f == opReject {
		return nil, nil, fmt.Errorf("the target rejects the request (reason %02x)", header[2])
	}
	// Data-In carries a status number only with its status.
	if header[0]&0x3f != opDataIn || header[1]&0x01 != 0 {
		s.state = binary.BigEndian.Uint32(header[24:]) + 1
	}
	return header, data[extra : extra+length], nil
}
