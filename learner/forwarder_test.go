package learner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// fakeForward is the leader's end of one stream of writes.
type fakeForward struct {
	got     chan session.ForwardMessage
	refused chan []session.WriteRefusal
	ended   chan struct{}
	end     func()
}

func newFakeForward(depth int) *fakeForward {
	f := &fakeForward{
		got: make(chan session.ForwardMessage, depth), refused: make(chan []session.WriteRefusal),
		ended: make(chan struct{}),
	}
	f.end = sync.OnceFunc(func() { close(f.ended) })
	return f
}

func (f *fakeForward) Send(m session.ForwardMessage) error {
	select {
	case f.got <- m:
		return nil
	case <-f.ended:
		return errLinkEnded
	}
}

func (f *fakeForward) Recv() ([]session.WriteRefusal, error) {
	select {
	case all := <-f.refused:
		return all, nil
	case <-f.ended:
		return nil, errLinkEnded
	}
}

func (f *fakeForward) Close() error { f.end(); return nil }

// forwardingLeader is a leader that accepts writes, unless it refuses the streams.
type forwardingLeader struct {
	*fakeLeader
	mu      sync.Mutex
	refuses error
	depth   int
	// opened are the moments of all attempts, streams those that were taken.
	opened  []time.Time
	streams []*fakeForward
}

func (l *forwardingLeader) Forward() (ForwardLink, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = append(l.opened, time.Now())
	if l.refuses != nil {
		return nil, l.refuses
	}
	f := newFakeForward(l.depth)
	l.streams = append(l.streams, f)
	return f, nil
}

func (l *forwardingLeader) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses = err
}

// stream returns the only stream that was opened since the last call.
func (l *forwardingLeader) stream() *fakeForward {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) != 1 {
		l.t.Fatalf("%d streams were opened, want 1", len(l.streams))
	}
	f := l.streams[0]
	l.streams = nil
	return f
}

func (l *forwardingLeader) attempts() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.opened)
}

// forwardEvents are a node's writes. It records the calls about streams.
type forwardEvents struct {
	wake chan struct{}

	mu     sync.Mutex
	told   []string
	wanted bool
	// queued are the messages to send on the open stream, waits those to send when one begins.
	queued, waits []session.ForwardMessage
	// again is the moment to ask again.
	again time.Time
}

func newForwardEvents() *forwardEvents { return &forwardEvents{wake: make(chan struct{}, 1)} }

func (e *forwardEvents) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, fmt.Sprintf(format, args...))
}

// wants makes a stream wanted.
func (e *forwardEvents) wants() {
	e.mu.Lock()
	e.wanted = true
	e.mu.Unlock()
	notify(e.wake)
}

// sends queues a message with writes.
func (e *forwardEvents) sends(all ...session.ForwardedWrite) {
	e.mu.Lock()
	e.queued = append(e.queued, session.ForwardMessage{Writes: all})
	e.mu.Unlock()
	notify(e.wake)
}

func (e *forwardEvents) StreamWanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted
}

func (e *forwardEvents) Wake() <-chan struct{} { return e.wake }

func (e *forwardEvents) Next() (m session.ForwardMessage, more bool, again time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case time.Now().Before(e.again):
		return m, false, e.again
	case len(e.queued) == 0:
		return m, false, again
	}
	m, e.queued = e.queued[0], e.queued[1:]
	return m, true, again
}

func (e *forwardEvents) ForwardBegan() {
	e.note("began")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted, e.queued = false, e.waits
}

func (e *forwardEvents) WritesRefused(all []session.WriteRefusal) {
	for _, r := range all {
		e.note("refused %d/%d", r.Session, r.Number)
	}
}

func (e *forwardEvents) ForwardEnded(err error) { e.note("ended %t", errors.Is(err, errLinkEnded)) }

// since returns the records since the last call.
func (e *forwardEvents) since() string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	told := strings.Join(e.told, ", ")
	e.told = nil
	return told
}

type forwarding struct {
	*world
	leader *forwardingLeader
	events *forwardEvents
}

// forwarding runs a test with a node that follows a leader that accepts writes.
func inForwarding(t *testing.T, test func(w *forwarding)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		w := &forwarding{events: newForwardEvents()}
		cfg := config()
		cfg.Writes = w.events
		w.world = newWorldOf(t, cfg)
		w.followForwarding(64)
		test(w)
		w.leader.end()
		synctest.Wait()
	})
}

// followForwarding gives the node a new leader.
func (w *forwarding) followForwarding(depth int) {
	w.t.Helper()
	if w.leader != nil {
		w.leader.end()
		synctest.Wait()
	}
	w.leader = &forwardingLeader{fakeLeader: newFakeLeader(w.t), depth: depth}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.server.Follow(w.leader)
	}()
	w.t.Cleanup(func() { w.leader.end(); <-done })
	synctest.Wait()
}

func aWrite(id session.ID, n uint64) session.ForwardedWrite {
	return session.ForwardedWrite{Command: fmt.Appendf(nil, "%d/%d", id, n), Weight: 1, Session: id, Number: n}
}

