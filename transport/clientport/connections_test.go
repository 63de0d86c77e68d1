package clientport

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// TestIdleConnectionsLockNoClientOut: connections without a stream, or with a stream that serves nothing, must not
// occupy every slot for good.
func TestIdleConnectionsLockNoClientOut(t *testing.T) {
	const most = 20
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{Connections: most}}, &fakeService{})
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
			t.Error("a client is not served after many idle ones")
		}
		send(t, stays, touchMessage(2))
		if receive(t, stays).GetTouched() == nil {
			t.Error("a client with a session was evicted for idle ones")
		}
		if got := s.Stats(); got.Connections != most || got.Refused != 0 || got.Evicted != most+2 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestRefusedConnectionsLearnWhy: some refused connections are served for a moment, and their calls are refused with
// the reason. The others are closed at once.
func TestRefusedConnectionsLearnWhy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{Connections: 1}}, &fakeService{})
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
		// Two are served already, by the calls above.
		var conns []net.Conn
		for range port.MaxRefusing {
			conn, err := network.Dial(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conns = append(conns, conn)
			synctest.Wait()
		}
		for i, conn := range conns {
			if got, want := isOpen(conn), i < port.MaxRefusing-2; got != want {
				t.Errorf("refused connection %d is open: %t, want %t", i+1, got, want)
			}
		}
		time.Sleep(port.RefusingWait + time.Second)
		for i, conn := range conns {
			if isOpen(conn) {
				t.Errorf("refused connection %d is open for more than %v", i+1, port.RefusingWait)
			}
		}
		if got := s.Stats(); got.Connections != 1 || got.Refused != port.MaxRefusing+2 {
			t.Errorf("stats %+v", got)
		}
	})
}

// isOpen reports whether the other end of a pipe is open: a pipe whose other end is closed accepts no deadline.
func isOpen(conn net.Conn) bool { return conn.SetReadDeadline(time.Now()) == nil }

// TestConnectionsPerAddress: at its own limit, an address has its idle connection evicted, or the new one is refused.
func TestConnectionsPerAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{ConnectionsPerAddress: 1}}, &fakeService{})
		defer stop()
		idle := speaking(t, network)
		holding(t, network, 7)
		if _, err := idle.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the idle connection of the address: %v", err)
		}
		if _, err := connected(t, network).Recv(); limitNamed(err) != "max_connections_per_address" {
			t.Errorf("a second connection beside a busy one: %v", err)
		}
		if got := s.Stats(); got.RefusedPerAddress != 1 || got.Refused != 1 || got.Evicted != 1 || got.Connections != 1 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestCallsThatSayNothing: the time for the first message of a call is bounded. gRPC itself waits for that of a unary
// call for ever.
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
		time.Sleep(port.FirstMessageWait + time.Second)
		if got := s.Stats(); got.Calls != 1 || got.Streams != 1 {
			t.Errorf("stats %+v, want the call that has sent a message", got)
		}
		if _, err := silent.Recv(); limitNamed(err) != "first_message_timeout" {
			t.Errorf("the silent stream ended with %v", err)
		}
		send(t, speaks, touchMessage(2))
		receive(t, speaks)
	})
}

// TestStreamsOfTheNode: the streams of all connections together are bounded, and idle connections are evicted for
// others.
func TestStreamsOfTheNode(t *testing.T) {
	const most = 100
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{Calls: most}}, &fakeService{})
		defer stop()
		holds := holding(t, network, 7)
		for range 5 {
			h := reading(t, network)
			for range 64 {
				_ = h.say(h.call(holdfastv1.SessionService_Connect_FullMethodName), touchMessage(1))
				synctest.Wait()
				// one call of each connection, and one that is being refused
				if got := s.Stats().Calls; got > most/8+7 {
					t.Fatalf("%d calls are under way", got)
				}
			}
		}
		speaking(t, network)
		send(t, holds, touchMessage(2))
		receive(t, holds)
		if got := s.Stats(); got.Evicted == 0 {
			t.Errorf("stats %+v, want idle connections evicted", got)
		}
	})
	// When no connection is idle, newcomers are refused.
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Limits: port.Limits{Calls: 2}}, &fakeService{})
		defer stop()
		for id := range session.ID(2) {
			holding(t, network, id+1)
		}
		c := dialPipes(t, network)
		stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(c).Connect(t.Context()))
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
		synctest.Wait() // a refused call counts until its goroutine has ended
		if got := s.Stats(); got.RefusedCalls != 2 || got.Calls != 2 {
			t.Errorf("stats %+v", got)
		}
	})
}
