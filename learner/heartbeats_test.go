package learner

import (
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// R6: the target is the leader's state at the first heartbeat, and later its state at least an interval ago.
func TestR6TheTargetTrailsTheLeader(t *testing.T) {
	var c catchUp
	begun := time.Unix(1000, 0)
	if err := c.missing(reached{}); err != nil {
		t.Errorf("before the first heartbeat: %v", err)
	}
	for _, tt := range []struct {
		after time.Duration
		leads uint64
		want  uint64
	}{
		{0, 5, 5},
		{interval - 1, 6, 5}, // heartbeats may follow each other at once
		{interval, 7, 5},
		{2*interval - 1, 8, 5},
		{2 * interval, 9, 7},
		{10 * interval, 20, 9},
	} {
		c.note(reached{attachment: tt.leads, index: 10 * tt.leads}, begun.Add(tt.after), interval)
		if want := (reached{tt.want, 10 * tt.want}); c.due != want {
			t.Errorf("after %v: the target is %+v, want %+v", tt.after, c.due, want)
		}
	}
	for own, want := range map[reached]string{
		{8, 90}: "attachment 8 of 9", {9, 89}: "index 89 of 90", {9, 90}: "", {50, 500}: "",
	} {
		err := c.missing(own)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a node at %+v: %v, want %q", own, err, want)
		}
	}
}

// S4: only a newer good round counts: a later one of the same term, or one of a later term.
func TestS4OnlyNewerGoodRoundsCount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun := time.Now()
		h := newHeartbeats(interval, begun)
		if quiet, ever := h.quiet(time.Second); quiet != time.Second || ever || h.lastGood() != begun {
			t.Errorf("at first: quiet for %v, ever %v, since %v", quiet, ever, h.lastGood())
		}
		last := time.Duration(0)
		for _, tt := range []struct {
			term, good uint64
			want       bool
		}{{2, 0, false}, {2, 3, true}, {2, 3, false}, {2, 2, false}, {1, 9, false}, {3, 1, true}, {2, 4, false}} {
			time.Sleep(time.Second)
			now := time.Since(begun)
			if got := h.record(tt.term, &session.Heartbeat{Good: tt.good}); got != tt.want {
				t.Errorf("round %d of term %d is newer: %v, want %v", tt.good, tt.term, got, tt.want)
			} else if got {
				last = now
			}
			if quiet, ever := h.quiet(now); quiet != now-last || ever != (last > 0) {
				t.Errorf("after round %d of term %d: quiet for %v, ever %v; want %v", tt.good, tt.term, quiet, ever,
					now-last)
			}
		}
	})
}

// M3: what a leader has applied is forgotten with its stream. What it said of a vote that the node has applied is not
// (R6 readiness).
func TestForgetLeader(t *testing.T) {
	h := newHeartbeats(interval, time.Now())
	h.record(1, &session.Heartbeat{Attachment: 7, Compare: 70, VotesFrom: 5})
	h.record(1, &session.Heartbeat{Attachment: 6, VotesFrom: 5})
	if got := h.reportedAttachment(); got != 7 {
		t.Errorf("vouched is %d, want the highest, 7", got)
	}
	if h.hasVote(4) || !h.hasVote(5) {
		t.Error("want a vote from index 5 on")
	}
	if h.behind(reached{}) == nil {
		t.Error("a node that has applied nothing is not behind")
	}
	h.forgetLeader()
	if got, err := h.reportedAttachment(), h.behind(reached{}); got != 0 || err != nil {
		t.Errorf("without a leader: vouched is %d, and the node lacks: %v", got, err)
	}
	h.record(2, &session.Heartbeat{VotesFrom: session.NoVote})
	if !h.hasVote(0) {
		t.Error("a new leader that does not know of the vote takes it away")
	}
}
