package ids

import (
	"fmt"
	"net"
	"strconv"

	"holdfast/session"
)

// Machine is the number of a generator of snowflakes. Two generators with the same number make the same ids.
type Machine struct {
	// Datacenter and Worker are 0 to MaxMachine.
	Datacenter, Worker uint64
}

// String returns the number as text for people.
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
//   - The datacenter is (second last byte | last byte << 8) >> 6, modulo 32. Its two low bits are the two high bits of
//     the MAC's second last byte, and its three high bits the three low bits of the last byte. The other 43 bits of the
//     MAC do not count.
//   - The worker is Java's hash code of the datacenter's decimal digits followed by those of the process id: its low 16
//     bits, modulo 32.
//
// Nothing makes these numbers unique. If all 32 * 32 were equally likely, 38 machines would be enough for a probability
// of one half that two have the same number. They are not equally likely: 31 is -1 modulo 32, so the hash is the
// alternating sum of the digits. In containers the process id is 1, which leaves one worker to each datacenter: see
// docs/ids.md. Numbers from a configuration are better.
//
// The error is a [session.FieldError] of mac when mac has less than 2 bytes, or of pid when pid is negative.
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

// HardwareAddress returns the MAC address from which to derive a machine's number: that of the interface with the
// lowest index among those that have an address, are up and are no loopback. The error, when there is none, is a
// [session.FieldError] of mac.
func HardwareAddress(interfaces []net.Interface) (net.HardwareAddr, error) {
	var found *net.Interface
	for i := range interfaces {
		candidate := &interfaces[i]
		if candidate.Flags&net.FlagUp != 0 && candidate.Flags&net.FlagLoopback == 0 &&
			len(candidate.HardwareAddr) >= 6 && (found == nil || candidate.Index < found.Index) {
			found = candidate
		}
	}
	if found == nil {
		return nil, &session.FieldError{
			Field: "mac", Limit: "must come from a network interface that is up, and no such interface has one",
		}
	}
	return found.HardwareAddr, nil
}
