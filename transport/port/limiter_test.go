package port

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func addressNumber(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}) }

// TestTheLongestIdleIsEvicted: when all slots are in use, a newcomer gets the slot of the longest idle connection of
// the address that holds most.
func TestTheLongestIdleIsEvicted(t *testing.T) {
	l := limiter{limits: Limits{Connections: 10}}
	var many []*slot
	for range 7 {
		s := &slot{}
		if evicted, refused := l.enter(s, addressNumber(1)); evicted != nil || refused != nil {
			t.Fatalf("%v was evicted, refused %v, while slots are free", evicted, refused)
		}
		many = append(many, s)
	}
	few := &slot{}
	for i, s := range []*slot{few, {}, {}} {
		if _, refused := l.enter(s, addressNumber(2+i)); refused != nil {
			t.Fatal(refused)
		}
	}
	l.setBusy(many[0])
	for i, want := range many[1:5] {
		if evicted, refused := l.enter(&slot{}, addressNumber(9+i)); evicted != want || refused != nil {
			t.Errorf("newcomer %d: evicted %v, refused %v", i, evicted, refused)
		}
	}
	// The address that holds most has its own idle connection evicted.
	if evicted, _ := l.enter(&slot{}, addressNumber(1)); evicted != many[5] {
		t.Errorf("%v was evicted for the address that holds most", evicted)
	}
	// Busy connections keep their slots.
	l = limiter{limits: Limits{Connections: 2}}
	first, second := &slot{}, &slot{}
	for i, s := range []*slot{first, second} {
		l.enter(s, addressNumber(i))
		l.setBusy(s)
	}
	if evicted, refused := l.enter(&slot{}, addressNumber(3)); evicted != nil || refused == nil ||
		refused.Name != "max_connections" || refused.RetryAfter <= 0 {
		t.Errorf("evicted %v, refused %v", evicted, refused)
	}
	l.setIdle(second)
	if evicted, refused := l.enter(&slot{}, addressNumber(0)); evicted != nil || refused == nil {
		t.Error("an address lost a connection to an address that holds as much")
	}
	third := &slot{}
	if evicted, _ := l.enter(third, addressNumber(1)); evicted != second {
		t.Errorf("%v was evicted for a connection of the same address", evicted)
	}
	if evicted, _ := l.enter(&slot{}, addressNumber(3)); evicted != third {
		t.Errorf("%v was evicted for an address that holds nothing", evicted)
	}
}

// TestAnAddressGetsItsShare: one address gets three quarters of the slots, and leaves slots for addresses that hold
// few.
func TestAnAddressGetsItsShare(t *testing.T) {
	l := limiter{limits: Limits{Connections: 1000}}
	take := func(a netip.Addr) (got int) {
		for range 1000 {
			s := &slot{}
			if _, refused := l.enter(s, a); refused != nil {
				if refused.Name != "max_connections" {
					t.Errorf("refused by %s", refused.Name)
				}
				return got
			}
			l.setBusy(s)
			got++
		}
		return got
	}
	for i, want := range []int{751, 188, 47, 11} {
		if got := take(addressNumber(i)); got < want-1 || got > want+1 {
			t.Errorf("address %d gets %d slots, want about %d", i+1, got, want)
		}
	}
	if take(netip.Addr{}) == 0 {
		t.Error("no slot is left for others")
	}
	// Connections without an address have no share: the port is not on a network.
	l = limiter{limits: Limits{Connections: 1000}}
	if got := take(netip.Addr{}); got != 1000 {
		t.Errorf("%d slots of 1000 for connections without an address", got)
	}
}

// TestTheLimiterAddsUp: after any sequence of steps, counts and lists match the connections that have a slot.
func TestTheLimiterAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limiter{limits: Limits{
			Connections:           rapid.IntRange(1, 12).Draw(t, "connections"),
			ConnectionsPerAddress: rapid.IntRange(0, 5).Draw(t, "per address"),
			Calls:                 rapid.IntRange(0, 12).Draw(t, "calls"),
		}}
		type connection struct {
			slot    *slot
			address netip.Addr
			calls   int
			busy    int
		}
		var in []*connection
		gone := func(s *slot) {
			if i := slices.IndexFunc(in, func(h *connection) bool { return h.slot == s }); s != nil {
				if in[i].busy > 0 {
					t.Fatal("a busy connection was evicted")
				}
				in = slices.Delete(in, i, i+1)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			what := rapid.IntRange(0, 6).Draw(t, "what")
			if what <= 1 || len(in) == 0 {
				h := &connection{slot: &slot{}, address: addressNumber(rapid.IntRange(0, 3).Draw(t, "address"))}
				evicted, refused := l.enter(h.slot, h.address)
				gone(evicted)
				if refused == nil {
					in = append(in, h)
				}
			} else {
				h := rapid.SampledFrom(in).Draw(t, "connection")
				switch {
				case what == 2:
					l.free(h.slot)
					in = slices.DeleteFunc(in, func(o *connection) bool { return o == h })
				case what == 3:
					evicted, _ := l.beginCall(h.slot)
					if evicted == h.slot {
						t.Fatal("a connection was evicted for its own call")
					}
					gone(evicted)
					h.calls++
				case what == 4 && h.calls > 0:
					h.calls--
					if last := l.endCall(h.slot); last != (h.calls == 0) {
						t.Fatalf("last call: %t with %d left", last, h.calls)
					}
				case what == 5:
					l.setBusy(h.slot)
					h.busy++
				case what == 6 && h.busy > 0:
					l.setIdle(h.slot)
					h.busy--
				}
			}
			spare := 0
			calls, of, idle := 0, map[netip.Addr]int{}, map[netip.Addr]int{}
			for _, h := range in {
				calls += h.calls
				of[h.address]++
				if h.busy == 0 {
					idle[h.address]++
					spare += max(h.calls-1, 0)
				}
			}
			if connections, got := l.open(); connections != len(in) || got != calls ||
				connections > l.limits.Connections {
				t.Fatalf("%d connections and %d calls are counted, there are %d and %d", connections, got, len(in),
					calls)
			}
			if l.spare != spare {
				t.Fatalf("idle connections have %d calls beyond one each, %d are counted", spare, l.spare)
			}
			if len(l.addresses) != len(of) || len(l.idle) != len(idle) {
				t.Fatalf("%d addresses, %d of them with idle connections; want %d and %d", len(l.addresses),
					len(l.idle), len(of), len(idle))
			}
			for a, u := range l.addresses {
				listed := 0
				for s := u.oldest; s != nil; s = s.newer {
					listed++
				}
				if u.connections != of[a] || listed != idle[a] ||
					l.limits.ConnectionsPerAddress > 0 && u.connections > l.limits.ConnectionsPerAddress {
					t.Fatalf("%v: %d connections, %d idle; want %d and %d", a, u.connections, listed, of[a], idle[a])
				}
				if len(l.idle) > 0 && listed > 0 && u.total() > l.idle[0].total() {
					t.Fatal("the first address of the heap does not hold most")
				}
			}
		}
	})
}
