package leader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/test/bubble"
)

// forwarder is a scripted node at the other end of a Forward stream.
type forwarder struct {
	t      *testing.T
	out    chan session.ForwardMessage
	cutOff chan struct{}
	cut    func()
	ended  chan error

	mu      sync.Mutex
	term    uint64
	refused []session.WriteRefusal
	// stuck blocks Refuse until the stream is cut.
	stuck bool
}

func (f *forwarder) Welcome(term uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.term = term
	return nil
}

func (f *forwarder) Refuse(all []session.WriteRefusal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck {
		f.mu.Unlock()
		<-f.cutOff
		f.mu.Lock()
		return errCut
	}
	f.refused = append(f.refused, all...)
	return nil
}

func (f *forwarder) Recv() (session.ForwardMessage, error) {
	select {
	case m := <-f.out:
		return m, nil
	case <-f.cutOff:
		return session.ForwardMessage{}, io.EOF
	}
}

// writes sends writes of a session in one message, and waits until all goroutines are idle.
func (f *forwarder) writes(id session.ID, numbers ...uint64) {
	f.t.Helper()
	var m session.ForwardMessage
	for _, n := range numbers {
		m.Writes = append(m.Writes, forwarded(id, n))
	}
	f.says(m)
}

func (f *forwarder) says(m session.ForwardMessage) {
	f.out <- m
	synctest.Wait()
}

// told returns the refusals since the last call, as text.
func (f *forwarder) told() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.refused {
		all = append(all, fmt.Sprintf("%d/%d %v %v", r.Session, r.Number, r.Why, r.RetryAfter))
	}
	f.refused = nil
	return all
}

func (f *forwarder) err() error {
	f.t.Helper()
	synctest.Wait()
	select {
	case err := <-f.ended:
		return err
	default:
		f.t.Fatal("the stream has not ended")
		return nil
	}
}

// lives fails if the stream has ended.
func (f *forwarder) lives() {
	f.t.Helper()
	synctest.Wait()
	select {
	case err := <-f.ended:
		f.t.Fatalf("the stream has ended: %v", err)
	default:
	}
}

func forwarded(id session.ID, n uint64) session.ForwardedWrite {
	return session.ForwardedWrite{Command: fmt.Appendf(nil, "%d/%d", id, n), Weight: 1, Session: id, Number: n}
}

// writeLog is a log that holds writes until the test decides.
type writeLog struct {
	mu sync.Mutex
	// all are the texts of the commands, in their order.
	all []string
	// waiting are told later.
	waiting map[string][]func(session.Result, error)
	// full, if set, refuses commands at once.
	full error
}

func (l *writeLog) Propose(context.Context, session.Command) (session.Result, error) {
	return session.Result{}, session.ErrNoLeader
}

func (l *writeLog) Submit(c session.Command, done func(session.Result, error)) {
	one, ok := c.(session.TreeCommand)
	if !ok {
		done(session.Result{}, session.ErrNoLeader)
		return
	}
	l.mu.Lock()
	full := l.full
	if full == nil {
		l.all = append(l.all, string(one.Encoded))
		l.waiting[string(one.Encoded)] = append(l.waiting[string(one.Encoded)], done)
	}
	l.mu.Unlock()
	if full != nil {
		done(session.Result{}, full)
	}
}

func (l *writeLog) refuses(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = err
}

// submitted returns the commands since the last call.
func (l *writeLog) submitted() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// tell reports the outcome of the oldest waiting copy of a command.
func (l *writeLog) tell(command string, err error) {
	l.mu.Lock()
	done := l.waiting[command][0]
	l.waiting[command] = l.waiting[command][1:]
	l.mu.Unlock()
	done(session.Result{Term: term}, err)
	synctest.Wait()
}

// forwardWorld is a tracker that accepts writes, with node 2 on a Follow stream and a Forward stream.
type forwardWorld struct {
	*world
	log    *writeLog
	member *member
	node   *forwarder
}

func forwards(t *testing.T, test func(w *forwardWorld)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		w := &forwardWorld{
			world: newWorld(t, voters(1, 2, 3)), log: &writeLog{waiting: map[string][]func(session.Result, error){}},
		}
		w.tracker = leader.New(leader.Config{
			Node: 1, Term: term, Interval: beat,
			Writes: leader.Writes{
				Check: func(one *session.ForwardedWrite) error {
					if string(one.Command) == "bad" {
						return errors.New("no write")
					}
					return nil
				},
				Acknowledge: func(all []session.Acknowledged) (session.Command, error) {
					return session.TreeCommand{Encoded: fmt.Appendf(nil, "ack %v", all), Weight: 1}, nil
				},
			},
		}, w.log, w.view)
		stop := w.run()
		defer func() { _ = stop() }()
		w.member = w.join(2, prompt)
		w.node = w.forward(session.ForwardHello{Node: 2, Incarnation: 1, Term: term})
		test(w)
		w.node.cut()
		w.member.cut()
		synctest.Wait()
	})
}

func (w *forwardWorld) forward(hello session.ForwardHello) *forwarder {
	f := &forwarder{
		t: w.t, out: make(chan session.ForwardMessage, 1<<10), cutOff: make(chan struct{}), ended: make(chan error, 1),
	}
	f.cut = sync.OnceFunc(func() { close(f.cutOff) })
	w.t.Cleanup(f.cut)
	go func() {
		f.ended <- w.tracker.Forward(w.t.Context(), hello, f)
		f.cut()
	}()
	synctest.Wait()
	return f
}

func (w *forwardWorld) submits(want ...string) {
	w.t.Helper()
	if got := w.log.submitted(); !slices.Equal(got, want) {
		w.t.Errorf("in the log: %q, want %q", got, want)
	}
}

func (w *forwardWorld) tells(want ...string) {
	w.t.Helper()
	if got := w.node.told(); !slices.Equal(got, want) {
		w.t.Errorf("the node was told %q, want %q", got, want)
	}
}
