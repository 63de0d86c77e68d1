package leader_test

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/leader"
	"holdfast/session"
)

// W1, W4: writes go to the log in their order, without waiting for each other, and what is in the log is not answered.
func TestW1WritesGoToTheLogInTheirOrder(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		if w.node.term != term {
			t.Errorf("welcome of term %d, want %d", w.node.term, term)
		}
		w.node.writes(5, 1, 2)
		w.node.writes(6, 1)
		w.node.writes(5, 3)
		w.submits("5/1", "5/2", "6/1", "5/3")
		for _, c := range []string{"5/1", "5/2", "6/1", "5/3"} {
			w.log.tell(c, nil)
		}
		w.tells()
		w.node.lives()
		if s := w.tracker.Stats(); s.Forwarded != 4 || s.WritesRefused != 0 {
			t.Errorf("stats %d, %d", s.Forwarded, s.WritesRefused)
		}
	})
}

// X2, X7: behind a refused write the session's later writes are refused too, until the node goes back. Other sessions
// go on.
func TestNothingFollowsARefusedWrite(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		w.node.writes(5, 1)
		w.log.refuses(&session.LimitError{Name: "writes_in_flight", Limit: "1", RetryAfter: time.Second})
		w.node.writes(5, 2)
		w.log.refuses(nil)
		w.node.writes(5, 3, 4)
		w.node.writes(6, 1)
		w.submits("5/1", "6/1")
		w.tells("5/2 busy 1s", "5/3 gap 0s", "5/4 gap 0s")
		w.node.writes(5, 2, 3, 4)
		w.submits("5/2", "5/3", "5/4")
		w.tells()
	})
}

// X7: write 2 is refused, but an old copy of it applies. The node then sends 3, which no smaller number precedes. It is
// refused at most once more.
func TestAGapEndsWithoutTheRefusedWrite(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		w.log.refuses(&session.LimitError{Name: "writes_in_flight", Limit: "1", RetryAfter: time.Second})
		w.node.writes(5, 2)
		w.log.refuses(nil)
		w.node.writes(5, 3)
		w.tells("5/2 busy 1s", "5/3 gap 0s")
		w.node.writes(5, 3, 4)
		w.submits("5/3", "5/4")
		w.tells()
	})
}

// A write may be refused after later ones were accepted. The node gets the refusal, and no further write is accepted
// before the node goes back to the refused one.
func TestAWriteThatIsRefusedLate(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		w.node.writes(5, 1, 2)
		w.submits("5/1", "5/2")
		w.log.tell("5/1", fmt.Errorf("proposing: %w: the log has not moved", session.ErrNoLeader))
		w.node.writes(5, 3)
		w.submits()
		w.tells("5/1 busy "+session.BusyRetryAfter.String(), "5/3 gap 0s")
		w.node.writes(5, 1, 2, 3)
		w.submits("5/1", "5/2", "5/3")
	})
}

// W4: the reasons of writes that were certainly not appended, and the end of the stream for all others.
func TestW4OnlyWhatWasNotAppendedIsRefused(t *testing.T) {
	busy := "5/1 busy " + session.BusyRetryAfter.String()
	for _, tt := range []struct {
		err  error
		told string
		ends error
	}{
		{err: session.ErrStopping, told: "5/1 stopping 0s"},
		{err: &session.NotLeaderError{}, told: "5/1 not leader 0s"},
		{err: session.ErrNoLeader, told: busy},
		{err: session.ErrOutcomeUnknown, ends: session.ErrOutcomeUnknown},
		{err: fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, session.ErrStopping), ends: session.ErrOutcomeUnknown},
		{err: io.ErrShortWrite, ends: io.ErrShortWrite},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			forwards(t, func(w *forwardWorld) {
				w.node.writes(5, 1)
				w.log.tell("5/1", fmt.Errorf("proposing: %w", tt.err))
				if tt.ends == nil {
					w.tells(tt.told)
					w.node.lives()
					return
				}
				if err := w.node.err(); !errors.Is(err, tt.ends) {
					t.Errorf("the stream ended with %v, want %v", err, tt.ends)
				}
				w.tells()
			})
		})
	}
}

