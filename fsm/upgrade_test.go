package fsm

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

func upgrading(id session.ID) session.UpgradeSession {
	return session.UpgradeSession{
		ID: id, Spec: session.Spec{Timeout: 4 * time.Second, Labels: session.Labels{{Key: "k", Value: "v"}}}, MS: 9,
		Instance: 5, Attempt: 3,
	}
}

// L7: an upgraded session keeps its id and timeout. Repeats of the upgrade change nothing, and undo no later move.
func TestL7AnUpgradeIsOnce(t *testing.T) {
	r := newReplica()
	id := r.do(t, session.ClaimIDs{Node: 3, MS: 7, Count: 10}).First
	before := r.open(t, opening(1)).Attachment
	up := upgrading(id + 9)
	results := r.apply(t, 1, up, up)
	s := results[0].Session
	if s.ID != up.ID || s.Timeout != up.Timeout || s.Owner != 3 || s.Attachment != before+1 || s.Local ||
		s.Labels[0] != up.Labels[0] ||
		s.OpenedIndex != results[0].Index || !s.OpenedAt.Equal(session.TimeOfMS(9)) || results[0].Repeated {
		t.Errorf("upgraded to %+v", results[0])
	}
	if again := results[1]; !again.Repeated || again.Session.Attachment != s.Attachment || again.Err != nil {
		t.Errorf("the same again: %+v", again)
	}
	late := session.MoveSession{ID: up.ID, NewOwner: 2, Instance: 5, Attempt: 2, Named: 1}
	if got := r.apply(t, 1, late)[0].Err; !errors.Is(got, session.ErrMoved) {
		t.Errorf("a resume from before the newest local one: %v, want %v (M1)", got, session.ErrMoved)
	}
	stranger := session.MoveSession{
		ID: up.ID, NewOwner: 2, Instance: 6, Attempt: 1, Named: s.Attachment,
		NamedLocal: true,
	}
	if told, ok := errors.AsType[*session.MovedError](r.apply(t, 1, stranger)[0].Err); !ok ||
		told.Attachment != s.Attachment || told.Instance != 5 {
		t.Errorf("a move by another process that names a local attachment: %+v, want a MovedError with %+v (L5)", told, s)
	}
	stranger.NamedLocal = false
	moved := r.do(t, stranger).Session
	if got := r.do(t, up); !got.Repeated || got.Session.Owner != 2 || got.Session.Attachment != moved.Attachment {
		t.Errorf("a repeat after a move: %+v, want %+v", got.Session, moved)
	}
	same(t, restored(t, r.snapshot(t)), r)
}

// L7: before the first resume, a move that names a local attachment takes effect at any node. The local token names the
// only attachment that the session had before its upgrade, so its holder opened the session.
func TestL7ALocalTokenIsGoodForTheFirstResume(t *testing.T) {
	r := newReplica()
	id := r.do(t, session.ClaimIDs{Node: 3, Count: 10}).First
	up := upgrading(id)
	up.Instance, up.Attempt = 0, 0
	r.do(t, up)
	first := session.MoveSession{ID: id, NewOwner: 2, Instance: 5, Attempt: 1, Named: 1, NamedLocal: true}
	if got := r.do(t, first).Session; got.Instance != 5 || got.Owner != 2 {
		t.Errorf("resumed as %+v", got)
	}
	first.Instance = 6
	if got := r.apply(t, 1, first)[0].Err; !errors.Is(got, session.ErrMoved) {
		t.Errorf("another process with the same token: %v, want %v", got, session.ErrMoved)
	}
}

// L7: a repeat of an upgrade whose outcome was unknown never makes a second session, even when the first has ended and
// its certificate has been dropped.
func TestL7NothingComesBack(t *testing.T) {
	r := newReplica()
	id := r.do(t, session.ClaimIDs{Node: 3, Count: session.MaxClaim}).First
	up := upgrading(id)
	up.Since = r.AppliedIndex()
	s := r.do(t, up).Session
	r.do(t, closing(1, s))
	var gone *session.ExpiredError
	if err := r.apply(t, 1, up)[0].Err; !errors.As(err, &gone) || gone.Certificate == nil {
		t.Errorf("after the session's end: %v, want the certificate", err)
	}
	forgetEnds(t, r)
	if _, ok := r.Certificate(id); ok {
		t.Fatal("the session's certificate is still kept")
	}
	if err := r.apply(t, 1, up)[0].Err; !errors.Is(err, session.ErrExpired) {
		t.Errorf("after the certificate was dropped: %v, want %v", err, session.ErrExpired)
	}
	if _, ok := r.Session(id); ok {
		t.Error("the upgrade made a second session")
	}
	// A session whose upgrade begins now cannot have ended before.
	fresh := upgrading(id + 1)
	fresh.Since = r.AppliedIndex()
	if err := r.apply(t, 1, fresh)[0].Err; err != nil {
		t.Errorf("another session of the block: %v", err)
	}
	r = restored(t, r.snapshot(t))
	if err := r.apply(t, 1, up)[0].Err; !errors.Is(err, session.ErrExpired) {
		t.Errorf("after a restart: %v, want %v", err, session.ErrExpired)
	}
}

// forgetEnds ends as many sessions as the state keeps certificates.
func forgetEnds(t *testing.T, r *replica) {
	t.Helper()
	for n := 0; n < certificateLimit; {
		var opens []session.Command
		for ; len(opens) < session.MaxCloseBatch; n++ {
			c := opening(0)
			c.RequestID = session.RequestID{1, byte(n), byte(n >> 8), byte(n >> 16)}
			opens = append(opens, c)
		}
		var all []session.Session
		for _, result := range r.apply(t, 1, opens...) {
			all = append(all, result.Session)
		}
		r.do(t, closing(1, all...))
	}
}

// L7: an upgrade of an id that was never claimed is refused, because an open could get the same id (I7 ids are never
// reused).
func TestL7OnlyClaimedIDs(t *testing.T) {
	r := newReplica()
	first := r.do(t, session.ClaimIDs{Node: 3, Count: 10}).First
	var field *session.FieldError
	for _, id := range []session.ID{first + 10, 4<<56 | 1} {
		if err := r.apply(t, 1, upgrading(id))[0].Err; !errors.As(err, &field) || field.Field != "session_id" {
			t.Errorf("upgrade of %v: %v, want a FieldError of session_id", id, err)
		}
	}
	if r.Sessions() != 0 {
		t.Errorf("%d sessions, want none", r.Sessions())
	}
}