func (w *forwarding) tells(want string) {
	w.t.Helper()
	if got := w.events.since(); got != want {
		w.t.Errorf("the node was told %q, want %q", got, want)
	}
}

// opens makes the node open a stream.
func (w *forwarding) opens() *fakeForward {
	w.t.Helper()
	w.events.wants()
	f := w.leader.stream()
	w.tells("began")
	return f
}

// W1: a stream is opened once there are writes. They go in order, and the node gets the leader's refusals.
func TestWritesAreForwardedInOrder(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		time.Sleep(time.Minute)
		if n := len(w.leader.attempts()); n != 0 {
			t.Errorf("%d streams without a write", n)
		}
		f := w.opens()
		for n := uint64(1); n <= 3; n++ {
			w.events.sends(aWrite(5, n), aWrite(6, n))
		}
		synctest.Wait()
		var got []string
		for len(f.got) > 0 {
			for _, one := range (<-f.got).Writes {
				got = append(got, string(one.Command))
			}
		}
		if want := []string{"5/1", "6/1", "5/2", "6/2", "5/3", "6/3"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		f.refused <- []session.WriteRefusal{{Session: 5, Number: 1}, {Session: 5, Number: 2}}
		w.tells("refused 5/1, refused 5/2")
		f.end()
		w.tells("ended true")
	})
}

// A write that waits for a slow stream stays in the table. The end of the stream is reported once.
func TestASlowStreamPullsNothing(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		w.leader.depth = 0
		f := w.opens()
		for n := uint64(1); n <= 3; n++ {
			w.events.sends(aWrite(5, 6+n))
		}
		synctest.Wait() // the first message is stuck
		if n := len(w.events.queued); n != 2 {
			t.Errorf("%d messages are left in the table, want 2", n)
		}
		f.end()
		w.tells("ended true")
		w.events.waits = []session.ForwardMessage{{Writes: []session.ForwardedWrite{aWrite(5, 1)}}}
		w.events.wants()
		time.Sleep(maxReopen)
		second := w.leader.stream()
		w.tells("began")
		if m := <-second.got; len(m.Writes) != 1 || m.Writes[0].Number != 1 {
			t.Errorf("the next stream begins with %d writes, %+v", len(m.Writes), m.Writes[0])
		}
	})
}

// A stream asks again at the moment that the table names, without a signal.
func TestAStreamAsksAgainInTime(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		f := w.opens()
		w.events.mu.Lock()
		w.events.again = time.Now().Add(time.Second)
		w.events.mu.Unlock()
		w.events.sends(aWrite(5, 1))
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if len(f.got) > 0 {
			t.Error("sent too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if len(f.got) != 1 {
			t.Errorf("%d messages, want 1", len(f.got))
		}
	})
}

// A leader that accepts no stream is asked again later and later, and at once after a stream that lasted.
func TestStreamsAreReopenedLaterAndLater(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		w.leader.refuse(session.ErrNotLeader)
		w.events.wants()
		time.Sleep(20 * time.Second)
		at := w.leader.attempts()
		for i, want := 1, minReopen; i < len(at); i, want = i+1, min(2*want, maxReopen) {
			if got := at[i].Sub(at[i-1]); got != want {
				t.Errorf("attempt %d after %v, want %v", i, got, want)
			}
		}
		if len(at) < 20 {
			t.Errorf("%d attempts in 20 s", len(at))
		}
		w.tells("")
		w.leader.refuse(nil)
		time.Sleep(maxReopen)
		f := w.leader.stream()
		w.tells("began")
		time.Sleep(maxReopen + 1)
		f.end()
		w.tells("ended true")
		begun := time.Now()
		w.events.wants()
		time.Sleep(maxReopen)
		if at := w.leader.attempts(); at[len(at)-1].Sub(begun) != minReopen {
			t.Errorf("opened %v after the end, want %v", at[len(at)-1].Sub(begun), minReopen)
		}
		w.leader.stream()
	})
}

// A node that wanted to write while it had no leader opens a stream to the next one.
func TestWritesWithoutALeaderFindTheNextOne(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		f := w.opens()
		w.leader.end()
		w.tells("ended true")
		if _, open := <-f.ended; open {
			t.Error("the stream has not ended")
		}
		w.events.wants()
		w.events.waits = []session.ForwardMessage{{Writes: []session.ForwardedWrite{aWrite(5, 1)}}}
		w.followForwarding(1)
		f = w.leader.stream()
		w.tells("began")
		if m := <-f.got; len(m.Writes) != 1 {
			t.Errorf("%d writes", len(m.Writes))
		}
	})
}

// A node whose leader accepts no writes opens no stream, and everything else continues.
func TestNoWritesForALeaderThatAcceptsNone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := config()
		events := newForwardEvents()
		cfg.Writes = events
		w := newWorldOf(t, cfg)
		w.follow()
		events.wants()
		time.Sleep(maxReopen)
		if told := events.since(); told != "" {
			t.Errorf("told %q", told)
		}
	})
}
