package conn

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

const testMinBackoff = 50 * time.Millisecond

// user uses connections in a test: for nothing, or for one session.
type user struct {
	idle           bool
	held           Held
	clusterChanged int
}

func (u *user) Idle() bool                                  { return u.idle }
func (u *user) Held() Held                                  { return u.held }
func (u *user) NeedsLeader(*Conn) bool                      { return true }
func (u *user) Serves(*Conn) bool                           { return true }
func (u *user) TooLate(*window.Request, time.Duration) bool { return false }
func (u *user) CandidateUp(*Conn)                           {}
func (u *user) ResumeSessions()                             {}
func (u *user) SendOpens()                                  {}
func (u *user) Dropped(*Conn, error)                        {}
func (u *user) Denied(error)                                {}
func (u *user) Jeopardy(*Conn, error)                       {}
func (u *user) ReadOnly(*Conn)                              {}
func (u *user) ReadsEnded(*Conn)                            {}
func (u *user) ClusterChanged()                             { u.clusterChanged++ }
func (u *user) SignOfLife(*Conn) Body                       { return request{} }

// request is a request of a test.
type request struct{}

func (request) Wanted() bool { return true }
func (request) Message(uint64) *holdfastv1.ClientMessage {
	return new(holdfastv1.ClientMessage)
}

// newTest returns a manager with a current connection, and a user with one session of 10 s.
func newTest(servers ...string) (*Manager, *Conn, *user) {
	if len(servers) == 0 {
		servers = []string{"n1:7400"}
	}
	m := New(Config{
		Servers: servers, OnlyServers: true, ConnectTimeout: 2 * time.Second, HedgeDelay: 250 * time.Millisecond,
		Jitter: route.NewJitter(rand.NewPCG(1, 2), testMinBackoff, 2*time.Second),
	})
	u := &user{held: Held{Sessions: 1, Timeout: 10 * time.Second}}
	m.SetUser(u, u)
	m.SetTime(time.Now(), 0)
	m.current = m.to("n1:7400")
	m.current.up, m.current.deadline = true, time.Time{}
	return m, m.current, u
}

// to returns a connection to a server.
func (m *Manager) to(server string) *Conn {
	return m.newConn(route.Target{Server: server, Address: server}, time.Minute)
}

// move makes a connection to a server the candidate.
func (m *Manager) move(server string) *Conn {
	m.candidate = m.to(server)
	m.candidate.up, m.router.Moving = true, true
	return m.candidate
}

// A list that arrives while a client moves because of the former list counts from the destination of the move (spec
// 10.5). Otherwise two updates in a row would move the client twice.
func TestUpdateDuringAMoveCountsFromTheDestination(t *testing.T) {
	for name, set := range map[string]func(*Manager){
		"planned": func(m *Manager) { m.router.Left = []route.Target{{Server: "n4:7400"}, {Server: "n5:7400"}} },
		"dialed":  func(m *Manager) { m.dialing = []*Conn{m.to("n4:7400")} },
		"asked":   func(m *Manager) { m.candidate = m.to("n4:7400") },
	} {
		t.Run(name, func(t *testing.T) {
			m, c, _ := newTest("n1:7400", "n4:7400", "n5:7400")
			if got := m.destination(); got != "n1:7400" {
				t.Fatalf("the destination without a move is %s, want n1", got)
			}
			c.failing, m.router.Moving = errRebalanced, true
			set(m)
			if got := m.destination(); got != "n4:7400" {
				t.Fatalf("the destination is %s, want n4", got)
			}
			candidate, dialing := m.candidate, len(m.dialing)
			m.UpdateServers([]string{"n1:7400", "n4:7400"}) // n4 stays, so the move continues
			if m.candidate != candidate || len(m.dialing) != dialing || !m.router.Moving ||
				slices.ContainsFunc(m.router.Left, func(t route.Target) bool { return t.Server == "n5:7400" }) {
				t.Errorf("the move was given up, or goes to a removed server: %+v", m.router)
			}
			m.UpdateServers([]string{"n1:7400", "n2:7400"}) // n4 is removed
			if m.candidate != nil || len(m.dialing) > 0 || !m.router.Moving || len(m.router.Left) != 1 ||
				m.router.Left[0].Server != "n2:7400" {
				t.Errorf("servers left to try: %+v, want the new server", m.router.Left)
			}
		})
	}
}

// The rest of a round is forgotten, because the members of the cluster or the servers are others by now. The round ends
// all the same, and the next one comes after a back-off.
func TestARoundOfForgottenServersEnds(t *testing.T) {
	for name, forget := range map[string]func(*Manager){
		"members": func(m *Manager) { m.RecordMembers([]string{"n1:7400"}) },
		"servers": func(m *Manager) { m.UpdateServers([]string{"n1:7400"}) },
	} {
		t.Run(name, func(t *testing.T) {
			m, c, u := newTest()
			u.held.Timeout = time.Hour
			c.failing = session.ErrNoLeader
			if name == "members" {
				m.router.Learn([]string{"n2:7400"})
			} else {
				m.router.Servers = []string{"n1:7400", "n2:7400"}
			}
			m.router.Plan([]string{"n2:7400"})
			m.router.Moving, m.router.At = true, m.now.Add(time.Hour)
			forget(m)
			m.Advance()
			if m.router.Begun || m.WakeAt().Sub(m.now) > testMinBackoff {
				t.Fatalf("begun: %v, the next turn is due in %v, want the round over and a back-off", m.router.Begun,
					m.WakeAt().Sub(m.now))
			}
			m.SetTime(m.WakeAt(), 0)
			m.Advance()
			if a := m.Effects.Actions; len(a) != 1 || a[0].Do != Dial || a[0].Conn.Server != "n1:7400" {
				t.Errorf("actions of the next round: %+v", a)
			}
		})
	}
}

