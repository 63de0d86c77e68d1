package client

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

func (n *fakeNode) up() {
	listener, server := bufconn.Listen(1<<16),
		grpc.NewServer(grpc.WaitForHandlers(true), grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
	holdfastv1.RegisterSessionServiceServer(server, n)
	holdfastv1.RegisterClusterServiceServer(server, n)
	n.c.set(func() { n.listener, n.server, n.streams = listener, server, make(map[*fakeStream]bool) })
	go func() { _ = server.Serve(listener) }() // ends with Stop
}

// down makes the node cut all connections and refuse new ones.
func (n *fakeNode) down() {
	var server *grpc.Server
	n.c.set(func() {
		server, n.server, n.listener = n.server, nil, nil
		for _, s := range n.c.sessions {
			if s.served != nil && n.streams[s.served] {
				s.served = nil
			}
		}
	})
	if server != nil {
		server.Stop()
	}
}

// cut makes the node cut all connections and accept new ones.
func (n *fakeNode) cut() {
	var former *grpc.Server
	n.c.set(func() { former = n.server })
	n.up()
	former.Stop()
}

// restart has the node's process die and come back: its local sessions are gone.
func (n *fakeNode) restart() {
	n.down()
	n.c.set(func() {
		for id, s := range n.c.sessions {
			if s.Local && s.Owner == n.number {
				delete(n.c.sessions, id)
			}
		}
	})
	n.up()
}

func (n *fakeNode) broadcast(m *holdfastv1.ServerMessage) {
	var streams []*fakeStream
	n.c.set(func() {
		m.State = n.stateProto()
		for s := range n.streams {
			streams = append(streams, s)
		}
	})
	for _, s := range streams {
		s.push(m)
	}
}

func (n *fakeNode) jeopardy(try ...string) {
	n.broadcast(
		&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Jeopardy{Jeopardy: &holdfastv1.Jeopardy{Try: try}},
		},
	)
}

func (n *fakeNode) jeopardyEnded() {
	n.broadcast(
		&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_JeopardyEnded{JeopardyEnded: &holdfastv1.JeopardyEnded{}},
		},
	)
}

// becomes changes the mode of a node, which notifies its clients at once, and waits until they have reacted.
func (n *fakeNode) becomes(mode session.Mode) {
	n.c.set(func() { n.state.Mode = mode })
	if mode == session.ModeReadWrite {
		n.jeopardyEnded()
	} else {
		n.jeopardy()
	}
	synctest.Wait()
}

// isIn sets the state in the node's next answers.
func (n *fakeNode) isIn(mode session.Mode, index uint64) {
	n.c.set(func() { n.state = session.NodeState{Mode: mode, Index: index} })
}

// silentFor has the node promise nothing for touches of that timeout, as long as the present connection serves s.
func (n *fakeNode) silentFor(s *Session, timeout time.Duration) {
	n.c.set(func() {
		former := n.c.sessions[s.ID()].served
		n.promise = func(smallest time.Duration) time.Duration {
			if smallest == timeout && n.c.sessions[s.ID()].served == former {
				return -1
			}
			return promised(smallest)
		}
	})
}

// answer has script decide what the node does with each request from now on: see fakeNode.script.
func (n *fakeNode) answer(script func(kind string) error) { n.c.set(func() { n.script = script }) }

// heal has the node do all requests again.
func (n *fakeNode) heal() { n.answer(nil) }

// refuseAll has the node refuse all requests with err, or swallow them as errMute and errMuteAfter say.
func (n *fakeNode) refuseAll(err error) { n.answer(func(string) error { return err }) }

// refuse is refuseAll for the requests of one kind.
func (n *fakeNode) refuse(kind string, err error) {
	n.answer(func(asked string) error {
		if asked == kind {
			return err
		}
		return nil
	})
}

// refuseFirst is refuseAll for the next few requests.
func (n *fakeNode) refuseFirst(requests int, err error) {
	n.answer(func(string) error {
		if requests--; requests >= 0 {
			return err
		}
		return nil
	})
}

// refuseResumes makes the node refuse the first resumes, each with err's result for its number from 0.
func (n *fakeNode) refuseResumes(first int, err func(i int) error) {
	i := 0
	n.answer(func(kind string) error {
		if kind != "resume" || i >= first {
			return nil
		}
		i++
		return err(i - 1)
	})
}

// slow makes the node need d for each request.
func (n *fakeNode) slow(d time.Duration) {
	n.answer(func(string) error { time.Sleep(d); return nil })
}

// dialled returns the times at which the node was dialled.
func (n *fakeNode) dialled() []time.Duration {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return slices.Clone(n.dials)
}

// record returns the requests received since the last call.
func (n *fakeNode) record() []string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	got := n.got
	n.got = nil
	return got
}

// count returns the number of requests of a kind received since the last call of record, count or when.
func (n *fakeNode) count(kind string) (count int) {
	for _, m := range n.record() {
		if strings.Contains(m, " "+kind) {
			count++
		}
	}
	return count
}

// when returns the times of the requests of a kind received since the last call of record, count or when.
func (n *fakeNode) when(t *testing.T, kind string) (at []time.Duration) {
	t.Helper()
	for _, g := range n.record() {
		moment, what, _ := strings.Cut(g, " ")
		if !strings.HasPrefix(what, kind) {
			continue
		}
		d, err := time.ParseDuration(moment)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, d)
	}
	return at
}
