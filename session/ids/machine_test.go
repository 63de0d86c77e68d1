package ids_test

import (
	"fmt"
	"math"
	"net"
	"slices"
	"testing"

	"holdfast/session/ids"
)

func derive(t *testing.T, mac string, pid int) ids.Machine {
	t.Helper()
	address, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ids.DeriveMachine(address, pid)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The wanted numbers are those of MyBatis-Plus 3 and Hutool 5.8, computed without this package's code, with Java's
// String.hashCode.
func TestDeriveMachine(t *testing.T) {
	for _, tt := range []struct {
		mac                string
		pid                int
		datacenter, worker uint64
	}{
		{"02:42:ac:11:00:02", 1, 8, 25},
		{"02:42:ac:11:00:0a", 1, 8, 25}, // eight containers after the first: the same number
		{"00:16:3e:5f:a1:c7", 4711, 30, 0},
		{"f4:5c:89:ab:cd:ef", 4194304, 31, 1},
		{"ff:ff:ff:ff:ff:ff", 32768, 31, 28},
		{"00:00:00:00:00:00", 0, 0, 0},
	} {
		if got := derive(t, tt.mac, tt.pid); got != (ids.Machine{Datacenter: tt.datacenter, Worker: tt.worker}) {
			t.Errorf("%s, %d: %v, want datacenter %d, worker %d", tt.mac, tt.pid, got, tt.datacenter, tt.worker)
		}
	}
	_, err := ids.DeriveMachine(net.HardwareAddr{1}, 1)
	wantField(t, err, "mac")
	_, err = ids.DeriveMachine(net.HardwareAddr{1, 2}, -1)
	wantField(t, err, "pid")
}

func TestHardwareAddress(t *testing.T) {
	mac := func(last byte) net.HardwareAddr { return net.HardwareAddr{0, 0, 0, 0, 0, last} }
	interfaces := []net.Interface{
		{Index: 9, Flags: net.FlagUp, HardwareAddr: mac(9)},
		{Index: 1, Flags: net.FlagUp | net.FlagLoopback, HardwareAddr: mac(1)},
		{Index: 2, HardwareAddr: mac(2)},
		{Index: 3, Flags: net.FlagUp},
		{Index: 5, Flags: net.FlagUp, HardwareAddr: mac(5)},
	}
	if got, err := ids.HardwareAddress(interfaces); err != nil || !slices.Equal(got, mac(5)) {
		t.Errorf("got %v, %v, want %v", got, err, mac(5))
	}
	_, err := ids.HardwareAddress(interfaces[1:4])
	wantField(t, err, "mac")
}

// machineNumbers is how many numbers of machines there are.
const machineNumbers = (ids.MaxMachine + 1) * (ids.MaxMachine + 1)

// alike is the probability that two of n have the same number, when space numbers are equally likely.
func alike(space float64, n int) float64 {
	different := 1.0
	for i := range n {
		different *= 1 - float64(i)/space
	}
	return 1 - different
}

// docs/ids.md says how likely two of n machines have one number if all 1,024 numbers are equally likely.
func TestDocumentOfEvenNumbers(t *testing.T) {
	machines, probabilities := "| machines |", "| probability |"
	for _, n := range []int{5, 10, 20, 38, 100} {
		p := 100 * alike(machineNumbers, n)
		digits := 0
		if p < 10 || p > 99 {
			digits = 1
		}
		machines += fmt.Sprintf(" %d |", n)
		probabilities += fmt.Sprintf(" %.*f %% |", digits, p)
	}
	wantInDocument(t, machines, probabilities)
}

// docs/ids.md says how often two machines or processes have one derived number, and how many machines are enough for a
// probability of one half.
func TestDocumentOfDerivedNumbers(t *testing.T) {
	// All MAC addresses, with all process ids up to 32,768.
	const pids = 32768
	var count [32][32]float64
	for datacenter := range 32 {
		mac := net.HardwareAddr{byte(datacenter) << 6, byte(datacenter) >> 2}
		for pid := 1; pid <= pids; pid++ {
			m, err := ids.DeriveMachine(mac, pid)
			if err != nil || m.Datacenter != uint64(datacenter) {
				t.Fatalf("%v: %v, %v", mac, m, err)
			}
			count[m.Datacenter][m.Worker]++
		}
	}
	same := 0.0
	least, most := math.Inf(1), 0.0
	for _, workers := range count {
		sameProcess := 0.0
		for _, n := range workers {
			same += n * n / (32 * pids * 32 * pids)
			sameProcess += n * n / (pids * pids)
		}
		least, most = min(least, 1/sameProcess), max(most, 1/sameProcess)
	}
	wantInDocument(t,
		fmt.Sprintf("two machines have the same number once in %.0f instead of once in %s", 1/same,
			thousands(machineNumbers)),
		fmt.Sprintf("So %.0f machines are enough for a probability of one half", math.Ceil(math.Sqrt(2*math.Ln2/same))),
		fmt.Sprintf("Two processes of one machine have the same number once in %.0f to %.0f instead of once in %d", least,
			most, ids.MaxMachine+1),
	)
}

// docs/ids.md says how many numbers containers have, whose process id is 1: in all, and on Docker's default network,
// where the MAC address ends like the IP address.
func TestDocumentOfContainers(t *testing.T) {
	numbers := func(macs []net.HardwareAddr) int {
		seen := map[ids.Machine]bool{}
		for _, mac := range macs {
			m, err := ids.DeriveMachine(mac, 1)
			if err != nil {
				t.Fatal(err)
			}
			seen[m] = true
		}
		return len(seen)
	}
	var all, network []net.HardwareAddr
	for low := range 256 {
		for high := range 256 {
			all = append(all, net.HardwareAddr{0x02, 0x42, 172, 17, byte(high), byte(low)})
		}
	}
	for last := 2; last < 255; last++ {
		network = append(network, net.HardwareAddr{0x02, 0x42, 172, 17, 0, byte(last)})
	}
	inAll, half := numbers(all), 1
	for alike(float64(inAll), half) < 0.5 {
		half++
	}
	wantInDocument(t,
		fmt.Sprintf("leaves one worker to each datacenter: %d numbers in all. %d containers are enough for one half", inAll,
			half),
		fmt.Sprintf("only its three low bits change: **%d numbers**", numbers(network)),
	)
}
