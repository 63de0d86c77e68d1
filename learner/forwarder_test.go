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

// forwardingLeader is a leader that takes writes, unless it refuses the streams.
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

// forwardEvents notes what a node is told, and sends what waits when a stream begins.
type forwardEvents struct {
	mu     sync.Mutex
	told   []string
	server *Server
	waits  []session.ForwardedWrite
}

func (e *forwardEvents) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, fmt.Sprintf(format, args...))
}

func (e *forwardEvents) ForwardBegan() {
	e.note("began")
	if e.waits != nil {
		e.note("sent %v", e.server.Forward(e.waits))
	}
}

func (e *forwardEvents) WritesRefused(all []session.WriteRefusal) {
	for _, r := range all {
		e.note("refused %d/%d", r.Session, r.Number)
	}
}

func (e *forwardEvents) ForwardEnded(err error) { e.note("ended %t", errors.Is(err, errLinkEnded)) }

// since returns what was told since the last call.
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

// forwarding runs a test with a node that follows a leader that takes writes.
func inForwarding(t *testing.T, test func(w *forwarding)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		w := &forwarding{events: &forwardEvents{}}
		cfg := config()
		cfg.Forwards = w.events
		w.world = newWorldOf(t, cfg)
		w.events.server = w.server
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
	if err := w.server.Forward(nil); !errors.Is(err, session.ErrNoLeader) {
		w.t.Fatalf("Forward without a stream: %v, want %v", err, session.ErrNoLeader)
	}
	f := w.leader.stream()
	w.tells("began")
	return f
}

// W1: a stream is opened once there are writes. They go in order, and the node hears what the leader refuses.
func TestWritesAreForwardedInOrder(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		time.Sleep(time.Minute)
		if n := len(w.leader.attempts()); n != 0 {
			t.Errorf("%d streams without a write", n)
		}
		f := w.opens()
		for n := uint64(1); n <= 3; n++ {
			if err := w.server.Forward([]session.ForwardedWrite{aWrite(5, n), aWrite(6, n)}); err != nil {
				t.Fatal(err)
			}
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

// The end of a stream is told once, and what waited for it is not sent on the next.
func TestAnEndedStreamTakesItsWritesAlong(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		w.leader.depth = 0
		f := w.opens()
		many := make([]session.ForwardedWrite, 2*session.MaxPeerBatch)
		for i := range many {
			many[i] = aWrite(5, uint64(i+1))
		}
		if err := w.server.Forward(many); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the first message is stuck, the second waits
		f.end()
		w.tells("ended true")
		w.events.waits = []session.ForwardedWrite{aWrite(5, 1)}
		if err := w.server.Forward(nil); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("Forward: %v", err)
		}
		time.Sleep(maxReopen)
		second := w.leader.stream()
		w.tells("began, sent <nil>")
		if m := <-second.got; len(m.Writes) != 1 || m.Writes[0].Number != 1 {
			t.Errorf("the next stream begins with %d writes, %+v", len(m.Writes), m.Writes[0])
		}
	})
}

// Messages are bounded by number and by bytes. One write may be larger.
func TestForwardedMessagesAreBounded(t *testing.T) {
	large := func(size int) session.ForwardedWrite {
		return session.ForwardedWrite{Command: make([]byte, size), Weight: 1, Session: 1, Number: 1}
	}
	small := slices.Repeat([]session.ForwardedWrite{large(1)}, session.MaxPeerBatch+1)
	for name, tt := range map[string]struct {
		writes []session.ForwardedWrite
		want   []int
	}{
		"by number": {small, []int{session.MaxPeerBatch, 1}},
		"by bytes":  {[]session.ForwardedWrite{large(1 << 19), large(1 << 19), large(1)}, []int{2, 1}},
		"alone": {
			[]session.ForwardedWrite{large(1), large(session.MaxCommandBytes), large(1), large(2)}, []int{1, 1, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inForwarding(t, func(w *forwarding) {
				f := w.opens()
				if err := w.server.Forward(tt.writes); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				var got []int
				for len(f.got) > 0 {
					got = append(got, len((<-f.got).Writes))
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("messages of %v writes, want %v", got, tt.want)
				}
			})
		})
	}
}

// X3: acknowledgements overtake writes that wait, in messages of their own.
func TestAcknowledgementsAreForwarded(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		w.leader.depth = 0
		if err := w.server.Acknowledge(nil); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("Acknowledge: %v", err)
		}
		f := w.leader.stream()
		if err := w.server.Forward([]session.ForwardedWrite{aWrite(5, 1)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // stuck
		if err := w.server.Forward([]session.ForwardedWrite{aWrite(5, 2)}); err != nil {
			t.Fatal(err)
		}
		all := make([]session.Acknowledged, session.MaxPeerBatch+1)
		if err := w.server.Acknowledge(all); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{-1, session.MaxPeerBatch, 1, -1} {
			m := <-f.got
			if got := len(m.Acknowledged) - len(m.Writes); got != want {
				t.Errorf("%d acknowledgements, %d writes, want %d", len(m.Acknowledged), len(m.Writes), want)
			}
		}
	})
}

// W7: what waits for a leader that reads nothing is bounded.
func TestWritesThatWaitAreBounded(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		w.leader.depth = 0
		w.opens()
		large := session.ForwardedWrite{Command: make([]byte, session.MaxCommandBytes), Weight: 1, Session: 1, Number: 1}
		var err error
		sent := 0
		for ; err == nil && sent < 1000; sent++ {
			err = w.server.Forward([]session.ForwardedWrite{large})
			synctest.Wait()
		}
		limit, ok := errors.AsType[*session.LimitError](err)
		if most := maxUnsent/len(large.Command) + 2; !ok || limit.Name != "forward_bytes_unsent" || sent > most {
			t.Errorf("after %d writes: %v, want a limit after at most %d", sent, err, most)
		}
		many := make([]session.Acknowledged, maxAcknowledged)
		if err := w.server.Acknowledge(many); err != nil {
			t.Error(err)
		}
		if err := w.server.Acknowledge(many[:1]); !errors.Is(err, session.ErrLimit) {
			t.Errorf("Acknowledge: %v, want a limit", err)
		}
	})
}

// A leader that takes no stream is asked again later and later, and at once after a stream that lasted.
func TestStreamsAreReopenedLaterAndLater(t *testing.T) {
	inForwarding(t, func(w *forwarding) {
		w.leader.refuse(session.ErrNotLeader)
		if err := w.server.Forward(nil); !errors.Is(err, session.ErrNoLeader) {
			t.Fatal(err)
		}
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
		_ = w.server.Forward(nil)
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
		if err := w.server.Forward([]session.ForwardedWrite{aWrite(5, 1)}); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("Forward without a leader: %v", err)
		}
		w.events.waits = []session.ForwardedWrite{aWrite(5, 1)}
		w.followForwarding(1)
		f = w.leader.stream()
		w.tells("began, sent <nil>")
		if m := <-f.got; len(m.Writes) != 1 {
			t.Errorf("%d writes", len(m.Writes))
		}
	})
}

// A server whose events nobody hears, or whose leader takes no writes, forwards none.
func TestNoWritesAreForwardedToAFormerLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Forwards = &forwardEvents{}
		w := newWorldOf(t, cfg)
		w.follow()
		for range 2 {
			if err := w.server.Forward([]session.ForwardedWrite{aWrite(5, 1)}); !errors.Is(err, session.ErrNoLeader) {
				t.Errorf("Forward: %v, want %v", err, session.ErrNoLeader)
			}
		}
	})
}
