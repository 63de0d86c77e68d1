package leader_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
	"holdfast/test/bubble"
)

// rules is a naive model of the protocol. It keeps every event, and computes from them what must hold. Each event is
// passed to it just before the tracker gets the event.
type rules struct {
	w *world

	mu       sync.Mutex
	begun    map[uint64]beginning
	goods    []time.Duration // monotonic, when a newer round was found good
	good     uint64
	nodes    map[session.Node]*node
	sessions map[session.ID]*rule
	events   int
	taken    uint64
	refused  uint64
	faults   []string
}

type gap struct{ end, credit time.Duration }

type beginning struct {
	reading time.Duration
	event   int
}

// node is the history of one node.
type node struct {
	voter, open, opened bool
	answered, affirmed  uint64
	started             time.Duration
	// stalls are the stalls that answers reported. heard is when the last answer arrived, credit its sum of credits.
	stalls        []gap
	heard, credit time.Duration
	// out says that a heartbeat is unanswered on the open stream: that of round, sent at sent.
	out    bool
	round  uint64
	sent   time.Duration
	silent []time.Duration // moments since the last whole answer at which a silence could begin
	// processed are the answers on the open stream with their moments, rounds their rounds.
	processed []beginning
	rounds    []uint64
}

// rule is the model of one session.
type rule struct {
	owner      session.Node
	attachment uint64
	deadline   time.Duration
	// latest is the latest due time so far. The session's bucket is not later than that.
	latest time.Duration
}

// clock returns the reading of the accountable clock (A1 accountable clock).
func (r *rules) clock() time.Duration {
	reading, last := time.Duration(0), time.Duration(0)
	for _, at := range append(slices.Clone(r.goods), r.w.now()) {
		reading += min(at-last, 2*beat)
		last = at
	}
	return reading
}

func (r *rules) lost(n *node) bool {
	switch {
	case n.open && n.out:
		return r.clock()-n.sent >= 3*beat
	case n.open:
		return false
	case n.opened:
		return true
	default:
		return r.clock() >= 3*beat
	}
}

// due returns when a session comes due (E1 full timeout after a change of leader).
func (r *rules) due(s *rule) time.Duration {
	n := r.nodes[s.owner]
	v := max(0, n.started)
	if r.lost(n) && len(n.silent) > 0 {
		v = max(v, n.silent[0])
	}
	due := max(s.deadline, v+long)
	since, credit, end := due-touched, time.Duration(0), -time.Hour
	for _, g := range n.stalls {
		if g.end > since {
			credit += g.credit
		}
		end = g.end
	}
	if end <= since {
		return due
	}
	return max(due, min(max(due+credit, end+2*beat), end+long))
}

// stalled processes the stalls that an answer reports.
func (n *node) stalled(a *session.Answer, now time.Duration) {
	if a.Credit > n.credit && now >= a.StallAge {
		end := now - a.StallAge
		if i := len(n.stalls); i > 0 {
			end = max(end, n.stalls[i-1].end)
		}
		n.stalls = append(n.stalls, gap{end, min(a.Credit-n.credit, now-n.heard+2*beat)})
	}
	n.heard, n.credit = now, max(n.credit, a.Credit)
}

// horizon returns the latest due time with which sessions of the node may expire (E2 the owner answers first).
func (r *rules) horizon(n *node) time.Duration {
	round := r.good
	if !r.lost(n) {
		round = min(round, n.answered)
	}
	if round == 0 {
		return -1
	}
	return r.begun[round].reading
}

// begins notes when a round begins, by its first heartbeat.
func (r *rules) begins(b *session.Heartbeat) {
	if _, known := r.begun[b.Round]; !known {
		r.events++
		r.begun[b.Round] = beginning{r.clock(), r.events}
	}
}

// beats passes a heartbeat to a member, and checks it by S1.
func (r *rules) beats(m *member, b *session.Heartbeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[m.hello.Node]
	r.begins(b)
	if n.out {
		r.fault("a heartbeat was sent while another was unanswered")
	}
	n.out, n.round, n.sent = true, b.Round, r.clock()
	n.silent = append(n.silent, r.clock())
	most := uint64(0)
	for i, p := range n.processed {
		if good, ok := r.begun[b.Good]; ok && p.event < good.event {
			most = n.rounds[i]
		}
	}
	if b.Confirmed > most || b.Good > r.good {
		r.fault("a heartbeat confirms an answer, or names a round good, too early")
	}
}

