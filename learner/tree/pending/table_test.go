package pending_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

type bag struct{}

func (bag) Add([]byte)    {}
func (bag) Remove([]byte) {}

// begun is when the tests begin.
var begun = time.Unix(1e9, 0)

// encode writes number, acknowledgement, mark and void, so that tests see what was sent.
func encode(w pending.Write) []byte {
	b := binary.BigEndian.AppendUint64(nil, w.Number)
	b = binary.BigEndian.AppendUint64(b, w.Acked)
	if w.ReadsBefore {
		b = append(b, "reads "...)
	}
	if w.Void {
		return append(b, "void"...)
	}
	return append(b, w.Body...)
}

// node is a table with a state.
type node struct {
	*testing.T
	*pending.Table
	state *writers.Table
	now   time.Time
}

func newNode(t *testing.T, change func(*pending.Limits)) *node {
	t.Helper()
	limits := pending.DefaultLimits()
	if change != nil {
		change(&limits)
	}
	n := &node{T: t, Table: pending.New(limits, encode), state: writers.New(bag{}, writers.DefaultLimits()), now: begun}
	n.StreamBegan(begun)
	return n
}

const (
	id         = session.ID(7)
	attachment = 3
)

func numbered(number uint64) pending.Write {
	return pending.Write{Session: id, Attachment: attachment, Number: number, Weight: 1, Body: []byte("body")}
}

// accept requires that writes are accepted.
func (n *node) accept(numbers ...uint64) {
	n.Helper()
	for _, number := range numbers {
		if err := n.Accept(numbered(number), n.state, n.now); err != nil {
			n.Fatalf("write %d: %v", number, err)
		}
	}
}

// sends requires that just these numbers are sent now.
func (n *node) sends(want ...uint64) {
	n.Helper()
	var got []uint64
	for _, one := range n.Next(n.now) {
		got = append(got, one.Number)
	}
	if !slices.Equal(got, want) {
		n.Fatalf("sent %v, want %v", got, want)
	}
}

// applied records a verdict on a write.
func (n *node) applied(number uint64, err error) {
	n.Applied([]pending.Outcome{{Session: id, Attachment: attachment, Number: number, Err: err}}, n.now)
}

// idle requires that no write is pending.
func (n *node) idle(when string) {
	n.Helper()
	if sessions, bytes := n.Waiting(); sessions != 0 || bytes != 0 {
		n.Errorf("%s: %d sessions with %d bytes are pending", when, sessions, bytes)
	}
}

// takes makes the state apply the next writes.
func (n *node) takes(from, to uint64) {
	for number := from; number <= to; number++ {
		if v, _ := n.state.Admit(uint64(id), number, 0); v != writers.Apply {
			n.Fatalf("write %d gets %v", number, v)
		}
		n.state.Keep(uint64(id), number, "", fmt.Appendf(nil, "result %d", number))
	}
}

func (n *node) busy(numbers ...uint64) {
	for _, number := range numbers {
		one := session.WriteRefusal{Session: id, Number: number, Why: session.WriteBusy, RetryAfter: time.Second}
		n.Refused([]session.WriteRefusal{one}, n.now)
	}
}

// TestAfterARefusal: the queue waits for exactly the time in the refusal, sends one, and doubles with each round (X7
// queue of the node).
func TestAfterARefusal(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1, 2, 3, 4, 5, 6, 7, 8)
	n.sends(1, 2, 3, 4, 5, 6, 7, 8)
	n.busy(1)
	n.sends()
	if at, ok := n.Wake(); !ok || !at.Equal(begun.Add(time.Second)) {
		t.Errorf("wakes at %v, %v", at, ok)
	}
	n.now = begun.Add(time.Second - 1)
	n.sends()
	n.now = begun.Add(time.Second)
	n.sends(1)
	n.applied(1, nil)
	n.sends(2, 3)
	n.applied(2, nil)
	n.applied(3, nil)
	n.sends(4, 5, 6, 7)
}

// TestALateCallerLosesNothing: a caller of Next was slow, and another goroutine listed the session before it. The
// session stays in the table's timers.
func TestALateCallerLosesNothing(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1)
	n.sends(1)
	n.busy(1)
	n.now = begun.Add(time.Second + 1)
	n.accept(2)
	n.now = begun.Add(time.Second - 1)
	n.sends()
	if at, ok := n.Wake(); !ok || !at.Equal(begun.Add(time.Second)) {
		t.Errorf("wakes at %v, %v", at, ok)
	}
	n.now = begun.Add(time.Second + 2)
	n.sends(1)
}

// TestWaitsDouble: a queue without a time in its refusal waits twice as long each time, up to a second.
func TestWaitsDouble(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1)
	for _, want := range []int64{50, 100, 200, 400, 800, 1000, 1000} {
		n.sends(1)
		n.applied(1, &tree.WindowError{})
		at, _ := n.Wake()
		if wait := at.Sub(n.now).Milliseconds(); wait != want {
			t.Errorf("waits %d ms, want %d", wait, want)
		}
		n.now = at
	}
}

// TestAGapOfTheState: it sends the queue back at once. The copies behind the gap send it
// back no further time: otherwise 255 of them would send one write 255 times.
func TestAGapOfTheState(t *testing.T) {
	n := newNode(t, nil)
	for number := range uint64(256) {
		n.accept(number + 1)
	}
	if got := len(n.Next(n.now)); got != 256 {
		t.Fatalf("sent %d", got)
	}
	again := 0
	for number := uint64(2); number <= 256; number++ {
		n.applied(number, &tree.GapError{Expected: 1})
		again += len(n.Next(n.now))
	}
	if again != 1 {
		t.Errorf("sent %d writes again, want 1", again)
	}
	n.applied(1, nil)
	n.sends(2, 3)
}

