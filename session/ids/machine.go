package ids

import (
	"fmt"
	"net"
	"strconv"

	"holdfast/session"
)

// Machine is the number of a maker of snowflakes. Two makers with the same one make the same ids.
type Machine struct {
	// Datacenter and Worker are 0 to MaxMachine.
	Datacenter, Worker uint64
}

func (m Machine) String() string {
	return fmt.Sprintf("datacenter %d, worker %d", m.Datacenter, m.Worker)
}

func (m Machine) check() error {
	if m.Datacenter > MaxMachine {
		return &session.FieldError{Field: "datacenter", Limit: machineLimit()}
	}
	if m.Worker > MaxMachine {
		return &session.FieldError{Field: "worker", Limit: machineLimit()}
	}
	return nil
}

func machineLimit() string { return fmt.Sprintf("0 to %d", MaxMachine) }

// DeriveMachine derives a machine's number from a MAC address and a process id the way MyBatis-Plus and Hutool do:
//
//   - The datacenter is (second last byte | last byte << 8) >> 6, modulo 32: its two low bits are the two high bits of
//     the second last byte of the MAC, its three high bits the three low bits of the last byte. The other 43 bits do
//     not count.
//   - The worker is Java's hash code of the datacenter's decimal digits followed by the process id's, its low 16 bits,
//     modulo 32.
//
// Nothing makes such a number unique. Of 32 * 32 numbers, 38 machines have two alike with a probability of one half,
// were they evenly spread; they are not: 31 is -1 modulo 32, so that the hash is the alternating sum of the digits. In
// containers the process id is 1, and one number of a worker is left to a datacenter: see docs/ids.md. Numbers from a
// configuration are better.
//
// A mac of less than 2 bytes is a [session.FieldError] of mac, a negative pid one of pid.
func DeriveMachine(mac net.HardwareAddr, pid int) (Machine, error) {
	if len(mac) < 2 {
		return Machine{}, &session.FieldError{Field: "mac", Limit: "at least 2 bytes"}
	}
	if pid < 0 {
		return Machine{}, &session.FieldError{Field: "pid", Limit: "not negative"}
	}
	low, high := uint64(mac[len(mac)-2]), uint64(mac[len(mac)-1])
	m := Machine{Datacenter: (low | high<<8) >> 6 & MaxMachine}
	m.Worker = javaHash(strconv.FormatUint(m.Datacenter, 10)+strconv.Itoa(pid)) & 0xffff & MaxMachine
	return m, nil
}

// javaHash is Java's String.hashCode of an ASCII string, modulo 2^64 instead of 2^32: the low bits are the same.
func javaHash(s string) uint64 {
	var h uint64
	for i := range len(s) {
		h = 31*h + uint64(s[i])
	}
	return h
}

// HardwareAddress returns the MAC address to derive a machine's number from: that of the interface with the lowest
// index among those that are up, are no loopback and have one. It fails when there is none.
func HardwareAddress(interfaces []net.Interface) (net.HardwareAddr, error) {
	var found *net.Interface
	for i := range interfaces {
		one := &interfaces[i]
		if one.Flags&net.FlagUp != 0 && one.Flags&net.FlagLoopback == 0 && len(one.HardwareAddr) >= 6 &&
			(found == nil || one.Index < found.Index) {
			found = one
		}
	}
	if found == nil {
		return nil, &session.FieldError{
			Field: "mac", Limit: "must come from a network interface that is up and has one",
		}
	}
	return found.HardwareAddr, nil
}