// answers processes a whole answer.
func (r *rules) answers(from session.Node, a *session.Answer, touches []session.Touch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, now := r.nodes[from], r.clock()
	for _, touch := range touches {
		if s := r.sessions[touch.ID]; s != nil && s.owner == from && s.attachment <= a.Attachment {
			s.deadline = max(s.deadline, now-touch.Age+touched)
			r.taken++
		} else {
			r.refused++
		}
	}
	r.events++
	n.processed = append(n.processed, beginning{event: r.events})
	n.rounds = append(n.rounds, a.Round)
	n.answered, n.out, n.silent, n.started = a.Round, false, nil, max(n.started, now-a.ProcessAge)
	n.stalled(a, now)
	if a.Term <= term {
		n.affirmed = a.Round
	}
	var votes []uint64
	for _, n := range r.nodes {
		if n.voter {
			votes = append(votes, n.affirmed)
		}
	}
	slices.Sort(votes)
	if got := votes[(len(votes)-1)/2]; got > r.good {
		r.good = got
		r.goods = append(r.goods, r.w.now())
	}
}

// closes processes the sessions that the tracker ends, and checks them by E1 and E2.
func (r *rules) closes(c session.CloseSessions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range c.Sessions {
		s := r.sessions[one.ID]
		if s == nil || s.attachment != one.Attachment {
			r.fault("a session ended twice, or under a former attachment")
			continue
		}
		if r.due(s) > r.horizon(r.nodes[s.owner]) {
			r.fault("a session ended early (I1)")
		}
		delete(r.sessions, one.ID)
	}
}

func (r *rules) fault(what string) { r.faults = append(r.faults, what) }

// look notes due times, and fails if a session is late or the tracker's numbers differ from the model's.
func (r *rules) look(t *rapid.T) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.sessions {
		s.latest = max(s.latest, r.due(s))
		if s.latest+width <= r.clock() && s.latest <= r.horizon(r.nodes[s.owner]) {
			t.Fatalf("at %v, clock %v: %v is not ended, due %v, horizon %v", r.w.now(), r.clock(), id, s.latest,
				r.horizon(r.nodes[s.owner]))
		}
	}
	stats := r.w.tracker.Stats()
	if stats.TouchesAccepted != r.taken || stats.TouchesRejected != r.refused || stats.GoodRound != r.good ||
		stats.Elapsed != r.clock() {
		t.Fatalf("at %v: %+v, want taken %d, not %d, good %d, clock %v", r.w.now(), stats, r.taken, r.refused, r.good,
			r.clock())
	}
	if stats.Sessions != len(r.sessions) || len(r.faults) > 0 {
		t.Fatalf("at %v: %d sessions, want %d; faults %v", r.w.now(), stats.Sessions, len(r.sessions), r.faults)
	}
}

// TestTrackerModel compares a tracker with the model under random events: no session ends early or late, no answer is
// confirmed and no round is good too early, and the clock counts what A1 says.
func TestTrackerModel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		// A bubble has no deadline to ask a *testing.T for.
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) { tryModel(t, rt) })
	})
}