// A client asks for the members again after a failure.
func TestMembersAreAskedForAgainAfterAFailure(t *testing.T) {
	m, _, _ := newTest()
	m.RecordMembers([]string{"n5:7400"})
	if want := []string{"n5:7400"}; !m.membersKnown || !slices.Equal(m.Effects.Learnt, want) {
		t.Errorf("learnt %q, want %q", m.Effects.Learnt, want)
	}
	m.MembersFailed()
	if in := m.askMembersAt.Sub(m.now); in < AskMembersAgain || in > 2*AskMembersAgain {
		t.Errorf("asks again after %v, want %v to twice that", in, AskMembersAgain)
	}
}

// Nodes that lag for one round may be about to catch up: resumes still carry the seen index. After two such rounds they
// leave it out.
func TestN4OneLaggingRoundKeepsTheSeenIndex(t *testing.T) {
	m, c, _ := newTest()
	m.RecordKnown(Known{Seen: 7})
	for _, round := range [][]error{
		{session.ErrLagging, session.ErrLagging},
		{session.ErrLagging, session.ErrNoLeader},
		{session.ErrLagging},
		{route.Unreachable(c.Address, route.ErrSlow)},
		{session.ErrLagging},
	} {
		for _, err := range round {
			m.lag.Note(err)
		}
		m.checkLag()
		if got := m.MinIndex(); got != 7 {
			t.Fatalf("demands index %d after %v, want 7", got, round)
		}
	}
	m.lag.Note(session.ErrLagging)
	m.checkLag()
	if got := m.MinIndex(); got != 0 {
		t.Errorf("demands index %d after two rounds, want none", got)
	}
	m.RecordKnown(Known{Seen: 8})
	if got := m.MinIndex(); got != 8 {
		t.Errorf("demands index %d, want 8: a node has reported a higher index", got)
	}
}

// A server of another cluster that is only a candidate changes nothing that the client knows.
func TestACandidateOfAnotherClusterChangesNothing(t *testing.T) {
	m, _, u := newTest()
	m.recordCluster(&session.NodeState{Node: 1, Cluster: 1})
	m.RecordKnown(Known{Seen: 7, Cluster: 1})
	m.Received(m.move("other:1"), wire.StateProto(session.NodeState{
		Node: 1, Mode: session.ModeReadWrite, Index: 90, Cluster: 2,
	}))
	want := Known{Cluster: 1, Seen: 7}
	if got := m.Effects.Known; got != want || u.clusterChanged > 0 {
		t.Errorf("the client knows %+v, want %+v", got, want)
	}
	m.RecordKnown(Known{Seen: 95, Cluster: 2}) // other clients have reached another cluster
	if got := m.Effects.Known; got != want {
		t.Errorf("the client knows %+v, want %+v", got, want)
	}
}

// After a fail-over every node is in jeopardy until the new leader's first good round, and serves nevertheless. A
// client that left such a node at once would move all its sessions from node to node.
func TestANodeInJeopardyGetsOneSecond(t *testing.T) {
	for _, answers := range []bool{true, false} {
		m, former, u := newTest()
		u.held.Timeout = 12 * time.Second
		next := m.move("n2:7400")
		next.deadline = m.now.Add(4 * time.Second)
		m.jeopardy(next, nil)
		if m.candidate != next || !next.deadline.Equal(m.now.Add(time.Second)) {
			t.Fatalf("still tried: %v, for %v; want one second more", m.candidate == next, next.deadline.Sub(m.now))
		}
		if answers {
			m.Served(next)
			if m.current != next || m.current == former {
				t.Error("the node that has served is not the client's current one")
			}
			continue
		}
		m.SetTime(m.now.Add(time.Second), 0)
		m.checkConns()
		if m.candidate != nil {
			t.Error("a node in jeopardy that does not answer is still tried after a second")
		}
	}
}

// An idle client, at a silent node that has a request of it, sleeps until something happens.
func TestAnIdleClientWithAPendingRequestSleeps(t *testing.T) {
	m, c, u := newTest()
	u.idle, u.held = true, Held{}
	m.Send(c, &window.Request{Body: request{}})
	m.SetTime(m.now.Add(2*AnswerTimeout), 0)
	m.Advance()
	if at := m.WakeAt(); !at.IsZero() && !at.After(m.now) {
		t.Errorf("the next wake was due %v ago: the core spins", m.now.Sub(at))
	}
}

// The number of requests in flight has a bound.
func TestWindowBoundsRequestsInFlight(t *testing.T) {
	m, c, _ := newTest()
	for range 2 * window.MaxRequests {
		c.Window.Push(request{})
	}
	for range 2 * window.MaxTouches {
		m.SendTouch(c, request{})
	}
	m.Pump(c)
	const room = window.MaxRequests + window.MaxTouches
	if sent, wait := len(m.Effects.Actions), c.Window.Waiting(); sent != room || wait != window.MaxRequests {
		t.Errorf("%d requests sent and %d queued, want %d and %d", sent, wait, room, window.MaxRequests)
	}
}

// A move because of a new list ends where it began when no new server is reached.
func TestAFailedRebalanceStays(t *testing.T) {
	m, c, _ := newTest()
	c.failing = errRebalanced
	m.router.Moving, m.router.Begun, m.router.Round, m.router.Resolving = true, true, 1, 1
	m.Resolved(Lookup{Round: 1, Server: "n3:7400", Port: "7400"}, nil, errors.New("no such host"))
	if c.failing != nil || m.current != c || m.router.Moving || !m.stayed {
		t.Errorf("leaves because of %v, moves: %v, stayed: %v; want that the client stays", c.failing, m.router.Moving,
			m.stayed)
	}
}
