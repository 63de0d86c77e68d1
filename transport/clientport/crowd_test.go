package clientport

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/gate"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

func addressNumber(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}) }

// TestTheOldestIdleOfWhoHoldsMostMakesRoom: who comes when all places are taken gets that of a connection that serves
// nothing.
func TestTheOldestIdleOfWhoHoldsMostMakesRoom(t *testing.T) {
	c := port.Crowd{Limits: port.CrowdLimits{Connections: 10}}
	var many []*port.Seat
	for range 7 {
		s := &port.Seat{}
		if evicted, refused := c.Enter(s, addressNumber(1)); evicted != nil || refused != nil {
			t.Fatalf("%v makes room, refused %v, while there are places", evicted, refused)
		}
		many = append(many, s)
	}
	few := &port.Seat{}
	for i, s := range []*port.Seat{few, {}, {}} {
		if _, refused := c.Enter(s, addressNumber(2+i)); refused != nil {
			t.Fatal(refused)
		}
	}
	c.Engage(many[0])
	for i, want := range many[1:5] {
		if evicted, refused := c.Enter(&port.Seat{}, addressNumber(9+i)); evicted != want || refused != nil {
			t.Errorf("newcomer %d: %v made room, refused %v", i, evicted, refused)
		}
	}
	// Whoever holds most makes room for itself.
	if evicted, _ := c.Enter(&port.Seat{}, addressNumber(1)); evicted != many[5] {
		t.Errorf("%v made room for the one that holds most", evicted)
	}
	// Those that serve something keep their places.
	c = port.Crowd{Limits: port.CrowdLimits{Connections: 2}}
	first, second := &port.Seat{}, &port.Seat{}
	for i, s := range []*port.Seat{first, second} {
		c.Enter(s, addressNumber(i))
		c.Engage(s)
	}
	if evicted, refused := c.Enter(&port.Seat{}, addressNumber(3)); evicted != nil || refused == nil ||
		refused.Name != "max_connections" || refused.RetryAfter <= 0 {
		t.Errorf("%v made room, %v", evicted, refused)
	}
	c.Disengage(second)
	if evicted, refused := c.Enter(&port.Seat{}, addressNumber(0)); evicted != nil || refused == nil {
		t.Error("an address made room for one that holds as much")
	}
	third := &port.Seat{}
	if evicted, _ := c.Enter(third, addressNumber(1)); evicted != second {
		t.Errorf("%v made room for another of its address", evicted)
	}
	if evicted, _ := c.Enter(&port.Seat{}, addressNumber(3)); evicted != third {
		t.Errorf("%v made room for an address that holds nothing", evicted)
	}
}

// TestAnAddressGetsItsShare: one address gets three quarters, and leaves room for those that have few.
func TestAnAddressGetsItsShare(t *testing.T) {
	c := port.Crowd{Limits: port.CrowdLimits{Connections: 1000}}
	take := func(a netip.Addr) (got int) {
		for range 1000 {
			s := &port.Seat{}
			if _, refused := c.Enter(s, a); refused != nil {
				if refused.Name != "max_connections" {
					t.Errorf("refused by %s", refused.Name)
				}
				return got
			}
			c.Engage(s)
			got++
		}
		return got
	}
	for i, want := range []int{751, 188, 47, 11} {
		if got := take(addressNumber(i)); got < want-1 || got > want+1 {
			t.Errorf("address %d gets %d places, want about %d", i+1, got, want)
		}
	}
	if take(netip.Addr{}) == 0 {
		t.Error("no place is left for others")
	}
	// Whoever has no address has no share: a port that is not on a network.
	c = port.Crowd{Limits: port.CrowdLimits{Connections: 1000}}
	if got := take(netip.Addr{}); got != 1000 {
		t.Errorf("%d places of 1000 for connections without an address", got)
	}
}

