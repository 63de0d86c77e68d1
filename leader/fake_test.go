package leader_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/test/bubble"
)

const (
	ms   = time.Millisecond
	term = 7
	// beat is the interval of rounds, width the width of a bucket of the expiry queue.
	beat  = 500 * ms
	width = 250 * ms
	// long is the timeout of most sessions here. touched is how far after itself a touch puts the deadline.
	long    = 4 * time.Second
	touched = long + long/200
	// forever is the age of a process that has never stalled.
	forever = 1000 * time.Hour
)

var errCut = errors.New("the link was cut")

// view is a fake of the leader's node: its state, its term and the configuration.
type view struct {
	mu         sync.Mutex
	sessions   map[session.ID]session.Session
	attachment uint64
	term       uint64
	commit     uint64
	members    []session.Member
	// full is the error for want of room.
	full error
	// onAttachment runs, with mu held, before an attachment is read.
	onAttachment func()
	// onSession runs before a session is looked up. It is set before the tracker runs.
	onSession func()
}

func (v *view) Session(id session.ID) (session.Session, bool) {
	if v.onSession != nil {
		v.onSession()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.sessions[id]
	return s, ok
}

func (v *view) Verify(id session.ID, c session.Credential) bool { return c == credential(id) }

func credential(id session.ID) session.Credential { return session.Credential{byte(id), 1, 2, 3} }

func token(s session.Session) session.Token {
	return session.Token{ID: s.ID, Credential: credential(s.ID), Attachment: s.Attachment}
}

func (v *view) Attachment() uint64 {
	return locked(v, func() uint64 {
		if v.onAttachment != nil {
			v.onAttachment()
		}
		return v.attachment
	})
}

func (v *view) Term() uint64         { return locked(v, func() uint64 { return v.term }) }
func (v *view) CommitIndex() uint64  { return locked(v, func() uint64 { return v.commit }) }
func (v *view) LastIndex() uint64    { return v.CommitIndex() }
func (v *view) AppliedIndex() uint64 { return v.CommitIndex() }

func (v *view) Members() []session.Member {
	return locked(v, func() []session.Member { return slices.Clone(v.members) })
}

func locked[T any](v *view, f func() T) T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return f()
}

// Ascend makes v the frozen copy as well.
func (v *view) Ascend(after session.ID, yield func(session.Session) bool) {
	v.mu.Lock()
	var all []session.Session
	for _, s := range v.sessions {
		if s.ID > after {
			all = append(all, s)
		}
	}
	v.mu.Unlock()
	slices.SortFunc(all, func(a, b session.Session) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	for _, s := range all {
		if !yield(s) {
			return
		}
	}
}

// proposal is a proposed command with its moment.
type proposal struct {
	at      time.Duration
	command session.Command
}

// log is a fake of the log and the state machine. It applies commands to the view at once, unless answer decides
// otherwise.
type log struct {
	w *world
	// answer, if set, is called first. If it returns true, its result is the outcome.
	answer func(ctx context.Context, c session.Command) (session.Result, error, bool)

	mu    sync.Mutex
	all   []proposal
	index uint64
}

func (l *log) Propose(ctx context.Context, c session.Command) (session.Result, error) {
	l.mu.Lock()
	l.all = append(l.all, proposal{l.w.now(), c})
	answer := l.answer
	l.mu.Unlock()
	if answer != nil {
		if result, err, decided := answer(ctx, c); decided {
			return result, err
		}
	}
	return l.apply(c, term), nil
}

// Submit applies a command at once, or beside the caller if answer decides.
func (l *log) Submit(c session.Command, done func(session.Result, error)) {
	l.mu.Lock()
	answer := l.answer
	l.mu.Unlock()
	if answer == nil {
		done(l.Propose(context.Background(), c))
		return
	}
	go func() { done(l.Propose(context.Background(), c)) }()
}

// decides sets the function that decides the outcome of proposals from now on.
func (l *log) decides(answer func(context.Context, session.Command) (session.Result, error, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

// newest returns the index of the newest entry.
func (l *log) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

// apply applies a command at the next index.
func (l *log) apply(c session.Command, in uint64) session.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	result := session.Result{Term: in, Index: l.index}
	var changes []session.Change
	v := l.w.view
	v.mu.Lock()
	v.commit = l.index
	switch c := c.(type) {
	case session.OpenSession:
		v.attachment++
		id, err := session.NextID(0, c.Node, c.MS)
		for _, taken := v.sessions[id]; taken; _, taken = v.sessions[id] {
			id++
		}
		result.Session = session.Session{
			ID: id, Spec: session.Spec{Timeout: c.Timeout, Labels: c.Labels}, Owner: c.Node, Attachment: v.attachment,
			OpenedIndex: l.index,
		}
		result.Err = err
		v.sessions[id] = result.Session
		changes = append(changes, session.Change{Kind: session.Opened, Session: result.Session})
	case session.MoveSession:
		s, ok := v.sessions[c.ID]
		if !ok {
			result.Err = session.ErrExpired
			break
		}
		v.attachment++
		former := s.Instance
		s.Owner, s.Attachment, s.Instance = c.NewOwner, v.attachment, c.Instance
		v.sessions[c.ID], result.Session = s, s
		changes = append(changes, session.Change{Kind: session.Moved, Session: s, Former: former})
	case session.MoveSessions:
		for _, one := range c.Sessions {
			s, ok := v.sessions[one.ID]
			if !ok {
				result.Moved = append(result.Moved, session.MoveResult{Err: &session.ExpiredError{ID: one.ID}})
				continue
			}
			v.attachment++
			s.Owner, s.Attachment = c.NewOwner, v.attachment
			v.sessions[one.ID] = s
			result.Moved = append(result.Moved, session.MoveResult{Attachment: s.Attachment})
			changes = append(changes, session.Change{Kind: session.Moved, Session: s})
		}
	case session.CloseSessions:
		for _, one := range c.Sessions {
			s, ok := v.sessions[one.ID]
			ends := ok && s.Attachment == one.Attachment && c.Term == in
			result.Closed = append(result.Closed, ends)
			if ends {
				delete(v.sessions, one.ID)
				changes = append(changes, session.Change{Kind: session.Ended, Session: s})
			}
		}
	}
	v.mu.Unlock()
	l.w.tracker.Applied(l.index, in, changes)
	return result
}

// proposed returns the proposed commands of one type, and their moments.
func proposed[C session.Command](l *log) (all []C, at []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		if c, ok := p.command.(C); ok {
			all, at = append(all, c), append(at, p.at)
		}
	}
	return all, at
}

// world is a tracker among fakes, in a bubble.
type world struct {
	// found are the batches that the expirer found, in their order.
	found [][]session.Closing
	// late says how late each session of these batches was.
	late    []time.Duration
	t       *testing.T
	start   time.Time
	view    *view
	log     *log
	tracker *leader.Tracker
	streams map[session.Node]uint64
	// part, if set, is the tracker's Config.Part.
	part func(upTo uint64, most int) uint64
	// weight, if set, is the tracker's Tree.Weight.
	weight func(session.ID) int

	mu    sync.Mutex
	lines []string
}

// voters returns members that all have a vote.
func voters(nodes ...session.Node) []session.Member {
	all := make([]session.Member, len(nodes))
	for i, n := range nodes {
		all[i] = session.Member{Node: n, Voter: true}
	}
	return all
}

// inBubble runs test in a bubble with a tracker on node 1 that is not running yet.
func inBubble(t *testing.T, members []session.Member, test func(w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) { test(newWorld(t, members)) })
}

