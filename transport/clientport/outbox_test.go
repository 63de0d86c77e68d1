package clientport

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// heap returns how many bytes are reachable.
func heap() int {
	runtime.GC()
	runtime.GC() // the first one leaves pooled memory
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// After many sessions have ended at once, the answer to a touch of all sessions names each of them again. The client
// has the reasons and certificates from the events, and can accept the answer.
func TestTheTouchAfterManySessionsEnded(t *testing.T) {
	for n, certificates := range map[int]bool{session.MaxTouchBatch: true, 100_000: false} {
		failures := make([]session.TouchFailure, n)
		for i := range failures {
			id := session.ID(i + 1)
			c := porttest.Certificate(id)
			failures[i] = session.TouchFailure{ID: id, Err: &session.ExpiredError{ID: id, Certificate: &c}}
		}
		answer := &holdfastv1.Touched{Failures: failuresProto(failures)}
		o := newOutbox(4096, new(port.Account), port.ReadTimeout, noState)
		o.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: answer}})
		if size := proto.Size(answer); o.err() != nil || size > 4*wire.DefaultMessageBytes {
			t.Errorf("%d failures: %v, %d bytes; a client takes %d", n, o.err(), size, 4*wire.DefaultMessageBytes)
		}
		for i, f := range answer.GetFailures() {
			err := wire.FromDetail(f.GetError(), "")
			ended, _ := errors.AsType[*session.ExpiredError](err)
			if f.GetId() != uint64(i+1) || !errors.Is(err, session.ErrExpired) ||
				(ended != nil && ended.Certificate != nil) != certificates {
				t.Fatalf("%d failures: that of session %d says %v, certificate %v", n, f.GetId(), err, ended)
			}
		}
	}
}

// TestWaitingAnswersCountTheirCost: answers to touches of sessions that live elsewhere, or have ended, are far larger
// than the requests.
func TestWaitingAnswersCountTheirCost(t *testing.T) {
	ids := make([]session.ID, session.MaxTouchBatch)
	for i := range ids {
		ids[i] = session.ID(i + 1)
	}
	for name, refusal := range map[string]func(session.ID) error{
		"moved": func(session.ID) error { return session.ErrMoved },
		"ended": func(id session.ID) error {
			c := porttest.Certificate(id)
			return &session.ExpiredError{ID: id, Certificate: &c}
		},
	} {
		o := newOutbox(4096, new(port.Account), port.ReadTimeout, noState)
		before := heap()
		for o.bytes < maxOutgoingBytes/2 {
			failures := make([]session.TouchFailure, len(ids))
			for i, id := range ids {
				failures[i] = session.TouchFailure{ID: id, Err: refusal(id)}
			}
			o.add(
				&holdfastv1.ServerMessage{
					Message: &holdfastv1.ServerMessage_Touched{
						Touched: &holdfastv1.Touched{Failures: failuresProto(failures)},
					},
				},
			)
			if o.err() != nil {
				t.Fatalf("%s: one answer is more than half of the stream's bound", name)
			}
		}
		if cost := heap() - before; cost < o.bytes/2 || cost > o.bytes*5/4 {
			t.Errorf("%s: %d bytes wait, %d are counted", name, cost, o.bytes)
		}
		runtime.KeepAlive(o)
	}
}

// A queue that never becomes empty keeps only its waiting messages, and none that was sent.
func TestSentMessagesAreGivenBack(t *testing.T) {
	o := newOutbox(4096, new(port.Account), port.ReadTimeout, noState)
	for range 2000 {
		o.jeopardyEnded()
	}
	before := heap()
	const large = 500_000
	for range 10 {
		o.jeopardy(time.Time{}, []string{strings.Repeat("n", large)})
	}
	for len(o.queue) > 1 {
		batch, _ := o.nextBatch()
		if len(batch) == 0 {
			t.Fatal("no message is taken from a queue")
		}
		clear(batch)
	}
	if kept := heap() - before; kept > 2*large || o.err() != nil {
		t.Errorf("%d bytes are kept, %d of them in messages that wait", kept, o.bytes)
	}
	runtime.KeepAlive(o)
}

// Messages in the writer's hands are not counted on the stream, so it takes few bytes at once, and keeps no sent
// message.
func TestTheWriterHoldsLittle(t *testing.T) {
	o := newOutbox(4096, new(port.Account), port.ReadTimeout, noState)
	const large = 500_000
	for range 10 {
		o.jeopardy(time.Time{}, []string{strings.Repeat("n", large)})
	}
	all := o.bytes
	stop := errors.New("stop")
	_, err := (&writer{out: o}).run(t.Context(), func(any) error { return stop })
	if taken := all - o.bytes; !errors.Is(err, stop) || taken > 2*large {
		t.Errorf("%v: %d bytes were taken to send one message", err, taken)
	}
}

