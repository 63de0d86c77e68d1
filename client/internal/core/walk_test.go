package core

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// walk runs turns of a core with random inputs, most of which no node would cause, and checks the guarantees for its
// caller.
type walk struct {
	t      *testing.T
	random *rand.Rand
	core   *Core
	at     Moment
	conns  map[*conn.Conn]bool // dialed and not hung up; true once it is up
	// pending are the unanswered messages, by their number.
	pending map[*conn.Conn]map[uint64]*holdfastv1.ClientMessage
	// kind: nodes grant each request.
	kind    bool
	waiting map[*sessions.Call]bool // not answered yet
	granted map[*sessions.Session]bool
	ended   map[*sessions.Session]bool
	owned   map[*sessions.Session]bool
	asked   []conn.Lookup
	ids     session.ID
	most    int          // sessions in one message
	members []*conn.Conn // asked for the members
	only    bool         // the client goes to no other server
	tree    treeWalk
}

const testMinBackoff = 50 * time.Millisecond

// walkBatch is the largest batch that a node of the walk takes.
const walkBatch = 3

func newWalk(t *testing.T, seed uint64) *walk {
	t.Helper()
	w := &walk{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), at: Moment{Now: time.Now()}, conns: map[*conn.Conn]bool{},
		owned: map[*sessions.Session]bool{}, pending: map[*conn.Conn]map[uint64]*holdfastv1.ClientMessage{},
		waiting: map[*sessions.Call]bool{}, granted: map[*sessions.Session]bool{}, ended: map[*sessions.Session]bool{},
		tree: newTreeWalk(),
	}
	readOnly, failInFlight, resolve := w.chance(2), w.chance(2), w.chance(4)
	w.only = w.chance(2)
	w.core = New(Config{
		Instance: 77, Servers: []string{"n1:1", "n2:1", "n3:1"}, ConnectTimeout: 2 * time.Second,
		HedgeDelay: 250 * time.Millisecond, ReadOnly: readOnly, FailInFlight: failInFlight, ResolveNames: resolve,
		OnlyServers: w.only,
		Jitter:      route.NewJitter(rand.NewPCG(seed, 2), testMinBackoff, 2*time.Second),
	})
	return w
}

// chance is true once in n times.
func (w *walk) chance(n int) bool { return w.random.IntN(n) == 0 }

func pick[E any](w *walk, all []E) (one E, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[w.random.IntN(len(all))], true
}

func (w *walk) call() *sessions.Call {
	c := new(sessions.Call)
	w.waiting[c] = true
	return c
}

// anyConn returns a connection that is not hung up.
func (w *walk) anyConn() (*conn.Conn, bool) { return pick(w, slices.Collect(maps.Keys(w.conns))) }

func (w *walk) anySession() (*sessions.Session, bool) {
	return pick(w, slices.Collect(maps.Keys(w.granted)))
}

// input returns the next input; nil when only time passes.
func (w *walk) input() Input {
	switch w.random.IntN(16) {
	case 0:
		c := w.call()
		c.Want = sessions.Want{Spec: session.Spec{Timeout: time.Duration(1+w.random.IntN(20)) * time.Second}, Local: w.chance(3)}
		return Open{c}
	case 1:
		return Resume{w.call(), session.Token{ID: session.ID(1 + w.random.IntN(5)), Local: w.chance(3)}}
	case 2:
		if h, ok := w.anySession(); ok && w.chance(3) {
			return Close{w.call(), h}
		}
	case 3:
		if h, ok := w.anySession(); ok {
			return Upgrade{w.call(), h}
		}
	case 4:
		for c := range w.waiting {
			return GiveUp{c, errors.New("caller has no time")}
		}
	case 5:
		if w.chance(4) {
			all := []string{"n1:1", "n2:1", "n3:1", "n4:1"}
			return Servers{all[w.random.IntN(3):]}
		}
	case 6:
		if len(w.asked) > 0 {
			of := w.asked[0]
			w.asked = w.asked[1:]
			if w.chance(4) {
				return Resolved{Of: of, Err: errors.New("no such host")}
			}
			return Resolved{Of: of, Addresses: []string{"10.0.0.1", "10.0.0.2"}[:w.random.IntN(3)]}
		}
	case 7:
		if h, ok := w.anySession(); ok {
			return Missed{[]*sessions.Session{h}}
		}
	case 8:
		if len(w.members) > 0 {
			c := w.members[0]
			w.members = w.members[1:]
			if w.chance(4) {
				return Members{Conn: c, Err: errors.New("no answer")}
			}
			return Members{Conn: c, Addresses: []string{"n1:1", "n4:1", "n5:1", "n6:1", ""}[w.random.IntN(4):]}
		}
		return nil
	default:
		if c, ok := w.anyConn(); ok {
			return w.tell(c)
		}
	}
	return nil
}