// A stream is accepted from a process that follows this term's leader.
func TestWhoMayForward(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		for _, tt := range []struct {
			hello session.ForwardHello
			want  error
		}{
			{session.ForwardHello{Node: 2, Incarnation: 1, Term: term - 1}, leader.ErrTermOver},
			{session.ForwardHello{Node: 2, Incarnation: 1, Term: term + 1}, leader.ErrTermOver},
			{session.ForwardHello{Node: 2, Incarnation: 2, Term: term}, leader.ErrNotFollowing},
			{session.ForwardHello{Node: 3, Incarnation: 1, Term: term}, leader.ErrNotFollowing},
			{session.ForwardHello{Node: 9, Incarnation: 1, Term: term}, leader.ErrNotFollowing},
		} {
			if err := w.forward(tt.hello).err(); !errors.Is(err, tt.want) {
				t.Errorf("%+v: %v, want %v", tt.hello, err, tt.want)
			}
		}
		hello := session.ForwardHello{Node: 2, Incarnation: 1, Term: term}
		w.node.lives()
		second := w.forward(hello)
		if err := w.node.err(); !errors.Is(err, leader.ErrSuperseded) {
			t.Errorf("the former stream ended with %v, want %v", err, leader.ErrSuperseded)
		}
		second.writes(5, 1)
		w.submits("5/1")
		w.member.cut()
		if err := second.err(); !errors.Is(err, leader.ErrNotFollowing) {
			t.Errorf("after the Follow stream: %v, want %v", err, leader.ErrNotFollowing)
		}
	})
}

func TestABadForwardMessageEndsItsStream(t *testing.T) {
	for name, m := range map[string]session.ForwardMessage{
		"empty":     {},
		"no write":  {Writes: []session.ForwardedWrite{{Command: []byte("bad"), Weight: 1, Session: 1, Number: 1}}},
		"after one": {Writes: []session.ForwardedWrite{forwarded(5, 1), {Command: []byte("bad"), Session: 1, Number: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			forwards(t, func(w *forwardWorld) {
				w.node.says(m)
				if err := w.node.err(); !errors.Is(err, leader.ErrProtocol) {
					t.Errorf("ended with %v, want %v", err, leader.ErrProtocol)
				}
			})
		})
	}
}

// X3: acknowledgements go into the log in one command each. Too many at once are dropped without a reply.
func TestAcknowledgementsGoToTheLog(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		all := []session.Acknowledged{{Session: 5, UpTo: 3}, {Session: 6, UpTo: 1}}
		for range leader.MaxAcknowledges + 10 {
			w.node.says(session.ForwardMessage{Acknowledged: all})
		}
		got := w.log.submitted()
		want := slices.Repeat([]string{fmt.Sprintf("ack %v", all)}, leader.MaxAcknowledges)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d acknowledgements in the log, want %d: %q", len(got), len(want), got[:1])
		}
		w.log.tell(got[0], session.ErrOutcomeUnknown)
		w.node.says(session.ForwardMessage{Acknowledged: all[:1]})
		w.submits(fmt.Sprintf("ack %v", all[:1]))
		w.tells()
		w.node.lives()
	})
}

