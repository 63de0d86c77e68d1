package learner

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/session"
)

// fakeView is a replicated state that a test writes by hand.
type fakeView struct {
	mu           sync.Mutex
	key          session.Key
	sessions     map[session.ID]session.Session
	certificates map[session.ID]session.Certificate
	attachment   uint64
	applied      uint64
	// shown is ahead of applied while observers are told.
	shown uint64
	term  uint64
	// digests are the known digests by index.
	digests map[uint64][16]byte
	// cluster is the identity of the cluster.
	cluster atomic.Uint64
	// onAttachment runs before Attachment answers.
	onAttachment func()
	// onSession runs once, before Session answers.
	onSession func()
}

func newFakeView() *fakeView {
	return &fakeView{
		sessions:     make(map[session.ID]session.Session),
		certificates: make(map[session.ID]session.Certificate),
		digests:      make(map[uint64][16]byte),
		term:         1,
	}
}

func (v *fakeView) Session(id session.ID) (session.Session, bool) {
	if do := v.onSession; do != nil {
		v.onSession = nil
		do()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.sessions[id]
	return s, ok
}

func (v *fakeView) Certificate(id session.ID) (session.Certificate, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.certificates[id]
	return c, ok
}

// Deaths numbers certificates by the indexes of their entries.
func (v *fakeView) Deaths(before uint64, yield func(uint64, *session.Certificate) bool) uint64 {
	v.mu.Lock()
	all := slices.SortedFunc(maps.Values(v.certificates), func(a, b session.Certificate) int {
		return cmp.Compare(b.Index, a.Index)
	})
	v.mu.Unlock()
	if len(all) == 0 {
		return 0
	}
	for i := range all {
		if n := all[i].Index; before != 0 && n >= before {
			continue
		} else if !yield(n, &all[i]) {
			break
		}
	}
	return all[len(all)-1].Index
}

func (v *fakeView) Credential(id session.ID) (session.Credential, bool) {
	return v.key.Credential(id), true
}

func (v *fakeView) Ascend(after session.ID, yield func(session.Session) bool) {
	v.mu.Lock()
	var all []session.Session
	for id, s := range v.sessions {
		if id > after {
			all = append(all, s)
		}
	}
	v.mu.Unlock()
	slices.SortFunc(all, func(a, b session.Session) int { return int(a.ID) - int(b.ID) })
	for _, s := range all {
		if !yield(s) {
			return
		}
	}
}

func (v *fakeView) Attachment() uint64 {
	if v.onAttachment != nil {
		v.onAttachment()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.attachment
}

func (v *fakeView) AppliedIndex() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.applied
}

func (v *fakeView) DigestAt(index uint64) ([16]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, ok := v.digests[index]
	return d, ok
}

func (v *fakeView) ShownIndex() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.shown, v.applied)
}

func (v *fakeView) Cluster() uint64 { return v.cluster.Load() }

func (v *fakeView) Term() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.term
}

