package peerport

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
)

// TestALearnerThatSaysNothingIsGivenUp: a stream ends when nothing has come on it for a minute, and both sides learn
// the reason. A stream on which messages come lives on.
func TestALearnerThatSaysNothingIsGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, hears)
		defer p.stop(t)
		link := dialPeer(t, p.network)
		if _, err := link.Recv(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range 5 {
			time.Sleep(learnerSilence - time.Second)
			if err := link.Send(session.LearnerMessage{Answer: &session.Answer{Round: 1, Last: true}}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := link.Recv()
		if got, want := time.Since(begun), 6*learnerSilence-5*time.Second; status.Code(err) != codes.DeadlineExceeded ||
			got != want {
			t.Errorf("ended with %v after %v, want %v", err, got, want)
		}
		if !strings.Contains(p.log.String(), "no message for 1m0s") {
			t.Errorf("the log does not say why:\n%s", p.log)
		}
	})
}

// TestAConnectionWithoutAStreamEnds: a connection that completes HTTP/2's handshake and opens no stream releases its
// slot.
func TestAConnectionWithoutAStreamEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, nil)
		defer p.stop(t)
		conn := plainConn(t, p.network)
		conn.Connect()
		synctest.Wait()
		if got := p.server.port.Stats().Connections; got != 1 {
			t.Fatalf("%d connections, want 1", got)
		}
		time.Sleep(peerIdle - time.Second)
		if got := p.server.port.Stats().Connections; got != 1 {
			t.Errorf("%d connections before the limit, want 1", got)
		}
		time.Sleep(3 * time.Second)
		if got := p.server.port.Stats().Connections; got != 0 {
			t.Errorf("%d connections after the limit, want 0", got)
		}
	})
}

// TestUnknownCallersEvictNoMember: connections that have not named a member are evicted for those that have, with or
// without a stream. They never evict a member's connection.
func TestUnknownCallersEvictNoMember(t *testing.T) {
	const most = 8
	follow := func(ctx context.Context, _ session.Hello, l LeaderLink) error {
		if err := welcome(l); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	bubble.Test(t, func(t *testing.T) {
		p := boundedPeerPort(t, follow, most)
		defer p.stop(t)
		flood := func() {
			for i := range 2 * most {
				conn := plainConn(t, p.network)
				conn.Connect()
				if i%2 == 0 {
					if _, err := peerv1.NewPeerServiceClient(conn).Follow(t.Context()); err != nil {
						t.Logf("stranger %d: %v", i, err)
					}
				}
				synctest.Wait()
			}
		}
		var members []*dial.PeerLink
		for range 4 {
			flood()
			members = append(members, dialPeer(t, p.network))
		}
		flood()
		for i, m := range members {
			if _, err := m.Recv(); err != nil { // its welcome
				t.Errorf("member %d: %v", i, err)
			}
			if err := m.Send(session.LearnerMessage{Answer: &session.Answer{Round: 1, Last: true}}); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := m.Recv()
				ended <- err
			}()
			synctest.Wait()
			select {
			case err := <-ended:
				t.Errorf("member %d: its stream has ended: %v", i, err)
			default:
			}
		}
		if got := p.server.port.Stats().Connections; got > most {
			t.Errorf("%d connections, of at most %d", got, most)
		}
		for _, m := range members {
			_ = m.Close()
		}
		synctest.Wait()
	})
}
