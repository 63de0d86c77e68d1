package leader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/leader"
	"holdfast/session"
)

const (
	ms   = time.Millisecond
	term = 7
	// beat is the interval of rounds, width that of the expiry queue.
	beat  = 500 * ms
	width = 250 * ms
	// long is the timeout of most sessions here, and touched how far a touch moves the deadline ahead of itself.
	long    = 4 * time.Second
	touched = long + long/200
	// forever is the age of a process that was never stalled.
	forever = 1000 * time.Hour
)

var errCut = errors.New("the link was cut")

// view is a fake of the leader's node: what it has applied, its term and the configuration.
type view struct {
	mu         sync.Mutex
	sessions   map[session.ID]session.Session
	attachment uint64
	term       uint64
	commit     uint64
	members    []session.Member
}

func (v *view) Session(id session.ID) (session.Session, bool) {
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

func (v *view) Attachment() uint64  { return locked(v, func() uint64 { return v.attachment }) }
func (v *view) Term() uint64        { return locked(v, func() uint64 { return v.term }) }
func (v *view) CommitIndex() uint64 { return locked(v, func() uint64 { return v.commit }) }

func (v *view) Members() []session.Member {
	return locked(v, func() []session.Member { return slices.Clone(v.members) })
}

func locked[T any](v *view, f func() T) T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return f()
}

// Ascend makes v the frozen copy too.
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

// proposal is one command that was proposed, and when.
type proposal struct {
	at      time.Duration
	command session.Command
}

// log is a fake of the log and the state machine: it applies what is proposed to the view at once, unless answer says
// otherwise.
type log struct {
	w *world
	// answer, when set, is asked first; if it returns true, its result is the outcome.
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

// decides changes what becomes of proposals from now on.
func (l *log) decides(answer func(context.Context, session.Command) (session.Result, error, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
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
			ID: id, Timeout: c.Timeout, Owner: c.Node, Labels: c.Labels, Attachment: v.attachment, OpenedIndex: l.index,
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
		s.Owner, s.Attachment = c.NewOwner, v.attachment
		v.sessions[c.ID], result.Session = s, s
		changes = append(changes, session.Change{Kind: session.Moved, Session: s})
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

// proposed returns the commands of one type.
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
	t       *testing.T
	start   time.Time
	view    *view
	log     *log
	tracker *leader.Tracker
	streams map[session.Node]uint64

	mu    sync.Mutex
	lines []string
}

// voters returns members that all vote.
func voters(nodes ...session.Node) []session.Member {
	all := make([]session.Member, len(nodes))
	for i, n := range nodes {
		all[i] = session.Member{Node: n, Voter: true}
	}
	return all
}

// bubble runs test in a bubble with a tracker on node 1 that is not running yet.
func bubble(t *testing.T, members []session.Member, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t, members)) })
}

func newWorld(t *testing.T, members []session.Member) *world {
	t.Helper()
	w := &world{t: t, start: time.Now(), streams: make(map[session.Node]uint64)}
	w.view = &view{sessions: make(map[session.ID]session.Session), term: term, members: members}
	w.log = &log{w: w}
	w.tracker = leader.New(leader.Config{
		Node: 1, Term: term, Interval: beat, ExpiryInterval: width, Limits: session.Limits{Min: long, Max: 40 * time.Second},
	}, w.log, w.view)
	return w
}

// run runs the tracker until the returned function is called, which returns Run's error.
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

// at sleeps until d after the start and lets everything settle.
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
	s := session.Session{ID: id, Timeout: long, Owner: owner, Attachment: w.view.attachment}
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

// member is a scripted learner.
type member struct {
	w     *world
	hello session.Hello
	// reply makes an answer to a heartbeat that is given at once; nil: the test answers, or nobody does.
	reply func(b *session.Heartbeat) *session.Answer
	// delay is between a heartbeat and its reply.
	delay time.Duration
	// stuck, when set, blocks Send until it is closed.
	stuck chan struct{}

	out    chan session.LearnerMessage
	cutOff chan struct{}
	cut    func()
	ended  chan error

	mu      sync.Mutex
	beats   []*session.Heartbeat
	answers map[uint64]*session.Reply
	welcome *session.Welcome
}