// TestTheCrowdAddsUp: whatever comes and goes, counts and lists are those of the connections that have a place.
func TestTheCrowdAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := port.Crowd{Limits: port.CrowdLimits{
			Connections: rapid.IntRange(1, 12).Draw(t, "connections"),
			PerAddress:  rapid.IntRange(0, 5).Draw(t, "per address"),
			Calls:       rapid.IntRange(0, 12).Draw(t, "calls"),
		}}
		type held struct {
			seat    *port.Seat
			address netip.Addr
			calls   int
			engaged int
		}
		var in []*held
		gone := func(s *port.Seat) {
			if i := slices.IndexFunc(in, func(h *held) bool { return h.seat == s }); s != nil {
				if in[i].engaged > 0 {
					t.Fatal("a connection that serves something made room")
				}
				in = slices.Delete(in, i, i+1)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			what := rapid.IntRange(0, 6).Draw(t, "what")
			if what <= 1 || len(in) == 0 {
				h := &held{seat: &port.Seat{}, address: addressNumber(rapid.IntRange(0, 3).Draw(t, "address"))}
				evicted, refused := c.Enter(h.seat, h.address)
				gone(evicted)
				if refused == nil {
					in = append(in, h)
				}
			} else {
				h := rapid.SampledFrom(in).Draw(t, "connection")
				switch {
				case what == 2:
					c.Leave(h.seat)
					in = slices.DeleteFunc(in, func(o *held) bool { return o == h })
				case what == 3:
					evicted, _ := c.Begin(h.seat)
					if evicted == h.seat {
						t.Fatal("a connection made room for its own call")
					}
					gone(evicted)
					h.calls++
				case what == 4 && h.calls > 0:
					h.calls--
					if last := c.Finish(h.seat); last != (h.calls == 0) {
						t.Fatalf("last call: %t with %d left", last, h.calls)
					}
				case what == 5:
					c.Engage(h.seat)
					h.engaged++
				case what == 6 && h.engaged > 0:
					c.Disengage(h.seat)
					h.engaged--
				}
			}
			spare := 0
			calls, of, idle := 0, map[netip.Addr]int{}, map[netip.Addr]int{}
			for _, h := range in {
				calls += h.calls
				of[h.address]++
				if h.engaged == 0 {
					idle[h.address]++
					spare += max(h.calls-1, 0)
				}
			}
			if connections, got := c.Open(); connections != len(in) || got != calls ||
				connections > c.Limits.Connections {
				t.Fatalf("%d connections and %d calls are counted, there are %d and %d", connections, got, len(in),
					calls)
			}
			if c.Spare != spare {
				t.Fatalf("idle connections have %d calls beyond one each, %d are counted", spare, c.Spare)
			}
			if len(c.Addresses) != len(of) || len(c.Idle) != len(idle) {
				t.Fatalf("%d addresses, %d of them with idle connections; want %d and %d", len(c.Addresses),
					len(c.Idle), len(of), len(idle))
			}
			for a, n := range c.Addresses {
				listed := 0
				for s := n.Oldest; s != nil; s = s.Newer {
					listed++
				}
				if n.Connections != of[a] || listed != idle[a] ||
					c.Limits.PerAddress > 0 && n.Connections > c.Limits.PerAddress {
					t.Fatalf("%v: %d connections, %d idle; want %d and %d", a, n.Connections, listed, of[a], idle[a])
				}
				if len(c.Idle) > 0 && listed > 0 && n.Places() > c.Idle[0].Places() {
					t.Fatal("the first of the idlers does not hold most")
				}
			}
		}
	})
}

// TestIdleConnectionsLockNobodyOut: connections that open no stream, or one that serves nothing, took every place for
// good.
func TestIdleConnectionsLockNobodyOut(t *testing.T) {
	const most = 20
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{MaxConnections: most}, &fakeService{})
		defer stop()
		stays := holding(t, network, 7)
		for n := range 2 * most {
			h := reading(t, network)
			if n%2 == 0 {
				_ = h.say(h.call(holdfastv1.SessionService_Connect_FullMethodName), touchMessage(1))
			}
			synctest.Wait()
		}
		comes := connected(t, network)
		send(t, comes, touchMessage(1))
		if receive(t, comes).GetTouched() == nil {
			t.Error("a client that came after idle ones is not served")
		}
		send(t, stays, touchMessage(2))
		if receive(t, stays).GetTouched() == nil {
			t.Error("a client with a session lost its place to idle ones")
		}
		if got := s.Stats(); got.Connections != most || got.Refused != 0 || got.Evicted != most+2 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestWhyThereIsNoPlace: some of those that are refused are told why, in an answer to their call; the rest is closed at
