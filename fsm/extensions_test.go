package fsm

import (
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
)

// administered returns a state whose clock reads 10 s.
func administered(t *testing.T) *withTree {
	t.Helper()
	r := newTree(t)
	r.clock = 10 * time.Second
	r.at(t)
	return r
}

// act applies a command of an operator, which must not be refused.
func (r *withTree) act(t *testing.T, c session.Command) {
	t.Helper()
	if err := r.at(t, c)[0].Err; err != nil {
		t.Fatalf("%T: %v", c, err)
	}
}

// ended reports whether a close for an expiry ends a session.
func (r *withTree) ended(t *testing.T, s session.Session) bool {
	t.Helper()
	return r.at(t, closing(1, s))[0].Closed[0]
}

// Y3: in a freeze no session expires, while closes and kills go on. After the thaw sessions expire again.
func TestY3NothingExpiresInAFreeze(t *testing.T) {
	r := administered(t)
	kept, left, gone := r.open(t, 1, 7), r.open(t, 2, 7), r.open(t, 3, 7)
	r.act(t, session.FreezeExpiry{For: time.Minute, MS: 5, By: "CN=ops", Why: "network work"})
	if r.ended(t, kept) {
		t.Fatal("a session expired in a freeze")
	}
	wish := closing(1, left)
	wish.Cause = session.CauseClosed
	if !r.at(t, wish)[0].Closed[0] || !r.at(t, killed(gone))[0].Closed[0] {
		t.Error("a close or a kill was ignored in a freeze")
	}
	f := r.Tree().Time.Freeze
	if f == nil || f.Until != 70*time.Second || f.By != "CN=ops" || f.Why != "network work" {
		t.Errorf("the freeze is %+v", f)
	}
	same(t, restored(t, r.snapshot(t)), r.replica)
	r.act(t, session.ThawExpiry{})
	if !r.ended(t, kept) {
		t.Error("after the thaw nothing expires")
	}
}

// Y3: a freeze ends at its bound, by the clock of the entry itself.
func TestY3AFreezeEndsByItself(t *testing.T) {
	r := administered(t)
	s := r.open(t, 1, 7)
	r.act(t, session.FreezeExpiry{For: time.Minute})
	r.clock = 70*time.Second - time.Millisecond
	if r.ended(t, s) {
		t.Error("a session expired 1 ms before the bound")
	}
	r.clock = 70 * time.Second
	if !r.ended(t, s) {
		t.Error("at the bound nothing expires")
	}
	if now := r.Tree().Time; now.Freeze != nil || now.Held != time.Minute || now.Log != 10*time.Second {
		t.Errorf("the time is %+v, want L 10 s, which stood for 1 min", now)
	}
}

// Y3: L stands in a freeze, so no entry of the tree comes due: what is due by the running clock is not reaped.
func TestY3TheLogClockStands(t *testing.T) {
	r := administered(t)
	s := r.open(t, 1, 7)
	w := numbered(s, 1, tree.Create{Path: "/t", Kind: tree.Expiring, TTL: 5 * time.Second, ACL: tree.Open()})
	if result, err := r.write(t, w); err != nil || result.Outcome.Refused != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	due := r.Tree().Root.Due(math.MaxInt64, 1)
	r.act(t, session.FreezeExpiry{For: time.Hour})
	r.clock = 10*time.Second + 30*time.Minute
	r.at(t, reaping(t, due))
	if !r.has("/t") {
		t.Fatal("an entry was reaped in a freeze")
	}
	r.act(t, session.ThawExpiry{})
	r.clock += 5*time.Second - time.Millisecond
	r.at(t, reaping(t, due))
	if !r.has("/t") {
		t.Fatal("an entry was reaped 1 ms before its TTL")
	}
	r.clock += time.Millisecond
	r.at(t, reaping(t, due))
	if r.has("/t") {
		t.Error("the entry outlives its TTL")
	}
}

