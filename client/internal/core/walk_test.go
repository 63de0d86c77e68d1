package core

import (
	"errors"
	"maps"
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

// walk takes turns of a core with inputs drawn at random, most of which no node would cause, and checks what its caller
// relies on.
type walk struct {
	t       *testing.T
	random  *rand.Rand
	core    *Core
	at      Moment
	conns   map[*Conn]bool // dialled and not hung up; true once it is up
	waiting map[*Call]bool // not answered yet
	granted map[*Session]bool
	ended   map[*Session]bool
	owned   map[*Session]bool
	asked   []Lookup
	many    map[*Conn]map[uint64]*holdfastv1.ResumeSessions // sent and not answered yet
	ids     session.ID
	most    int     // sessions in one message
	members []*Conn // asked for the members
	tree    treeWalk
}

// walkBatch is the largest batch that a node of the walk takes.
const walkBatch = 3

func newWalk(t *testing.T, seed uint64) *walk {
	t.Helper()
	w := &walk{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), at: Moment{Now: time.Now()}, conns: map[*Conn]bool{},
		owned: map[*Session]bool{}, many: map[*Conn]map[uint64]*holdfastv1.ResumeSessions{},
		waiting: map[*Call]bool{}, granted: map[*Session]bool{}, ended: map[*Session]bool{},
		tree: newTreeWalk(),
	}
	w.core = New(Config{
		Instance: 77, Servers: []string{"n1:1", "n2:1", "n3:1"}, ConnectTimeout: 2 * time.Second,
		HedgeDelay: 250 * time.Millisecond, ReadOnly: w.chance(2), FailInFlight: w.chance(2), ResolveNames: w.chance(4),
		OnlyServers: w.chance(2),
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

func (w *walk) call() *Call {
	c := new(Call)
	w.waiting[c] = true
	return c
}

// anyConn returns one of those that are not hung up.
func (w *walk) anyConn() (*Conn, bool) { return pick(w, slices.Collect(maps.Keys(w.conns))) }

func (w *walk) anySession() (*Session, bool) {
	return pick(w, slices.Collect(maps.Keys(w.granted)))
}

// input returns what happens next; nil when it is time that passes.
func (w *walk) input() Input {
	switch w.random.IntN(16) {
	case 0:
		c := w.call()
		c.Want = Want{Timeout: time.Duration(1+w.random.IntN(20)) * time.Second, Local: w.chance(3)}
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
			return Missed{[]*Session{h}}
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

// tell returns what a connection tells.
func (w *walk) tell(c *Conn) Input {
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

// inputs returns what happens before the next turn.
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

func (w *walk) news(c *Conn) *holdfastv1.ServerMessage {
	r, ok := pick(w, slices.Collect(c.window.InFlight()))
	if !ok || w.chance(10) {
		return w.gossip()
	}
	many := w.many[c][r.Seq]
	delete(w.many[c], r.Seq)
	answer := w.treeNews(r)
	if w.chance(3) {
		why := w.refusal()
		if answer != nil && w.chance(2) {
			why = w.treeRefusal()
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{
			Failed: wire.FailedProto(r.Seq, why),
		}}
	}
	if answer != nil {
		return answer
	}
	if many != nil {
		return w.resumedSessions(many)
	}
	switch b := r.Body.(type) {
	case *openBody:
		w.ids++
		s, t, safe := w.grant(5+w.ids, b.call.Want.Local)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{Opened: &holdfastv1.Opened{
			Seq: r.Seq, Session: wire.SessionProto(s), Token: t, SafeFor: wire.PromiseProto(safe),
		}}}
	case *resumeBody:
		s, t, safe := w.grant(b.h.id, b.h.token.Local && !w.chance(5))
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: w.took(&holdfastv1.Resumed{
			Seq: r.Seq, Session: wire.SessionProto(s), Token: t, SafeFor: wire.PromiseProto(safe),
		})}}
	case *upgradeBody:
		s, t, safe := w.grant(b.h.id, false)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Upgraded{Upgraded: &holdfastv1.Upgraded{
			Seq: r.Seq, Session: wire.SessionProto(s), Token: t, SafeFor: wire.PromiseProto(safe),
		}}}
	case *touchBody:
		a := &holdfastv1.Touched{Seq: r.Seq, SafeFor: wire.PromiseProto(w.safe())}
		for _, h := range b.targets {
			if w.chance(6) {
				a.Failures = append(a.Failures, &holdfastv1.TouchFailure{
					Id: uint64(h.id), Error: wire.Detail(w.refusal()),
				})
			}
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: a}}
	default:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Closed{
			Closed: &holdfastv1.Closed{Seq: r.Seq},
		}}
	}
}