func (m *member) Send(s session.LeaderMessage) error {
	if m.stuck != nil {
		select {
		case <-m.stuck:
		case <-m.cutOff:
		}
	}
	select {
	case <-m.cutOff:
		return errCut
	default:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s.Welcome != nil:
		m.welcome = s.Welcome
	case s.Reply != nil:
		m.answers[s.Reply.Seq] = s.Reply
	case s.Heartbeat != nil:
		m.beats = append(m.beats, s.Heartbeat)
		m.w.line("%v  heartbeat %d to %d", m.w.now(), s.Heartbeat.Round, m.hello.Node)
		if m.reply != nil {
			if a := m.reply(s.Heartbeat); a != nil {
				go m.sends(a)
			}
		}
	}
	return nil
}

// sends sends an answer after the member's delay, if the link still is.
func (m *member) sends(a *session.Answer) {
	timer := time.NewTimer(m.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.cutOff:
		return
	}
	select {
	case m.out <- session.LearnerMessage{Answer: a}:
	case <-m.cutOff:
	}
}

func (m *member) Recv() (session.LearnerMessage, error) {
	select {
	case s := <-m.out:
		return s, nil
	case <-m.cutOff:
		return session.LearnerMessage{}, io.EOF
	}
}

// line adds a line to the transcript.
func (w *world) line(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// transcript returns the lines, those of one moment sorted.
func (w *world) transcript() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.lines, func(a, b string) int {
		da, _ := time.ParseDuration(strings.Fields(a)[0])
		db, _ := time.ParseDuration(strings.Fields(b)[0])
		if da != db {
			return int(da - db)
		}
		return strings.Compare(a, b)
	})
	return strings.Join(w.lines, "\n")
}

// prompt answers every heartbeat at once, without touches.
func prompt(b *session.Heartbeat) *session.Answer { return answer(b.Round) }

// answer is a whole answer of a sound relay; h is above every attachment.
func answer(round uint64, touches ...session.Touch) *session.Answer {
	return &session.Answer{
		Round: round, Term: term, Attachment: 1 << 40, VouchAge: forever,
		Touches: session.AppendTouches(nil, touches), Last: true,
	}
}

// join opens the next stream of a node, which answers by reply.
func (w *world) join(node session.Node, reply func(*session.Heartbeat) *session.Answer) *member {
	w.streams[node]++
	return w.stream(session.Hello{Node: node, Incarnation: 1, Stream: w.streams[node]}, reply)
}

func (w *world) stream(hello session.Hello, reply func(*session.Heartbeat) *session.Answer) *member {
	return w.follow(&member{w: w, hello: hello, reply: reply})
}

func (w *world) follow(m *member) *member {
	m.out, m.cutOff = make(chan session.LearnerMessage, 1<<14), make(chan struct{})
	m.ended, m.answers = make(chan error, 1), make(map[uint64]*session.Reply)
	m.cut = sync.OnceFunc(func() { close(m.cutOff) })
	w.t.Cleanup(m.cut)
	go func() {
		m.ended <- w.tracker.Follow(w.t.Context(), m.hello, m)
		m.cut()
	}()
	synctest.Wait()
	return m
}

// replies changes how the member answers from now on.
func (m *member) replies(by func(*session.Heartbeat) *session.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reply = by
}

// says sends an answer.
func (m *member) says(a *session.Answer) {
	m.out <- session.LearnerMessage{Answer: a}
	synctest.Wait()
}

// last returns the newest heartbeat.
func (m *member) last() *session.Heartbeat {
	m.w.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.beats) == 0 {
		m.w.t.Fatalf("at %v: no heartbeat to node %d", m.w.now(), m.hello.Node)
	}
	return m.beats[len(m.beats)-1]
}

// asks sends a request and lets everything settle.
func (m *member) asks(r session.Request) {
	m.out <- session.LearnerMessage{Request: &r}
	synctest.Wait()
}

// replied returns the reply to a request, nil while there is none.
func (m *member) replied(seq uint64) *session.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answers[seq]
}

// err returns why the stream has ended; it has to have.
func (m *member) err() error {
	m.w.t.Helper()
	synctest.Wait()
	select {
	case err := <-m.ended:
		return err
	default:
		m.w.t.Fatalf("at %v the stream of node %d has not ended", m.w.now(), m.hello.Node)
		return nil
	}
}