// TestEvenIfAnswered: write 2 is refused, an old copy of it applies, and 3 was a gap. Any of the two refusals must make
// the queue send 3 again (X7).
func TestEvenIfAnswered(t *testing.T) {
	for name, refuse := range map[string]func(n *node){
		"by the leader": func(n *node) { n.busy(2) },
		"by the state":  func(n *node) { n.applied(2, &tree.WindowError{}) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, nil)
			n.accept(1, 2, 3)
			n.sends(1, 2, 3)
			n.applied(1, nil)
			n.applied(2, nil)
			refuse(n)
			n.now = n.now.Add(time.Second)
			n.sends(3)
		})
	}
}

// TestNewStream: all unanswered writes go out again, also those that wait after a refusal (X7).
func TestNewStream(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1, 2, 3)
	n.sends(1, 2, 3)
	n.applied(1, nil)
	n.StreamEnded()
	n.accept(4)
	n.sends()
	n.StreamBegan(n.now)
	n.sends(2, 3, 4)
	n.busy(2)
	n.StreamBegan(n.now)
	n.sends(2, 3, 4)
}

// TestRestored: what the state has is pending no longer, and the rest is sent again (W4 answers from applied entries).
func TestRestored(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1, 2, 3, 4)
	n.sends(1, 2, 3, 4)
	n.takes(1, 3)
	n.Restored(n.state, func(session.ID, uint64) error { return nil }, n.now)
	n.sends(4)
	n.applied(2, nil)
	n.sends()
	n.applied(4, nil)
	n.idle("after the last answer")
}

// TestRestoredPastAMove: an attachment that has ended sends nothing more.
func TestRestoredPastAMove(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1)
	n.Restored(n.state, func(session.ID, uint64) error { return session.ErrMoved }, n.now)
	n.sends()
	n.idle("after the move")
}

// TestVoid: it replaces the unanswered write with its number and goes out, also if the write has (X6 giving up).
func TestVoid(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1, 2)
	n.sends(1, 2)
	void := numbered(2)
	void.Void, void.Body = true, nil
	if err := n.Accept(void, n.state, n.now); err != nil {
		t.Fatal(err)
	}
	all := n.Next(n.now)
	if len(all) != 2 || string(all[1].Command[16:]) != "void" {
		t.Fatalf("sent %v", all)
	}
	n.applied(1, nil)
	n.applied(2, nil)
	if err := n.Accept(void, n.state, n.now); err != nil {
		t.Errorf("a void of an answered number: %v", err)
	}
	n.idle("after a void of an answered number")
}

// TestReadsBefore: a copy that another connection sends, or the void of a client that gives up, keeps the mark of either
// (G3 order in a session).
func TestReadsBefore(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1, 2)
	n.sends(1, 2)
	first, second := numbered(1), numbered(2)
	first.ReadsBefore, second.Void, second.Body = true, true, nil
	marked := numbered(2)
	marked.ReadsBefore = true
	for _, w := range []pending.Write{first, marked, second, numbered(1)} {
		if err := n.Accept(w, n.state, n.now); err != nil {
			t.Fatal(err)
		}
	}
	n.StreamEnded()
	n.StreamBegan(n.now)
	all := n.Next(n.now)
	if len(all) != 2 || string(all[0].Command[16:]) != "reads body" || string(all[1].Command[16:]) != "reads void" {
		t.Fatalf("sent %v", all)
	}
}

// TestNewestAcknowledgement: a write that is sent again says what the client has now. Otherwise a full window stays
// full.
func TestNewestAcknowledgement(t *testing.T) {
	n := newNode(t, nil)
	n.takes(1, 5)
	n.accept(6, 7)
	n.sends(6, 7)
	n.applied(6, &tree.WindowError{})
	n.sends()
	n.Acknowledged(id, attachment, 5, n.state, n.now) // there is room now, so it waits no longer
	all := n.Next(n.now)
	if len(all) != 1 || binary.BigEndian.Uint64(all[0].Command[8:]) != 5 {
		t.Fatalf("sent %v", all)
	}
}

// TestEnds: a move ends the writes of former attachments, and what a former one may do.
func TestEnds(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1, 2)
	n.applied(1, nil)
	n.Moved(id, attachment)
	n.sends(2) // its own move ends nothing
	n.Moved(id, attachment+1)
	n.idle("after a move")
	n.takes(1, 1)
	next := numbered(2)
	next.Attachment++
	if err := n.Accept(next, n.state, n.now); err != nil {
		t.Fatal(err)
	}
	if err := n.Accept(numbered(3), n.state, n.now); !errors.Is(err, session.ErrMoved) {
		t.Errorf("a write of the former attachment: %v", err)
	}
	n.applied(2, nil) // a copy of the former attachment answers nothing
	n.sends(2)
	n.Gone(id)
	n.idle("after the end")
}

// TestBadFields: the field and its limit are named, and nothing is accepted.
func TestBadFields(t *testing.T) {
	n := newNode(t, nil)
	for field, change := range map[string]func(*pending.Write){
		"number": func(w *pending.Write) { w.Number = 0 },
		"acked":  func(w *pending.Write) { w.Acked = 1 },
		"weight": func(w *pending.Write) { w.Weight = 0 },
		"void":   func(w *pending.Write) { w.Void = true },
	} {
		w := numbered(1)
		change(&w)
		var bad *session.FieldError
		if err := n.Accept(w, n.state, n.now); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
		n.idle(field)
	}
}