func newWorld(t *testing.T, members []session.Member) *world {
	t.Helper()
	w := &world{t: t, start: time.Now(), streams: make(map[session.Node]uint64)}
	w.view = &view{sessions: make(map[session.ID]session.Session), term: term, members: members}
	w.log = &log{w: w}
	w.tracker = leader.New(leader.Config{
		Node: 1, Term: term, Interval: beat, ExpiryInterval: width,
		Limits:        session.Limits{Min: long, Max: 40 * time.Second},
		CheckCapacity: func(session.Command) error { return locked(w.view, func() error { return w.view.full }) },
		Tree: leader.Tree{Weight: func(id session.ID) int {
			if w.weight == nil {
				return 0
			}
			return w.weight(id)
		}},
		Part: func(upTo uint64, most int) uint64 {
			if w.part == nil {
				return upTo
			}
			return w.part(upTo, most)
		},
		Expires: func(found []session.Closing, late []time.Duration) {
			w.found = append(w.found, found)
			w.late = append(w.late, late...)
		},
	}, w.log, w.view)
	return w
}

// run runs the tracker until stop is called, which returns the error of Run.
func (w *world) run() (stop func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.tracker.Run(ctx, w.view) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-done
	})
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// at sleeps until d after the start, then waits until all goroutines are idle.
func (w *world) at(d time.Duration) {
	w.t.Helper()
	if wait := d - w.now(); wait < 0 {
		w.t.Fatalf("at %v it is %v already", d, w.now())
	} else {
		time.Sleep(wait)
	}
	synctest.Wait()
}

// has puts a session into the state before the tracker runs.
func (w *world) has(id session.ID, owner session.Node) session.Session {
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	w.view.attachment++
	s := session.Session{ID: id, Spec: session.Spec{Timeout: long}, Owner: owner, Attachment: w.view.attachment}
	w.view.sessions[id] = s
	return s
}

// alive fails unless exactly these sessions exist.
func (w *world) alive(want ...session.ID) {
	w.t.Helper()
	var got []session.ID
	w.view.Ascend(0, func(s session.Session) bool {
		got = append(got, s.ID)
		return true
	})
	if !slices.Equal(got, want) {
		w.t.Errorf("at %v alive: %v, want %v", w.now(), got, want)
	}
}

// expires fails unless the sessions are alive just before d and ended at d.
func (w *world) expires(d time.Duration, ids ...session.ID) {
	w.t.Helper()
	before := w.left()
	w.at(d - 1)
	if got := w.left(); got != before {
		w.t.Errorf("at %v: %d sessions, want all %d", w.now(), got, before)
	}
	for _, id := range ids {
		if _, ok := w.view.Session(id); !ok {
			w.t.Errorf("%v ended before %v", id, d)
		}
	}
	w.at(d)
	for _, id := range ids {
		if _, ok := w.view.Session(id); ok {
			w.t.Errorf("%v did not end at %v", id, d)
		}
	}
}

func (w *world) left() int { return locked(w.view, func() int { return len(w.view.sessions) }) }