// tell returns a connection's report.
func (w *walk) tell(c *conn.Conn) Input {
	switch {
	case w.chance(20):
		return Down{c, errors.New("connection reset")}
	case !w.conns[c]:
		w.conns[c] = true
		return Up{c}
	}
	m := w.news(c)
	if w.chance(4) {
		several := &holdfastv1.Answers{Messages: []*holdfastv1.ServerMessage{m}}
		for range w.random.IntN(4) {
			several.Messages = append(several.Messages, w.news(c))
		}
		m = &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Answers{Answers: several}}
	}
	if w.chance(2) {
		m.State = wire.StateProto(session.NodeState{
			Node: 1, Index: uint64(w.random.IntN(20)), Mode: session.Mode(w.random.IntN(4)),
		})
		m.State.MaxBatch = uint32(w.random.IntN(walkBatch + 1))
	}
	return Received{c, m}
}

// inputs returns the inputs of the next turn.
func (w *walk) inputs() []Input {
	all := []Input{w.input()}
	for w.chance(3) {
		all = append(all, w.input())
	}
	if w.chance(3) {
		all = append(all, w.treeInputs()...)
	}
	return all
}

// news returns a node's answer or notice.
func (w *walk) news(c *conn.Conn) *holdfastv1.ServerMessage {
	seq, ok := pick(w, slices.Collect(maps.Keys(w.pending[c])))
	if !ok || w.chance(10) {
		return w.gossip()
	}
	m := w.pending[c][seq]
	delete(w.pending[c], seq)
	if w.chance(3) {
		why := w.refusal()
		if ofTree(m) && w.chance(2) {
			why = w.treeRefusal()
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, why)}}
	}
	if m.GetTouch() != nil && w.chance(3) {
		w.pending[c][seq] = m // a confirmation follows
	}
	return w.answer(m)
}

// answer answers a message.
func (w *walk) answer(m *holdfastv1.ClientMessage) *holdfastv1.ServerMessage {
	seq := seqOf(m)
	switch r := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		w.ids++
		s, t, safe := w.grant(5+w.ids, r.Open.GetLocal())
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{Opened: &holdfastv1.Opened{
			Seq: seq, Session: wire.SessionProto(s), Token: t, SafeFor: wire.PromiseProto(safe),
		}}}
	case *holdfastv1.ClientMessage_Resume:
		asked := r.Resume.GetToken()
		s, t, safe := w.grant(session.ID(asked.GetSessionId()), asked.GetLocal() && !w.chance(5))
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: w.took(&holdfastv1.Resumed{
			Seq: seq, Session: wire.SessionProto(s), Token: t, SafeFor: wire.PromiseProto(safe),
		})}}
	case *holdfastv1.ClientMessage_ResumeSessions:
		return w.resumedSessions(r.ResumeSessions)
	case *holdfastv1.ClientMessage_Upgrade:
		s, t, safe := w.grant(session.ID(r.Upgrade.GetToken().GetSessionId()), false)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Upgraded{Upgraded: &holdfastv1.Upgraded{
			Seq: seq, Session: wire.SessionProto(s), Token: t, SafeFor: wire.PromiseProto(safe),
		}}}
	case *holdfastv1.ClientMessage_Touch:
		a := &holdfastv1.Touched{Seq: seq, SafeFor: wire.PromiseProto(w.safe())}
		for _, id := range r.Touch.GetIds() {
			if !w.kind && w.chance(6) {
				a.Failures = append(a.Failures, &holdfastv1.TouchFailure{Id: id, Error: wire.Detail(w.refusal())})
			}
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: a}}
	case *holdfastv1.ClientMessage_Close:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Closed{
			Closed: &holdfastv1.Closed{Seq: seq},
		}}
	default:
		return w.treeAnswer(m)
	}
}

// seqOf returns the number of a message that wants an answer.
func seqOf(m *holdfastv1.ClientMessage) uint64 {
	all := []interface{ GetSeq() uint64 }{
		m.GetOpen(), m.GetResume(), m.GetResumeSessions(), m.GetUpgrade(), m.GetClose(), m.GetTouch(), m.GetWrite(),
		m.GetRead(), m.GetAddWatches(), m.GetRemoveWatches(),
	}
	for _, one := range all {
		if seq := one.GetSeq(); seq != 0 {
			return seq
		}
	}
	return 0
}