// Y3: the newest word of an operator counts, also when it is a shorter freeze.
func TestY3AFreezeIsReplaced(t *testing.T) {
	r := administered(t)
	r.act(t, session.FreezeExpiry{For: time.Hour, By: "one"})
	r.clock += time.Second
	r.act(t, session.FreezeExpiry{For: time.Minute, By: "two"})
	if f := r.Tree().Time.Freeze; f.Until != 71*time.Second || f.By != "two" {
		t.Errorf("the freeze is %+v, want one until 71 s by two", f)
	}
	r.act(t, session.ThawExpiry{})
	r.act(t, session.ThawExpiry{}) // a repeat does no harm
}

// Y4: a session that an operator has extended does not expire before its moment of L. A freeze adds to it.
func TestY4ExtendedSessions(t *testing.T) {
	r := administered(t)
	s, other := r.open(t, 1, 7), r.open(t, 2, 7)
	r.act(t, session.ExtendSession{ID: s.ID, For: time.Minute})
	r.act(t, session.ExtendSession{ID: other.ID, For: time.Minute})
	r.act(t, session.ExtendSession{ID: other.ID}) // taken back
	if got := r.Tree().Extended(); got != 1 {
		t.Errorf("%d sessions are extended, want 1", got)
	}
	same(t, restored(t, r.snapshot(t)), r.replica)
	r.act(t, session.FreezeExpiry{For: time.Hour})
	r.clock += 10 * time.Second
	r.act(t, session.ThawExpiry{})
	moved := r.at(t, session.MoveSession{ID: s.ID, NewOwner: 2, Instance: 7, Attempt: 1, Named: s.Attachment})[0].Session
	r.clock += time.Minute - time.Millisecond
	if r.ended(t, moved) {
		t.Error("an extended session expired 1 ms before its moment")
	}
	if !r.ended(t, other) {
		t.Error("a session whose extension was taken back does not expire")
	}
	r.clock += time.Millisecond
	if !r.ended(t, moved) {
		t.Error("an extended session does not expire at its moment")
	}
	if got := len(r.Tree().extensions.all); got != 0 {
		t.Errorf("%d sessions are kept after their ends", got)
	}
}

// Y4: what an extension names must live, and the number of extensions is bounded. Those that have passed make room.
func TestY4Bounds(t *testing.T) {
	r := administered(t)
	if err := r.at(t, session.ExtendSession{ID: 1 << 56, For: time.Second})[0].Err; !errors.Is(err, session.ErrExpired) {
		t.Errorf("a session that is not there: %v", err)
	}
	var last session.Session
	for i := range session.MaxExtended + 1 {
		o := opening(1)
		o.RequestID[14], o.RequestID[13] = byte(i), byte(i>>8)
		last = r.replica.open(t, o)
		if i < session.MaxExtended {
			r.act(t, session.ExtendSession{ID: last.ID, For: time.Minute})
		}
	}
	err := r.at(t, session.ExtendSession{ID: last.ID, For: time.Minute})[0].Err
	var limit *session.LimitError
	if !errors.As(err, &limit) || limit.Name != "extended_sessions" {
		t.Errorf("one too many: %v", err)
	}
	r.clock += time.Minute
	r.act(t, session.ExtendSession{ID: last.ID, For: time.Minute})
	if got := len(r.Tree().extensions.all); got != 1 {
		t.Errorf("%d sessions are kept, want 1", got)
	}
}