func (v *fakeView) WaitApplied(ctx context.Context, index uint64) error {
	for {
		v.mu.Lock()
		applied := v.applied
		v.mu.Unlock()
		if applied >= index {
			return nil
		}
		timer := time.NewTimer(time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// put adds s to the state, or replaces it, and shows its attachment.
func (v *fakeView) put(s session.Session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sessions[s.ID] = s
	v.attachment = max(v.attachment, s.Attachment)
}

// hold is put while the entry's observers are notified: the attachment does not show yet.
func (v *fakeView) hold(s session.Session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sessions[s.ID] = s
}

// show makes reads show the state at an index while the entry's observers are notified.
func (v *fakeView) show(index uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown = index
}

// drop ends a session.
func (v *fakeView) drop(c session.Certificate) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.sessions, c.ID)
	v.certificates[c.ID] = c
}

// apply makes the index of the newest entry applied.
func (v *fakeView) apply(index uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.applied = index
}

// fakeLeader is the leader's end of a link. A test says what the leader does.
type fakeLeader struct {
	t        *testing.T
	toRelay  chan session.LeaderMessage
	toLeader chan session.LearnerMessage
	ended    chan struct{}
	once     sync.Once
	round    uint64
	asked    []session.Request // that request has not returned yet
}

var errLinkEnded = errors.New("link ended")

func newFakeLeader(t *testing.T) *fakeLeader {
	t.Helper()
	l := &fakeLeader{
		t:        t,
		toRelay:  make(chan session.LeaderMessage, 1),
		toLeader: make(chan session.LearnerMessage, 16),
		ended:    make(chan struct{}),
	}
	l.toRelay <- session.LeaderMessage{Welcome: &session.Welcome{Term: 1, Leader: 2}}
	return l
}

func (l *fakeLeader) Send(m session.LearnerMessage) error {
	select {
	case l.toLeader <- m:
		return nil
	case <-l.ended:
		return errLinkEnded
	}
}

func (l *fakeLeader) Recv() (session.LeaderMessage, error) {
	select {
	case m := <-l.toRelay:
		return m, nil
	case <-l.ended:
		return session.LeaderMessage{}, errLinkEnded
	}
}

func (l *fakeLeader) Close() error { l.end(); return nil }

func (l *fakeLeader) end() { l.once.Do(func() { close(l.ended) }) }

// beat sends b as the next heartbeat, and returns the whole answer.
func (l *fakeLeader) beat(b session.Heartbeat) answer {
	l.t.Helper()
	l.round++
	b.Round, b.Interval = l.round, cmp.Or(b.Interval, interval)
	l.toRelay <- session.LeaderMessage{Heartbeat: &b}
	a := answer{touches: make(map[session.ID]time.Duration)}
	for {
		m := <-l.toLeader
		if m.Answer == nil {
			l.t.Fatalf("got %+v, want an answer", m)
		}
		a.Answer = *m.Answer
		r := session.Touches{Bytes: m.Answer.Touches}
		for {
			touch, ok, err := r.Next()
			if err != nil {
				l.t.Fatal(err)
			}
			if !ok {
				break
			}
			if _, twice := a.touches[touch.ID]; twice {
				l.t.Errorf("session %v is twice in one answer", touch.ID)
			}
			a.touches[touch.ID] = touch.Age
		}
		if m.Answer.Last {
			return a
		}
	}
}

// request returns the next request that the relay forwards.
func (l *fakeLeader) request() session.Request {
	l.t.Helper()
	if len(l.asked) == 0 {
		var m session.LearnerMessage
		waits := time.NewTimer(time.Minute)
		defer waits.Stop()
		select {
		case m = <-l.toLeader:
		case <-waits.C:
			l.t.Fatal("the leader is asked nothing")
		}
		if len(m.Requests) == 0 {
			l.t.Fatalf("got %+v, want a request", m)
		}
		l.asked = m.Requests
	}
	r := l.asked[0]
	l.asked = l.asked[1:]
	return r
}

func (l *fakeLeader) reply(r session.Reply) {
	l.toRelay <- session.LeaderMessage{Replies: []session.Reply{r}}
}

// answer is a whole answer: the last message of it, and the touches of all.
type answer struct {
	session.Answer
	touches map[session.ID]time.Duration
}

// events records the events of a connection.
type events struct {
	mu    sync.Mutex
	gone  []session.Certificate
	moved []session.ID
	// local are the sessions that moved as local ones.
	local []session.ID
	// to are the attachments to which sessions of either kind moved, by the instances that moved them.
	to, by []uint64
	// jeopardy holds true for each beginning of jeopardy, and false for each end; at are their times.
	jeopardy []bool
	at       []time.Time
	try      []string
	// drained holds the orders that the client was told to go to, stays how often it was told to stay after all, and
	// dismissed how often that the node waits no longer.
	drained          [][]string
	stays, dismissed int
}

func (e *events) Draining(why *session.DrainingError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drained = append(e.drained, why.Try)
}

func (e *events) DrainingEnded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stays++
}

func (e *events) DrainTimeout() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dismissed++
}

func (e *events) Gone(c session.Certificate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = append(e.gone, c)
}

func (e *events) Moved(id session.ID, attachment, instance uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.moved, e.to, e.by = append(e.moved, id), append(e.to, attachment), append(e.by, instance)
}

func (e *events) MovedLocally(id session.ID, attachment, instance uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.local, e.to, e.by = append(e.local, id), append(e.to, attachment), append(e.by, instance)
}

func (e *events) Jeopardy(_ time.Time, try []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jeopardy, e.at, e.try = append(e.jeopardy, true), append(e.at, time.Now()), try
}

func (e *events) JeopardyEnded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jeopardy, e.at = append(e.jeopardy, false), append(e.at, time.Now())
}

// ends returns how many ends the client received.
func (e *events) ends() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.gone)
}

// perils returns true for each beginning of jeopardy that the client received, and false for each end.
func (e *events) perils() []bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.jeopardy)
}