func tryModel(t *testing.T, rt *rapid.T) {
	t.Helper()
	members := append(voters(1, 2, 3), session.Member{Node: 4})
	w := newWorld(t, members)
	r := &rules{
		w: w, begun: make(map[uint64]beginning), nodes: make(map[session.Node]*node),
		sessions: make(map[session.ID]*rule),
	}
	for _, m := range members {
		r.nodes[m.Node] = &node{voter: m.Voter, silent: []time.Duration{0}}
	}
	for id := session.ID(1); id <= 6; id++ {
		s := w.has(id<<28, session.Node(id%4)+1)
		r.sessions[s.ID] = &rule{owner: s.Owner, attachment: s.Attachment}
	}
	w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
		if c, ok := c.(session.CloseSessions); ok {
			r.closes(c)
		}
		return session.Result{}, nil, false
	})
	open := make(map[session.Node]*member)
	join := func(n session.Node) {
		r.mu.Lock()
		r.nodes[n].open, r.nodes[n].opened = true, true
		r.mu.Unlock()
		w.streams[n]++
		m := &member{w: w, hello: session.Hello{Node: n, Stream: w.streams[n]}}
		m.reply = func(b *session.Heartbeat) *session.Answer {
			r.beats(m, b)
			if n != 1 {
				return nil
			}
			r.answers(1, answer(b.Round), nil)
			return answer(b.Round)
		}
		open[n] = w.follow(m)
	}
	cut := func(n session.Node) {
		r.mu.Lock()
		was := r.nodes[n]
		was.open, was.out, was.processed, was.rounds = false, false, nil, nil
		was.silent = append(was.silent, r.clock())
		r.mu.Unlock()
		open[n].cut()
		delete(open, n)
		synctest.Wait()
	}
	join(1)
	stop := w.run()
	defer func() {
		stop()
		for _, m := range open {
			m.cut()
		}
		synctest.Wait()
	}()
	synctest.Wait()
	other := rapid.SampledFrom([]session.Node{2, 3, 4})
	ms := rapid.Map(rapid.IntRange(0, 2000), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	rt.Repeat(map[string]func(*rapid.T){
		"wait": func(t *rapid.T) { time.Sleep(ms.Draw(t, "for") / 3) },
		"join": func(t *rapid.T) {
			if n := other.Draw(t, "node"); open[n] == nil {
				join(n)
			}
		},
		"cut": func(t *rapid.T) {
			if n := other.Draw(t, "node"); open[n] != nil && rapid.IntRange(0, 3).Draw(t, "luck") == 0 {
				cut(n)
			}
		},
		"answer": func(t *rapid.T) { w.answers(t, r, open[other.Draw(t, "node")]) },
		"live": func(t *rapid.T) {
			// Time passes in small steps. Mostly all nodes answer, and always two of them.
			silent := rapid.IntRange(2, 12).Draw(t, "silent")
			for range rapid.IntRange(1, 20).Draw(t, "steps") {
				time.Sleep(ms.Draw(t, "for") / 8)
				r.look(t)
				for n := session.Node(2); n <= 4; n++ {
					if int(n) != silent {
						w.answers(t, r, open[n])
						r.look(t)
					}
				}
			}
		},
		"move": func(t *rapid.T) {
			id, to := session.ID(rapid.IntRange(1, 6).Draw(t, "id"))<<28,
				session.Node(rapid.IntRange(1, 4).Draw(t, "to"))
			r.mu.Lock()
			s := r.sessions[id]
			if rapid.IntRange(0, 3).Draw(t, "luck") > 0 {
				s = nil
			}
			if s != nil {
				s.owner, s.attachment = to, w.view.Attachment()+1
				s.deadline = max(s.deadline, r.clock()+touched)
			}
			r.mu.Unlock()
			if s != nil {
				w.log.apply(session.MoveSession{ID: id, NewOwner: to}, term)
			}
		},
		"": func(t *rapid.T) { r.look(t) },
	})
}

// answers lets a member give the answer that is due on its stream, if any.
func (w *world) answers(t *rapid.T, r *rules, m *member) {
	if m == nil || !r.nodes[m.hello.Node].out {
		return
	}
	var touches []session.Touch
	for id := session.ID(1); id <= 7; id++ {
		if rapid.IntRange(0, 15).Draw(t, "touched") == 0 {
			touches = append(touches,
				session.Touch{ID: id << 28, Age: time.Duration(rapid.IntRange(0, 1500).Draw(t, "age")) * ms})
		}
	}
	a := answer(r.nodes[m.hello.Node].round, touches...)
	a.Attachment = w.view.Attachment() - uint64(rapid.IntRange(0, 2).Draw(t, "behind"))
	a.Term = term + uint64(rapid.IntRange(0, 8).Draw(t, "term")/8)
	if rapid.IntRange(0, 8).Draw(t, "restarted") == 0 {
		a.ProcessAge = time.Duration(rapid.IntRange(0, 3000).Draw(t, "process")) * ms
	}
	if n := r.nodes[m.hello.Node]; len(n.stalls) < 40 && rapid.IntRange(0, 6).Draw(t, "stalled") == 0 {
		a.StallAge = time.Duration(rapid.IntRange(0, 1500).Draw(t, "vouch")) * ms
		a.Credit = n.credit + time.Duration(rapid.IntRange(1, 3000).Draw(t, "credit"))*ms
	} else {
		a.Credit = n.credit
	}
	r.answers(m.hello.Node, a, touches)
	m.says(a)
}