// I6: what an operator says about expiry is in the digest.
func TestActsAreInTheDigest(t *testing.T) {
	digests := make(map[[16]byte]string)
	for name, acts := range map[string][]session.Command{
		"none":      {session.ForgetRequests{}, session.ForgetRequests{}},
		"frozen":    {session.FreezeExpiry{For: time.Minute, By: "a", Why: "b"}},
		"longer":    {session.FreezeExpiry{For: time.Hour, By: "a", Why: "b"}},
		"by":        {session.FreezeExpiry{For: time.Minute, By: "ab"}},
		"since":     {session.FreezeExpiry{For: time.Minute, MS: 1, By: "a", Why: "b"}},
		"thawed":    {session.FreezeExpiry{For: time.Minute}, session.ThawExpiry{}},
		"kept":      {session.ExtendSession{For: time.Minute}},
		"kept long": {session.ExtendSession{For: time.Hour}},
	} {
		r := administered(t)
		s := r.open(t, 1, 7)
		if c, ok := acts[0].(session.ExtendSession); ok {
			c.ID = s.ID
			acts[0] = c
		}
		for _, c := range acts {
			r.clock += time.Second
			r.act(t, c)
		}
		r.clock = 20 * time.Second
		r.at(t, session.ForgetRequests{})
		_, digest := r.Digest()
		if other, ok := digests[digest]; ok {
			t.Errorf("the digest does not show %q beside %q", name, other)
		}
		digests[digest] = name
	}
}

// A snapshot with a freeze and an extended session is written as it always was.
func TestGoldenSnapshotOfAFreeze(t *testing.T) {
	r := administered(t)
	s := r.replica.open(t, opening(2))
	r.act(t, session.ExtendSession{ID: s.ID, For: time.Hour})
	r.act(t, session.FreezeExpiry{For: time.Hour, MS: 20_736_012_345, By: "CN=ops", Why: "network work"})
	r.clock = 15 * time.Second
	r.at(t, session.ForgetRequests{})
	file := golden(t, "snapshot_frozen.hex", []byte(hexLines(r.snapshot(t))))
	old, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	if err != nil {
		t.Fatal(err)
	}
	again := restored(t, old)
	now := again.Tree()
	if now.Time.Log != 10*time.Second || now.Time.Held != 5*time.Second || now.Time.Freeze.Why != "network work" ||
		now.ExtendedUntil(s.ID) != time.Hour+10*time.Second {
		t.Errorf("the time is %+v, %+v, the session is kept until %v", now.Time, now.Time.Freeze, now.ExtendedUntil(s.ID))
	}
	same(t, again, r.replica)
	if err := again.Scrub(nil); err != nil {
		t.Error(err)
	}
}

// A header with a freeze that no state has is refused.
func TestHeadersOfFreezes(t *testing.T) {
	good := func() *logv1.Header {
		return &logv1.Header{ClockMs: 5, HeldMs: 7, Frozen: &logv1.Frozen{UntilMs: 13}}
	}
	if now, err := timeFrom(good()); err != nil || now.Freeze.Until != 13*time.Millisecond {
		t.Fatalf("%+v, %v", now, err)
	}
	for name, change := range map[string]func(*logv1.Header){
		"past":   func(m *logv1.Header) { m.Frozen.UntilMs = 12 },
		"far":    func(m *logv1.Header) { m.Frozen.UntilMs = math.MaxUint64 },
		"held":   func(m *logv1.Header) { m.HeldMs = math.MaxUint64 },
		"clock":  func(m *logv1.Header) { m.ClockMs = math.MaxUint64 },
		"since":  func(m *logv1.Header) { m.Frozen.SinceMs = math.MaxUint64 },
		"by":     func(m *logv1.Header) { m.Frozen.By = strings.Repeat("x", session.MaxClientName+1) },
		"reason": func(m *logv1.Header) { m.Frozen.Why = "\xff" },
	} {
		m := good()
		change(m)
		if now, err := timeFrom(m); err == nil {
			t.Errorf("%s: %+v was taken", name, now)
		}
	}
}

// reaping returns a command that removes what is due.
func reaping(t *testing.T, due []store.Reapable) session.Command {
	t.Helper()
	encoded, err := form.AppendReap(nil, due)
	if err != nil {
		t.Fatal(err)
	}
	return session.TreeCommand{Encoded: encoded, Weight: len(due)}
}