// resumedSessions answers a resume of several sessions.
func (w *walk) resumedSessions(m *holdfastv1.ResumeSessions) *holdfastv1.ServerMessage {
	a := &holdfastv1.ResumedSessions{Seq: m.GetSeq()}
	for _, id := range m.GetIds() {
		attachment, safe := uint64(0), uint64(0)
		if w.kind || w.chance(2) {
			attachment, safe = uint64(1+w.random.IntN(1000)), uint64(w.random.IntN(10000))
		} else if !w.chance(10) {
			a.Failures = append(a.Failures, &holdfastv1.TouchFailure{Id: id, Error: wire.Detail(w.refusal())})
		}
		a.Attachments, a.SafeForMs = append(a.Attachments, attachment), append(a.SafeForMs, safe)
	}
	if !w.kind && w.chance(20) {
		a.Attachments = nil
	}
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: a}}
}

// gossip returns news that answer nothing.
func (w *walk) gossip() *holdfastv1.ServerMessage {
	var ids []uint64
	for h := range w.granted {
		ids = append(ids, uint64(h.ID()))
	}
	ids = ids[:w.random.IntN(len(ids)+1)]
	if w.chance(2) {
		return w.treeGossip()
	}
	switch w.random.IntN(5) {
	case 0:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{
			Gone: &holdfastv1.Gone{Ids: ids[:min(len(ids), 1)]},
		}}
	case 1:
		by := make([]uint64, len(ids))
		for i := range by {
			by[i] = []uint64{0, 77, 78}[w.random.IntN(3)]
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Moved{
			Moved: &holdfastv1.Moved{Ids: ids, Instances: by},
		}}
	case 2:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_JeopardyEnded{
			JeopardyEnded: &holdfastv1.JeopardyEnded{},
		}}
	case 3:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Jeopardy{
			Jeopardy: &holdfastv1.Jeopardy{Try: []string{"n9:1"}},
		}}
	default:
		return &holdfastv1.ServerMessage{}
	}
}

// turn takes a turn and checks its effects.
func (w *walk) turn(in ...Input) *Effects {
	w.t.Helper()
	e := w.core.Turn(w.at, in...)
	w.heard(in, e)
	w.treeTold(in, e)
	for _, a := range e.Conns.Actions {
		up, known := w.conns[a.Conn]
		switch {
		case a.Do == conn.Dial && !known:
			w.conns[a.Conn] = false
		case a.Do == conn.Send && up && a.Message != nil:
			w.sent(a.Conn, a.Message)
		case a.Do == conn.HangUp && known:
			delete(w.conns, a.Conn)
			delete(w.pending, a.Conn)
		case a.Do == conn.AskMembers && up && !w.only:
			w.members = append(w.members, a.Conn)
		default:
			w.t.Fatalf("%v: action %d on a connection that is dialed: %v, up: %v", in, a.Do, known, up)
		}
	}
	w.asked = append(w.asked, e.Conns.Lookups...)
	for _, a := range e.Sessions.Answers {
		if !w.waiting[a.Call] {
			w.t.Fatalf("%v: answered again: %+v", in, a)
		}
		delete(w.waiting, a.Call)
		if a.Session != nil {
			w.owned[a.Session] = true
		}
	}
	w.holds(in)
	return e
}

// sent records a message. A resume of several sessions must name each once.
func (w *walk) sent(c *conn.Conn, m *holdfastv1.ClientMessage) {
	w.t.Helper()
	if w.pending[c] == nil {
		w.pending[c] = map[uint64]*holdfastv1.ClientMessage{}
	}
	if seq := seqOf(m); seq == 0 || w.pending[c][seq] != nil {
		w.t.Fatalf("sends %v with a number that is in use", m)
	}
	w.pending[c][seqOf(m)] = m
	w.wrote(m.GetWrite())
	ids := m.GetResumeSessions().GetIds()
	w.most = max(w.most, len(ids))
	seen := map[uint64]bool{}
	for _, id := range ids {
		if seen[id] || len(ids) > walkBatch {
			w.t.Fatalf("resumes %v, want at most %d different ones", ids, walkBatch)
		}
		seen[id] = true
	}
}