// A writer without a goroutine keeps no message that it has sent.
func TestAnIdleWriterKeepsNothing(t *testing.T) {
	o := newOutbox(4096, new(port.Account), port.ReadTimeout, noState)
	w, before := &writer{out: o}, heap()
	const large = 5_000_000
	o.jeopardy(time.Time{}, []string{strings.Repeat("n", large)})
	if closed, err := w.run(t.Context(), func(any) error { return nil }); closed || err != nil {
		t.Errorf("closed %t, %v", closed, err)
	}
	if kept := heap() - before; kept > large/2 || o.bytes != 0 || w.next.parts != nil {
		t.Errorf("%d bytes and %d parts are kept after all was sent, %d bytes are counted", kept, cap(w.next.parts), o.bytes)
	}
	o.close()
	if closed, err := w.run(t.Context(), func(any) error { return nil }); !closed || err != nil {
		t.Errorf("closed %t, %v", closed, err)
	}
}

// A goroutine runs while there is something to send, one at a time, and none after the end.
func TestAWriterRunsOnDemand(t *testing.T) {
	o := newOutbox(4096, new(port.Account), port.ReadTimeout, noState)
	w, started := &writer{out: o, ended: make(chan error, 1)}, 0
	w.start = func() { started++ }
	o.wake = w.wake
	serves := func(want int) {
		t.Helper()
		if started != want {
			t.Errorf("%d goroutines were started, want %d", started, want)
		}
		sent := 0
		w.serve(t.Context(), func(any) error {
			if sent++; sent == 1 {
				o.jeopardyEnded() // is sent by the same goroutine
			}
			return nil
		})
		if sent != 2 {
			t.Errorf("%d messages were sent, want 2", sent)
		}
	}
	for n := range 2 {
		o.jeopardyEnded()
		serves(n + 1)
	}
	o.jeopardyEnded()
	o.close()
	w.serve(t.Context(), func(any) error { return nil })
	w.wake()
	if err := <-w.ended; err != nil || started != 3 {
		t.Errorf("ended with %v after %d goroutines, want 3", err, started)
	}
	w.wake() // after the goroutine has found nothing, before it ends
	if w.endIfIdle() || !w.endIfIdle() {
		t.Error("a message behind the last look waits for another message")
	}
	w.stop()
	if w.wake(); started != 3 {
		t.Error("a stopped writer started a goroutine")
	}
}

// TestTheEndOfManySessionsFits: a client that reads late gets the ends of all its sessions, and its touch of all
// sessions is answered.
func TestTheEndOfManySessionsFits(t *testing.T) {
	const sessions = 100_000
	l := port.NewLedger(32<<20, 1024)
	a := l.NewAccount(func(time.Duration) { t.Error("the connection was ended") })
	o := newOutbox(4096, a, port.ReadTimeout, noState)
	o.allow(sessions)
	failures := make([]session.TouchFailure, sessions)
	for i := range failures {
		c := porttest.Certificate(session.ID(1<<60 + i))
		failures[i] = session.TouchFailure{ID: c.ID, Err: &session.ExpiredError{ID: c.ID, Certificate: &c}}
		o.addExpiry(c)
	}
	o.add(
		&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{Failures: failuresProto(failures)}},
		},
	)
	if o.err() != nil || l.Waiting() > maxOutgoingBytes {
		t.Errorf("%v: %d bytes wait on the stream, %d count on the node", o.err(), o.bytes, l.Waiting())
	}
	if o.drop(); l.Waiting() != 0 {
		t.Errorf("%d bytes count on the node after the end of the stream", l.Waiting())
	}
	// A remaining allowance would hide this byte.
	if a.Add(1); l.Waiting() != 1 {
		t.Errorf("%d bytes count on the node, want 1: the stream left an allowance", l.Waiting())
	}
}

// Whatever wakes a writer, and whenever, all that is queued before the end is sent, by one goroutine at a time.
func TestAWriterWithManyWakers(t *testing.T) {
	const wakers, each = 8, 500
	o := newOutbox(wakers*each, new(port.Account), port.ReadTimeout, noState)
	w := &writer{out: o, ended: make(chan error, 1)}
	var running atomic.Int32
	var serving sync.WaitGroup
	sent := 0
	w.start = func() {
		serving.Go(func() {
			w.serve(t.Context(), func(m any) error {
				if running.Add(1) > 1 {
					t.Error("two goroutines send")
				}
				sent += len(m.(*parcel).parts)
				running.Add(-1)
				return nil
			})
		})
	}
	o.wake = w.wake
	var waking sync.WaitGroup
	for range wakers {
		waking.Go(func() {
			for range each {
				o.jeopardyEnded()
			}
		})
	}
	waking.Wait()
	o.close()
	if err := <-w.ended; err != nil || sent != wakers*each {
		t.Errorf("%d messages were sent, want %d; %v", sent, wakers*each, err)
	}
	w.stop()
	serving.Wait()
}