// once.
func TestWhyThereIsNoPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{MaxConnections: 1}, &fakeService{})
		defer stop()
		holding(t, network, 7)

		_, err := connected(t, network).Recv()
		if limit, ok := errors.AsType[*session.LimitError](wire.Domain(err)); !ok || limit.Name != "max_connections" ||
			limit.Limit != "1" || limit.RetryAfter <= 0 {
			t.Errorf("Connect: %v", err)
		}
		_, err = holdfastv1.NewClusterServiceClient(dialPipes(t, network)).GetStatus(t.Context(),
			&holdfastv1.GetStatusRequest{})
		if status.Code(err) != codes.ResourceExhausted || limitNamed(err) != "max_connections" {
			t.Errorf("GetStatus: %v", err)
		}
		for range port.MaxTold {
			conn, err := network.Dial(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			synctest.Wait()
		}
		if got := s.port.Told.Load(); got != port.MaxTold {
			t.Errorf("%d connections are served to be told why, want %d", got, port.MaxTold)
		}
		if err := porttest.Sleep(t.Context(), port.ToldWait+time.Second); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats(); s.port.Told.Load() != 0 || got.Connections != 1 || got.Refused != port.MaxTold+2 {
			t.Errorf("%d are still told why, stats %+v", s.port.Told.Load(), got)
		}
	})
}

// TestConnectionsPerAddress: an address that has as many as it may has its own idle one make room, or is refused.
func TestConnectionsPerAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Gate: gate.Config{ConnectionsPerAddress: 1}}, &fakeService{})
		defer stop()
		idle := speaking(t, network)
		holding(t, network, 7)
		if _, err := idle.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the idle connection of the address: %v", err)
		}
		if _, err := connected(t, network).Recv(); limitNamed(err) != "max_connections_per_address" {
			t.Errorf("a second one beside one that serves: %v", err)
		}
		if got := s.Stats(); got.Crowded != 1 || got.Refused != 1 || got.Evicted != 1 || got.Connections != 1 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestCallsThatSayNothing: a call has a bounded time for its first message. gRPC itself waits for that of a unary one
// for ever.
func TestCallsThatSayNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		silent := connected(t, network)
		h := reading(t, network)
		for range 32 {
			h.call(holdfastv1.SessionService_TouchSessions_FullMethodName)
			h.call(holdfastv1.SessionService_Connect_FullMethodName)
		}
		speaks := speaking(t, network)
		synctest.Wait()
		if got := s.Stats().Calls; got != 66 {
			t.Errorf("%d calls are under way, want 66", got)
		}
		if err := porttest.Sleep(t.Context(), port.FirstMessageWait+time.Second); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats(); got.Calls != 1 || got.Streams != 1 {
			t.Errorf("stats %+v, want the one that spoke", got)
		}
		if _, err := silent.Recv(); limitNamed(err) != "first_message_wait" {
			t.Errorf("the silent stream ended with %v", err)
		}
		send(t, speaks, touchMessage(2))
		receive(t, speaks)
	})
}

// TestStreamsOfTheNode: the streams of all connections are bounded, and those that serve nothing make room.
func TestStreamsOfTheNode(t *testing.T) {
	const most = 100
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{MaxCalls: most}, &fakeService{})
		defer stop()
		holds := holding(t, network, 7)
		for range 5 {
			h := reading(t, network)
			for range 64 {
				_ = h.say(h.call(holdfastv1.SessionService_Connect_FullMethodName), touchMessage(1))
				synctest.Wait()
				// one of each connection, and one that is being refused
				if got := s.Stats().Calls; got > most/port.SparePart+7 {
					t.Fatalf("%d calls are under way", got)
				}
			}
		}
		speaking(t, network)
		send(t, holds, touchMessage(2))
		receive(t, holds)
		if got := s.Stats(); got.Evicted == 0 {
			t.Errorf("stats %+v, want idle connections to have made room", got)
		}
	})
	// None is idle: whoever comes is refused.
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{MaxCalls: 2}, &fakeService{})
		defer stop()
		for id := range session.ID(2) {
			holding(t, network, id+1)
		}
		c := dialPipes(t, network)
		stream, err := holdfastv1.NewSessionServiceClient(c).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); limitNamed(err) != "max_streams" {
			t.Errorf("a third stream: %v", err)
		}
		_, err = holdfastv1.NewClusterServiceClient(c).GetStatus(context.Background(), &holdfastv1.GetStatusRequest{})
		if limitNamed(err) != "max_streams" {
			t.Errorf("a third call: %v", err)
		}
		if got := s.Stats(); got.RefusedCalls != 2 || got.Calls != 2 {
			t.Errorf("stats %+v", got)
		}
	})
}