// heard checks the events for the application's sessions.
func (w *walk) heard(in []Input, e *Effects) {
	w.t.Helper()
	for _, g := range e.Sessions.Granted {
		w.granted[g.Session] = true
	}
	for _, p := range e.Sessions.Promised {
		if w.ended[p.Session] || !w.granted[p.Session] || !p.Until.After(w.at.Now) {
			w.t.Fatalf("%v: a promise of %v to a session that has ended: %v, was granted: %v", in,
				p.Until.Sub(w.at.Now), w.ended[p.Session], w.granted[p.Session])
		}
	}
	for _, v := range e.Sessions.Events {
		if w.ended[v.Session] {
			w.t.Fatalf("%v: event %d after the end", in, v.Kind)
		}
	}
	for _, d := range e.Sessions.Ended {
		if w.ended[d.Session] || d.Err == nil {
			w.t.Fatalf("%v: ended again, with %v", in, d.Err)
		}
		w.ended[d.Session] = true
	}
}

// holds checks the core's state.
func (w *walk) holds(in []Input) {
	w.t.Helper()
	inUse := w.core.conns.InUse()
	for _, c := range inUse {
		if _, known := w.conns[c]; !known {
			w.t.Fatalf("%v: keeps a connection that was hung up", in)
		}
	}
	for h := range w.granted {
		if c := h.Conn(); c != nil && (w.ended[h] || !slices.Contains(inUse, c)) {
			w.t.Fatalf("%v: a session that has ended: %v, is on a connection that is in use: %v", in, w.ended[h],
				slices.Contains(inUse, c))
		}
	}
}

// recovers has all servers be healthy nodes, until no caller waits: names are resolved, connections come up, and each
// request gets the answer that it asks for. It fails if that takes too many turns or too much time.
func (w *walk) recovers() {
	w.t.Helper()
	w.kind = true
	e := w.turn()
	begun := w.at.Now
	for turns := 0; len(w.waiting)+len(w.tree.calls) > 0; turns++ {
		in := w.healthy()
		if turns > 1000 || len(in) == 0 && (e.WakeAt.IsZero() || w.at.Now.Sub(begun) > time.Minute) {
			w.t.Fatalf("%d callers wait for ever, and %d of the tree", len(w.waiting), len(w.tree.calls))
		}
		if len(in) == 0 {
			w.at.Now = route.Latest(w.at.Now, e.WakeAt)
		}
		e = w.turn(in...)
	}
}

// healthy returns what healthy nodes tell now.
func (w *walk) healthy() (in []Input) {
	for _, of := range w.asked {
		in = append(in, Resolved{Of: of, Addresses: []string{"10.0.0.1"}})
	}
	for _, c := range w.members {
		in = append(in, Members{Conn: c, Addresses: []string{"n1:1", "n2:1"}})
	}
	w.asked, w.members = nil, nil
	for c, up := range w.conns {
		if !up {
			w.conns[c] = true
			in = append(in, Up{c})
		}
		for _, m := range w.pending[c] {
			answer := w.answer(m)
			answer.State = wire.StateProto(session.NodeState{Node: 1, Index: 100, Mode: session.ModeReadWrite})
			answer.State.MaxBatch = walkBatch
			in = append(in, Received{c, answer})
		}
		delete(w.pending, c)
	}
	return in
}

// passes lets some time pass after a turn.
func (w *walk) passes(e *Effects) {
	switch {
	case w.chance(3):
		w.at.Now = w.at.Now.Add(time.Duration(w.random.IntN(100)) * time.Millisecond)
	case w.chance(4) && e.WakeAt.After(w.at.Now):
		w.at.Now = e.WakeAt
	case w.chance(50):
		w.at.Now = w.at.Now.Add(time.Duration(w.random.IntN(10000)) * time.Millisecond)
	case w.chance(200):
		w.at.Suspensions++
	}
}

// Whatever the inputs and their order, the caller can carry out the effects of a turn. When the nodes are healthy again,
// each caller gets an answer.
func TestEffectsCanAlwaysBeCarriedOut(t *testing.T) {
	most, writes, ahead, events := 0, 0, 0, 0
	for seed := range uint64(150) {
		w := newWalk(t, seed)
		for range 400 {
			w.passes(w.turn(w.inputs()...))
		}
		if seed%2 == 0 {
			w.recovers()
		}
		w.turn(Shut{})
		if len(w.waiting) > 0 || len(w.conns) > 0 || w.treeLeft() > 0 {
			t.Fatalf("seed %d: after the end %d callers wait, and %d of the tree; there are %d connections", seed,
				len(w.waiting), w.treeLeft(), len(w.conns))
		}
		most, writes, ahead, events = max(most, w.most), writes+w.tree.writes, ahead+w.tree.ahead, events+w.tree.events
	}
	if most < 3 {
		t.Errorf("at most %d sessions were resumed with one message", most)
	}
	if writes < 2000 || ahead < 500 || events < 200 {
		t.Errorf("%d writes were sent, %d of them ahead of answers, and watches heard of %d events", writes, ahead, events)
	}
}