// W7: a node has bounds of its own, by number and by bytes. What ends gives its place back.
func TestW7AFloodOfANodeIsBounded(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		bytes, most := 0, leader.MaxForwardedBytes*3/4*3/4 // of one connection
		fits := 0
		for n := uint64(1); bytes+leader.ForwardedBytes+len("1/1") <= most; n++ {
			one := forwarded(session.ID(n), 1)
			if bytes += leader.ForwardedBytes + len(one.Command); bytes <= most {
				fits++
			}
			w.node.out <- session.ForwardMessage{Writes: []session.ForwardedWrite{one}}
		}
		synctest.Wait()
		w.node.told()
		w.node.writes(1<<40, 1, 2)
		if got := len(w.log.submitted()); got != fits {
			t.Errorf("%d writes in the log, want %d", got, fits)
		}
		busy := fmt.Sprintf("%d/1 busy %v", session.ID(1<<40), session.BusyRetryAfter)
		w.tells(busy, fmt.Sprintf("%d/2 gap 0s", session.ID(1<<40)))
		other := forwarded(1<<41, 1)
		other.Connection = 2
		w.node.says(session.ForwardMessage{Writes: []session.ForwardedWrite{other}})
		w.submits(fmt.Sprintf("%d/1", session.ID(1<<41))) // W9: another connection finds room
		w.log.tell("1/1", nil)
		w.log.tell("2/1", nil)
		w.node.writes(1<<40, 1)
		w.submits(fmt.Sprintf("%d/1", session.ID(1<<40)))
	})
	forwards(t, func(w *forwardWorld) {
		large := make([]byte, session.MaxCommandBytes)
		fits := leader.MaxForwardedBytes * 3 / 4 * 3 / 4 / (len(large) + leader.ForwardedBytes)
		for n := range fits + 1 {
			w.node.says(session.ForwardMessage{Writes: []session.ForwardedWrite{
				{Command: large, Weight: 1, Session: session.ID(n + 1), Number: 1},
			}})
		}
		if got := len(w.log.submitted()); got != fits {
			t.Errorf("%d large writes in the log, want %d", got, fits)
		}
		w.tells(fmt.Sprintf("%d/1 busy %v", fits+1, session.BusyRetryAfter))
	})
}

// W7, W9: however many connections a principal has, it leaves memory for another's write.
func TestW9ManyConnectionsOfAPrincipalLeaveMemory(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		large := make([]byte, session.MaxForwardBytes)
		for n := range uint64(16 * leader.MaxForwardedBytes / session.MaxForwardBytes) {
			w.node.says(session.ForwardMessage{Writes: []session.ForwardedWrite{
				{Command: large, Weight: 1, Session: session.ID(n + 1), Number: 1, Connection: n % 16, Principal: 1},
			}})
		}
		if len(w.node.told()) == 0 {
			t.Fatal("16 connections have filled nothing")
		}
		w.log.submitted()
		const many = leader.MaxForwardedBytes / 8 / session.MaxForwardBytes
		for n := range uint64(many) {
			w.node.says(session.ForwardMessage{Writes: []session.ForwardedWrite{
				{Command: large, Weight: 1, Session: session.ID(1<<40 + n), Number: 1, Connection: 99, Principal: 2},
			}})
		}
		w.tells()
		if got := len(w.log.submitted()); got != many {
			t.Errorf("%d writes of the other principal are in the log, want %d", got, many)
		}
	})
}

// The leader stops reading from a node that does not read refusals, which bounds the waiting refusals.
func TestANodeThatReadsNoRefusals(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		w.node.mu.Lock()
		w.node.stuck = true
		w.node.mu.Unlock()
		w.log.refuses(&session.LimitError{Name: "writes_in_flight", Limit: "1"})
		m := session.ForwardMessage{}
		for n := range uint64(session.MaxPeerBatch) {
			m.Writes = append(m.Writes, forwarded(5, n+1))
		}
		sent := 0
		for ; sent < 100; sent++ {
			select {
			case w.node.out <- m:
			default:
			}
		}
		synctest.Wait()
		if left := len(w.node.out); left < 100-leader.MaxRefusals/session.MaxPeerBatch-3 {
			t.Errorf("%d of %d messages were not read, want most", left, sent)
		}
		w.node.lives()
	})
}

// The term's end ends Forward streams, and no write of it is proposed afterwards (R5 start of a tracker).
func TestTheTermsEndEndsForwardStreams(t *testing.T) {
	forwards(t, func(w *forwardWorld) {
		w.view.mu.Lock()
		w.view.term = term + 1
		w.view.mu.Unlock()
		w.at(w.now() + 2*beat)
		if err := w.node.err(); !errors.Is(err, leader.ErrTermOver) {
			t.Errorf("ended with %v, want %v", err, leader.ErrTermOver)
		}
	})
}
