package writes_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/writes"
	"holdfast/session"
	"holdfast/tree"
)

var begun = time.Unix(1e9, 0)

// client is a queue with a clock.
type client struct {
	*testing.T
	*writes.Queue
	now time.Time
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{T: t, Queue: writes.New(), now: begun}
	c.resumed(0, 0)
	return c
}

// push adds writes whose bodies are text.
func (c *client) push(bodies ...string) (all []*writes.Write) {
	c.Helper()
	for _, body := range bodies {
		w, err := c.Push(body, len(body))
		if err != nil {
			c.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

// sends requires that just these numbers are sent now, and returns the last.
func (c *client) sends(want ...uint64) (last writes.Send) {
	c.Helper()
	var got []uint64
	for one, ok := c.Next(c.now); ok; one, ok = c.Next(c.now) {
		got, last = append(got, one.Number), one
	}
	if !slices.Equal(got, want) {
		c.Fatalf("sent %v, want %v", got, want)
	}
	return last
}

func (c *client) resumed(applied, floor uint64) []writes.Report {
	c.Helper()
	reports, err := c.Resumed(applied, floor)
	if err != nil {
		c.Fatal(err)
	}
	return reports
}

// reports requires the fates of writes, in this order.
func (c *client) reports(got []writes.Report, want ...writes.Fate) {
	c.Helper()
	var fates []writes.Fate
	for _, one := range got {
		fates = append(fates, one.Fate)
	}
	if !slices.Equal(fates, want) {
		c.Fatalf("reports %v, want %v", fates, want)
	}
}

func (c *client) refused(number uint64, err error) {
	c.Helper()
	if got := c.Refused(number, err, c.now); got != nil {
		c.Fatal(got)
	}
}

// TestWindow: X1. A write gets its number when it is sent, and at most 256 are without an answer.
func TestWindow(t *testing.T) {
	c := newClient(t)
	for range 300 {
		c.push("x")
	}
	for number := uint64(1); number <= 256; number++ {
		if one, ok := c.Next(c.now); !ok || one.Number != number || one.Acked != 0 {
			t.Fatalf("sent %+v, %v, want number %d", one, ok, number)
		}
	}
	c.sends()
	c.reports(c.Answered(1, writes.Answer{Result: "r"}), writes.Done)
	if one := c.sends(257); one.Acked != 1 {
		t.Errorf("it acknowledges up to %d", one.Acked)
	}
}

// TestBytes: 4 MiB may be without an answer, or one write that is larger.
func TestBytes(t *testing.T) {
	c := newClient(t)
	for range 3 {
		if _, err := c.Push("large", 2<<20); err != nil {
			t.Fatal(err)
		}
	}
	c.sends(1, 2)
	c.Answered(1, writes.Answer{})
	c.sends(3)
	for range 8 {
		if _, err := c.Push("large", 2<<20); err != nil {
			t.Fatal(err)
		}
	}
	var limit *session.LimitError
	if _, err := c.Push("large", 2<<20); !errors.As(err, &limit) || limit.Name != "pending_write_bytes" {
		t.Errorf("more than may wait: %v", err)
	}
}

// TestTheNodeRefuses: X8. The queue goes back to the refused write when it is due, and to the number that a gap names.
func TestTheNodeRefuses(t *testing.T) {
	c := newClient(t)
	c.push("a", "b", "c", "d")
	c.sends(1, 2, 3, 4)
	c.refused(2, &session.LimitError{RetryAfter: time.Second})
	c.refused(3, &tree.GapError{Expected: 2})
	c.sends()
	if at, ok := c.Wake(); !ok || !at.Equal(begun.Add(time.Second)) {
		t.Errorf("wakes at %v, %v", at, ok)
	}
	c.now = begun.Add(time.Second - 1)
	c.sends()
	c.now = begun.Add(time.Second)
	c.sends(2, 3, 4)
	c.refused(4, &tree.GapError{Expected: 3})
	c.sends(3, 4)
	c.refused(3, session.ErrLagging) // and no gap behind it
	c.now = c.now.Add(time.Minute)
	c.sends(3, 4)
	for _, expected := range []uint64{0, 5} {
		if err := c.Refused(4, &tree.GapError{Expected: expected}, c.now); !errors.Is(err, writes.ErrResume) {
			t.Errorf("a node that expects %d: %v", expected, err)
		}
	}
	c.Answered(1, writes.Answer{})
	c.refused(1, &tree.GapError{Expected: 9}) // of a void that came too late
	c.sends()
	if err := c.Refused(4, &session.MovedError{}, c.now); !errors.Is(err, session.ErrMoved) {
		t.Errorf("moved: %v", err)
	}
}

// TestRefusedForGood: the number of a write that every node will refuse goes to a void, and the caller learns why.
func TestRefusedForGood(t *testing.T) {
	c := newClient(t)
	c.push("a", "b")
	c.sends(1, 2)
	bad := &session.FieldError{Field: "path", Limit: "absolute"}
	c.refused(1, bad)
	c.refused(2, &tree.GapError{Expected: 1})
	if one, ok := c.Next(c.now); !ok || one.Number != 1 || !one.Void || one.Body != nil {
		t.Fatalf("sent %+v, %v", one, ok)
	}
	c.sends(2)
	all := c.Answered(1, writes.Answer{Void: true})
	c.reports(all, writes.Never)
	if !errors.Is(all[0].Err, bad) {
		t.Errorf("reports %v", all[0].Err)
	}

	c = newClient(t) // nor did its only copy take effect if it is unknown which void was applied
	c.push("a")
	c.sends(1)
	c.refused(1, bad)
	c.sends(1)
	c.reports(c.Ended(nil, 1), writes.Never)

	c = newClient(t) // but an earlier copy may have
	c.push("a")
	c.sends(1)
	c.Disconnected()
	c.resumed(0, 0)
	c.sends(1)
	c.refused(1, bad)
	c.reports(c.Ended(nil, 1), writes.Unknown)
}

// TestResume: X4. Writes above floor are sent again; writes that others may have overtaken stay unknown; new numbers
// are above all others.
func TestResume(t *testing.T) {
	c := newClient(t)
	c.push("a", "b", "c", "d")
	c.sends(1, 2, 3, 4)
	c.Answered(1, writes.Answer{})
	c.Disconnected()
	c.push("e")
	c.sends()
	c.reports(c.resumed(2, 0))
	c.sends(2, 3, 4, 5)
	c.Disconnected()
	c.reports(c.resumed(3, 3), writes.Unknown, writes.Unknown)
	c.sends(4, 5)
	c.Disconnected()
	c.push("f")
	c.reports(c.resumed(9, 9), writes.Unknown, writes.Unknown)
	if one := c.sends(10); one.Acked != 9 {
		t.Errorf("it acknowledges up to %d", one.Acked)
	}
	c.Disconnected()
	var lost *writes.LostError
	if _, err := c.Resumed(8, 0); !errors.As(err, &lost) || lost.Answered != 9 {
		t.Errorf("a cluster that knows less: %v", err)
	}
	c.sends()
}

// TestGivingUp: X6. A number that was sent is never skipped, and the caller may learn later what took it.
func TestGivingUp(t *testing.T) {
	c := newClient(t)
	all := c.push("a", "b", "c", "d")
	c.reports(c.GiveUp(all[3]), writes.Never)
	c.sends(1, 2, 3)
	c.reports(c.GiveUp(all[0]), writes.Unknown)
	c.reports(c.GiveUp(all[0]))
	c.reports(c.GiveUp(all[1]), writes.Unknown)
	for number := range uint64(3) {
		one, ok := c.Next(c.now)
		if !ok || one.Number != number+1 || one.Void != (number < 2) {
			t.Fatalf("sent %+v, %v", one, ok)
		}
	}
	late := c.Answered(1, writes.Answer{Void: true})
	late = append(late, c.Answered(2, writes.Answer{Result: "b"})...)
	c.reports(late, writes.Never, writes.Done)
	if !late[0].Late || !late[1].Late || late[1].Result != "b" {
		t.Errorf("reports %+v", late)
	}
	c.reports(c.GiveUp(all[1]))
	c.reports(c.Answered(3, writes.Answer{}), writes.Done)
}

// TestOrder: results come in the order of the numbers, whatever the node does.
func TestOrder(t *testing.T) {
	c := newClient(t)
	c.push("a", "b")
	c.sends(1, 2)
	c.reports(c.Answered(2, writes.Answer{}))
	c.reports(c.Answered(7, writes.Answer{}))
	c.reports(c.Answered(1, writes.Answer{}), writes.Done, writes.Done)
	c.reports(c.Answered(1, writes.Answer{}))
}

// TestCertificate: X9, each case.
func TestCertificate(t *testing.T) {
	left := session.Left{Instance: 1, Applied: 5, Floor: 3}
	for _, c := range []struct {
		instance, number uint64
		voided           bool
		want             writes.Fate
	}{
		{1, 6, false, writes.Never},
		{2, 6, true, writes.Never},
		{1, 5, false, writes.TookEffect},
		{1, 4, false, writes.TookEffect},
		{1, 3, false, writes.Unknown},
		{1, 5, true, writes.Unknown},
		{2, 5, false, writes.Unknown},
	} {
		if got := writes.FateOf(left, c.instance, c.number, c.voided); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	c := newClient(t)
	c.push("a", "b", "c", "d")
	c.sends(1, 2, 3, 4)
	c.push("e")
	c.reports(c.Ended(&session.Left{Instance: 1, Applied: 3, Floor: 1}, 1),
		writes.Unknown, writes.TookEffect, writes.TookEffect, writes.Never, writes.Never)
}

// BenchmarkWrite sends and answers writes with 255 of them unanswered.
func BenchmarkWrite(b *testing.B) {
	q := writes.New()
	if _, err := q.Resumed(0, 0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var number uint64
	for b.Loop() {
		if _, err := q.Push(nil, 100); err != nil {
			b.Fatal(err)
		}
		if _, ok := q.Next(begun); !ok {
			b.Fatal("not sent")
		}
		if number++; number > 255 {
			if len(q.Answered(number-255, writes.Answer{})) != 1 {
				b.Fatal("no report")
			}
		}
	}
}
