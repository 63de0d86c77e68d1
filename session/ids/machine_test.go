package ids_test

import (
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

// What MyBatis-Plus 3 and Hutool 5.8 make of these: worked out apart from our code, with Java's String.hashCode.
func TestDeriveMachine(t *testing.T) {
	for _, tt := range []struct {
		mac                string
		pid                int
		datacenter, worker uint64
	}{
		{"02:42:ac:11:00:02", 1, 8, 25},
		{"02:42:ac:11:00:0a", 1, 8, 25}, // the container eight further on has the same
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

// alike is the probability that two of n have the same number, of a space of numbers evenly spread.
func alike(space float64, n int) float64 {
	different := 1.0
	for i := range n {
		different *= 1 - float64(i)/space
	}
	return 1 - different
}

// The figures of docs/ids.md about numbers that are derived or drawn.
func TestFiguresOfDerivedMachines(t *testing.T) {
	for _, tt := range []struct {
		space float64
		n     int
		want  float64
	}{{1024, 5, 0.0097}, {1024, 10, 0.0431}, {1024, 20, 0.1703}, {1024, 38, 0.5010}, {1024, 100, 0.9933}, {
		32,
		7, 0.5063,
	}} {
		if got := alike(tt.space, tt.n); math.Abs(got-tt.want) > 0.00005 {
			t.Errorf("%d of %v: %.4f, want %.4f", tt.n, tt.space, got, tt.want)
		}
	}
	if alike(1024, 37) >= 0.5 || alike(32, 6) >= 0.5 {
		t.Error("fewer are enough")
	}
	// Two machines of any MAC, with any process ids up to 32,768.
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
	for _, workers := range count {
		for _, n := range workers {
			same += n * n / (32 * pids * 32 * pids)
		}
	}
	if got := 1 / same; math.Abs(got-821) > 0.5 {
		t.Errorf("two machines have one number once in %.1f, want 821", got)
	}
	if got := math.Sqrt(2 * math.Ln2 / same); math.Abs(got-33.7) > 0.05 {
		t.Errorf("one half at %.1f machines, want 33.7", got)
	}
	// Two processes of one machine: 21 to 29 workers' worth of chance, not 32.
	least, most := math.Inf(1), 0.0
	for _, workers := range count {
		same := 0.0
		for _, n := range workers {
			same += n * n / (pids * pids)
		}
		least, most = min(least, 1/same), max(most, 1/same)
	}
	if math.Round(least) != 21 || math.Round(most) != 29 {
		t.Errorf("two processes of one machine have one number once in %.1f to %.1f", least, most)
	}
	// Containers of one Docker network, 172.17.0.2 and on, whose MAC ends like their address, and whose process id is
	// 1.
	numbers := map[ids.Machine]bool{}
	for last := 2; last < 255; last++ {
		m, err := ids.DeriveMachine(net.HardwareAddr{0x02, 0x42, 172, 17, 0, byte(last)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		numbers[m] = true
	}
	if len(numbers) != 8 {
		t.Errorf("253 containers have %d numbers, want 8", len(numbers))
	}
}
