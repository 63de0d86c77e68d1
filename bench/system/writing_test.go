package system

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/test/bubble"
)

// fakeNode is what a node does with writes: they wait until the test answers them.
type fakeNode struct {
	mu      sync.Mutex
	sent    []*holdfastv1.Write                // guarded by mu
	answers []func(*holdfastv1.Written, error) // guarded by mu
}

// all returns what was sent since the last takeSent.
func (n *fakeNode) all() []*holdfastv1.Write {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent
}

func (n *fakeNode) ask(w *holdfastv1.Write, answered func(*holdfastv1.Written, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent, n.answers = append(n.sent, w), append(n.answers, answered)
}

// takeSent returns the numbers that were sent since the last call, and what answers them.
func (n *fakeNode) takeSent() (numbers []uint64, answers []func(*holdfastv1.Written, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.sent {
		numbers = append(numbers, w.GetNumber())
	}
	answers = n.answers
	n.sent, n.answers = nil, nil
	return numbers, answers
}

var effected = &holdfastv1.Written{Outcome: &holdfastv1.Outcome{}}

func TestWritingKeepsToTheWindow(t *testing.T) {
	n := &fakeNode{}
	w := &writing{session: 7, ask: n.ask}
	done := 0
	for range 300 {
		w.do(&holdfastv1.Transaction{}, func(err error) {
			if err != nil {
				t.Error(err)
			}
			done++
		})
	}
	numbers, answers := n.takeSent()
	if len(numbers) != 256 || numbers[0] != 1 || numbers[255] != 256 {
		t.Fatalf("sent %v, want 1 to 256", numbers)
	}
	answers[0](effected, nil)
	answers[1](effected, nil)
	if len(n.all()) != 2 || n.all()[0].GetNumber() != 257 || n.all()[1].GetAcked() != 2 || n.all()[0].GetSessionId() != 7 {
		t.Errorf("sent %v behind two answers, want 257 and 258, the last with acked 2", n.all())
	}
	if done != 2 {
		t.Errorf("%d writes are done, want 2", done)
	}
}

func TestWritingGoesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		w := &writing{session: 7, ask: n.ask}
		var done []string
		for i := range 3 {
			w.do(&holdfastv1.Transaction{}, func(err error) { done = append(done, fmt.Sprint(i+1, err)) })
		}
		_, answers := n.takeSent()
		answers[0](effected, nil)
		answers[1](nil, &RefusedError{After: time.Second})
		w.do(&holdfastv1.Transaction{}, func(err error) { done = append(done, fmt.Sprint(4, err)) })
		answers[2](nil, refusal(&holdfastv1.ErrorDetail{Reason: holdfastv1.Reason_REASON_GAP}))
		if len(n.all()) != 0 {
			t.Fatalf("sent %v before the second is over", n.all())
		}
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if len(n.all()) != 0 {
			t.Fatalf("sent %v before the second is over", n.all())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		acked := n.all()[0].GetAcked()
		numbers, answers := n.takeSent()
		if !slices.Equal(numbers, []uint64{2, 3, 4}) || acked != 1 {
			t.Fatalf("sent %v again with acked %d, want 2, 3 and 4 with 1", numbers, acked)
		}
		exists := &holdfastv1.Outcome{Refused: &holdfastv1.ErrorDetail{Reason: holdfastv1.Reason_REASON_NO_NODE}}
		answers[0](&holdfastv1.Written{Outcome: exists}, nil)
		answers[1](effected, nil)
		answers[2](effected, nil)
		want := []string{"1 <nil>", "2 " + ErrNoEntry.Error(), "3 <nil>", "4 <nil>"}
		if !slices.Equal(done, want) {
			t.Errorf("done %q, want %q", done, want)
		}
	})
}

func TestWritingBreaks(t *testing.T) {
	n := &fakeNode{}
	w := &writing{ask: n.ask}
	broken := errors.New("broken")
	failed := 0
	count := func(err error) {
		if errors.Is(err, broken) {
			failed++
		}
	}
	for range 3 {
		w.do(&holdfastv1.Transaction{}, count)
	}
	_, answers := n.takeSent()
	for _, answer := range answers {
		answer(nil, broken)
	}
	w.do(&holdfastv1.Transaction{}, count)
	if failed != 4 || len(n.all()) != 0 {
		t.Errorf("%d writes failed, and %d were sent; want all 4 and none", failed, len(n.all()))
	}
}

func TestStreamDeliversEvents(t *testing.T) {
	s := &Stream{}
	var received []error
	s.onEvent = func(err error) { received = append(received, err) }
	events := &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Events{
		Events: &holdfastv1.Events{Events: []*holdfastv1.Event{{}, {}}},
	}}
	lost := &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Lost{Lost: &holdfastv1.Lost{Stamp: 9}}}
	progress := &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Progress{Progress: &holdfastv1.Progress{}}}
	if !s.deliverEvents(events) || !s.deliverEvents(lost) || !s.deliverEvents(progress) {
		t.Error("a message of watches is not delivered")
	}
	if len(received) != 3 || received[0] != nil || received[1] != nil || received[2] == nil {
		t.Errorf("received %v, want two events and that some are lost", received)
	}
	if s.deliverEvents(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Written{}}) {
		t.Error("an answer is delivered as an event")
	}
}