// resumedSessions answers a resume of several sessions.
func (w *walk) resumedSessions(m *holdfastv1.ResumeSessions) *holdfastv1.ServerMessage {
	a := &holdfastv1.ResumedSessions{Seq: m.GetSeq()}
	for _, id := range m.GetIds() {
		attachment, safe := uint64(0), uint64(0)
		if w.chance(2) {
			attachment, safe = uint64(1+w.random.IntN(1000)), uint64(w.random.IntN(10000))
		} else if !w.chance(10) {
			a.Failures = append(a.Failures, &holdfastv1.TouchFailure{Id: id, Error: wire.Detail(w.refusal())})
		}
		a.Attachments, a.SafeForMs = append(a.Attachments, attachment), append(a.SafeForMs, safe)
	}
	if w.chance(20) {
		a.Attachments = nil
	}
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: a}}
}

// gossip returns news that answer nothing.
func (w *walk) gossip() *holdfastv1.ServerMessage {
	var ids []uint64
	for h := range w.granted {
		ids = append(ids, uint64(h.id))
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
	for _, a := range e.Actions {
		up, known := w.conns[a.Conn]
		switch {
		case a.Do == Dial && !known:
			w.conns[a.Conn] = false
		case a.Do == Send && up && a.Message != nil:
			w.sent(a.Conn, a.Message.GetResumeSessions())
			w.wrote(a.Message.GetWrite())
		case a.Do == HangUp && known:
			delete(w.conns, a.Conn)
		case a.Do == AskMembers && up && !w.core.cfg.OnlyServers:
			w.members = append(w.members, a.Conn)
		default:
			w.t.Fatalf("%v: action %d on a connection that is dialled: %v, up: %v", in, a.Do, known, up)
		}
	}
	w.asked = append(w.asked, e.Lookups...)
	for _, a := range e.Answers {
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

// sent notes a resume of several sessions, which must name sessions that the client holds, each once.
func (w *walk) sent(c *Conn, m *holdfastv1.ResumeSessions) {
	w.t.Helper()
	if m == nil {
		return
	}
	if w.many[c] == nil {
		w.many[c] = map[uint64]*holdfastv1.ResumeSessions{}
	}
	w.many[c][m.GetSeq()] = m
	w.most = max(w.most, len(m.GetIds()))
	seen := map[uint64]bool{}
	for _, id := range m.GetIds() {
		if seen[id] || len(m.GetIds()) > walkBatch {
			w.t.Fatalf("resumes %v, want at most %d different ones", m.GetIds(), walkBatch)
		}
		seen[id] = true
	}
}

// heard checks what the sessions of the application hear.
func (w *walk) heard(in []Input, e *Effects) {
	w.t.Helper()
	for _, g := range e.Granted {
		w.granted[g.Session] = true
	}
	for _, p := range e.Promised {
		if w.ended[p.Session] || !w.granted[p.Session] || !p.Until.After(w.at.Now) {
			w.t.Fatalf("%v: a promise of %v to a session that has ended: %v, was granted: %v", in,
				p.Until.Sub(w.at.Now), w.ended[p.Session], w.granted[p.Session])
		}
	}
	for _, v := range e.Events {
		if w.ended[v.Session] {
			w.t.Fatalf("%v: event %d after the end", in, v.Kind)
		}
	}
	for _, d := range e.Ended {
		if w.ended[d.Session] || d.Err == nil {
			w.t.Fatalf("%v: ended again, with %v", in, d.Err)
		}
		w.ended[d.Session] = true
	}
}

// holds checks what the core keeps.
func (w *walk) holds(in []Input) {
	w.t.Helper()
	for _, c := range []*Conn{w.core.cur, w.core.next} {
		if _, known := w.conns[c]; c != nil && !known {
			w.t.Fatalf("%v: keeps a connection that was hung up", in)
		}
	}
	waits := map[*window.Request]bool{}
	for _, c := range []*Conn{w.core.cur, w.core.next} {
		if c != nil {
			for r := range c.window.InFlight() {
				waits[r] = true
			}
			for r := range c.window.Queued() {
				waits[r] = true
			}
		}
	}
	for _, h := range w.core.sessions {
		if h.resuming != nil && !waits[h.resuming] {
			w.t.Fatalf("%v: a session waits for a resume that is in no window", in)
		}
		if h.on != nil && h.on != w.core.cur && h.on != w.core.next {
			w.t.Fatalf("%v: a session is on a connection that is gone", in)
		}
		if (h.joining == nil || h.joining.settled) && !w.owned[h] {
			w.t.Fatalf("%v: holds a session that nobody has", in)
		}
	}
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

// Whatever happens, in whatever order, what a turn wants done can be done.
func TestEffectsCanBeBroughtAboutWhateverHappens(t *testing.T) {
	most, writes, ahead, events := 0, 0, 0, 0
	for seed := range uint64(150) {
		w := newWalk(t, seed)
		for range 400 {
			w.passes(w.turn(w.inputs()...))
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
