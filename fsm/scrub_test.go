package fsm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"holdfast/fsm/requests"
	"holdfast/fsm/sessions"
	"holdfast/session"
)

// damages returns functions that each change a bit or a field, in each kind of thing that a state holds.
func damages() map[string]func(t *tables) {
	row := func(change func(r *sessions.Row)) func(t *tables) {
		return func(t *tables) {
			t.sessions.Ascend(0, func(r *sessions.Row) bool {
				damaged := *r
				change(&damaged)
				t.sessions.Set(&damaged)
				return false
			})
		}
	}
	return map[string]func(t *tables){
		"session": row(func(r *sessions.Row) { r.Attachment ^= 1 << 40 }),
		"label":   row(func(r *sessions.Row) { r.Labels = &session.Labels{{Key: "a", Value: "c"}} }),
		"mark":    func(t *tables) { t.marks[1] ^= 1 },
		"request": func(t *tables) {
			damaged := requests.New()
			t.requests.All(func(q requests.Request) bool {
				q.Session ^= 1
				damaged.Add(&q)
				return true
			})
			t.requests = damaged
		},
		"certificate":           func(t *tables) { t.certificates.Items[0].AgeMS ^= 1 },
		"sum":                   func(t *tables) { t.sum.Add([]byte("damage")) },
		"bytes":                 func(t *tables) { t.bytes ^= 1 << 40 },
		"bytes of certificates": func(t *tables) { t.certificates.Bytes ^= 1 << 40 },
	}
}

// populated returns a state with one thing of each kind.
func populated(t *testing.T) *replica {
	t.Helper()
	r := newReplica()
	one := opening(1)
	one.Labels = session.Labels{{Key: "a", Value: "b"}}
	r.open(t, one)
	r.do(t, closing(1, r.open(t, opening(2))))
	return r
}

// C1: a scrub finds damage in each kind of thing. From then on the digest shows the damage, also after later entries.
func TestScrub(t *testing.T) {
	followsFromTheRest := []string{"sum", "bytes", "bytes of certificates"} // a scrub repairs these
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			s, sound := populated(t), populated(t)
			if err := s.Scrub(nil); err != nil {
				t.Fatalf("before: %v", err)
			}
			damage(s.tables)
			var damaged *DamageError
			if err := s.Scrub(nil); !errors.As(err, &damaged) || damaged.Index != 3 {
				t.Errorf("got %v, want damage at index 3", err)
			}
			if err := s.Scrub(nil); err != nil {
				t.Errorf("again: %v", err)
			}
			_, got := s.Digest()
			_, want := sound.Digest()
			if at, ok := s.DigestAt(3); !ok || at != got {
				t.Errorf("digest at 3 is %x, now %x", at, got)
			}
			if differs := got != want; differs == slices.Contains(followsFromTheRest, name) {
				t.Errorf("digest is %x, and that of a sound state is %x", got, want)
			}
			if got, want := s.Usage().CertificateBytes, sound.Usage().CertificateBytes; got != want {
				t.Errorf("%d bytes are counted for certificates, want %d as in a sound state", got, want)
			}
			if got, want := s.Usage().Bytes, sound.Usage().Bytes; got != want {
				t.Errorf("%d bytes are counted, want %d as in a sound state", got, want)
			}
		})
	}
}

// C1: a scrub finds damage of what follows from the contents of the tree, too: here an ephemeral whose owner does not
// live (I12 no orphans). The digest does not have that, so the scrub makes it differ.
func TestScrubOfWhatFollowsFromTheTree(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	if _, err := r.write(t, numbered(s, 1, ephemeral("/lock"))); err != nil {
		t.Fatal(err)
	}
	if err := r.Scrub(nil); err != nil {
		t.Fatalf("before: %v", err)
	}
	gone, d := sessions.Row{}, r.tables.sessions.Remover()
	d.Find(s.ID, &gone)
	d.Remove()
	d.End()
	r.tables.remove(gone.Canonical(nil))
	r.tables.bytes -= gone.Cost()
	r.publishTree(r.index)
	_, sound := r.Digest()
	var damaged *DamageError
	if err := r.Scrub(nil); !errors.As(err, &damaged) || !strings.Contains(err.Error(), `"/lock": is ephemeral and has owner`) {
		t.Errorf("got %v, want the damage of /lock", err)
	}
	if _, now := r.Digest(); now == sound {
		t.Error("the digest does not show the damage")
	}
}

// C1: the digest includes the entries that are applied while the state is scrubbed.
func TestScrubBesideApply(t *testing.T) {
	s, sound := populated(t), populated(t)
	s.tables.sum.Add([]byte("damage")) // as if memory were damaged
	s.tables.bytes += 100
	s.mu.Lock()
	live, v := s.tables, s.frozen()
	s.mu.Unlock()
	s.open(t, opening(3))
	sound.open(t, opening(3))
	if err := s.verify(v, live, nil); err == nil {
		t.Error("no damage found")
	}
	_, got := s.Digest()
	if _, want := sound.Digest(); got != want {
		t.Errorf("digest %x, want %x", got, want)
	}
	if got, want := s.Usage(), sound.Usage(); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

// A scrub ends with the error of pace. It reports no damage of tables that a snapshot has replaced meanwhile.
func TestScrubEnds(t *testing.T) {
	s := populated(t)
	for i := range uint64(scrubRun) {
		s.tables.addRequest(&requests.Request{ID: session.RequestID{1, 2, byte(i), byte(i >> 8), 3}, Index: 2})
	}
	stop := errors.New("stop")
	if err := s.Scrub(func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
	damages()["mark"](s.tables)
	s.mu.Lock()
	live, v := s.tables, s.frozen()
	s.tables = populated(t).tables
	s.mu.Unlock()
	before := s.tables.sum
	if err := s.verify(v, live, nil); err != nil || s.tables.sum != before {
		t.Errorf("the state that replaced it: %v, sum changed: %t", err, s.tables.sum != before)
	}
}

// A damaged state is not written to a snapshot, because a leader would send it to other nodes. Once the digest shows
// the damage, the state is written: its snapshot has the digest that differs.
func TestDamageIsNotWritten(t *testing.T) {
	s := populated(t)
	damages()["certificate"](s.tables)
	for _, want := range []bool{true, false} {
		snapshot, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		sink := &sink{}
		var damaged *DamageError
		if err := snapshot.Persist(sink); errors.As(err, &damaged) != want || want != sink.cancelled {
			t.Errorf("got %v, cancelled %t; want damage: %t", err, sink.cancelled, want)
		}
		if want {
			continue
		}
		_, got := restored(t, sink.Bytes()).Digest()
		if _, had := s.Digest(); got != had {
			t.Errorf("restored digest %x, want %x, which shows the difference", got, had)
		}
	}
}
