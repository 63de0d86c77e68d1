package fsm

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// killed returns the command with which an operator ends sessions.
func killed(sessions ...session.Session) session.CloseSessions {
	c := closing(1, sessions...)
	c.Cause, c.By, c.Why = session.CauseKilled, "CN=ops", "stuck"
	return c
}

// A certificate tells the story of its session.
func TestCertificatesTellAStory(t *testing.T) {
	r := newTree(t)
	o := opening(2)
	o.Labels = session.Labels{{Key: "service", Value: "web"}}
	s := r.replica.open(t, o)
	used := r.Usage().CertificateBytes
	c := closing(1, s)
	c.Sessions[0].Late, c.Sessions[0].Credit, c.Sessions[0].Silent = 250*time.Millisecond, time.Second, 3*time.Second
	r.at(t, c)
	want := session.Story{
		Spec: session.Spec{Timeout: s.Timeout, Labels: o.Labels}, OpenedAt: s.OpenedAt, Late: 250 * time.Millisecond,
		Credit: time.Second,
		Silent: 3 * time.Second,
	}
	got, ok := r.Certificate(s.ID)
	if !ok || got.Cause != session.CauseExpired || !got.Equal(retold(got, want)) {
		t.Errorf("the story is %+v, %v\nwant %+v", got.Story, ok, want)
	}
	if grew := r.Usage().CertificateBytes - used; grew != session.CertificateBytes+want.Bytes() {
		t.Errorf("the certificate costs %d bytes, want %d", grew, session.CertificateBytes+want.Bytes())
	}
	same(t, restored(t, r.snapshot(t)), r.replica)
}

// retold returns c with another story.
func retold(c session.Certificate, s session.Story) session.Certificate {
	c.Story = s
	return c
}

// To what hangs on it, a session that an operator ends is lost as if it had expired: its ephemerals go, and a will for
// an expiry is carried out.
func TestKilledSessionsLeaveAWill(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	w := numbered(s, 1, ephemeral("/mine"))
	w.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{persistent("/will")}}}
	if _, err := r.write(t, w); err != nil {
		t.Fatal(err)
	}
	r.at(t, killed(s))
	c, ok := r.Certificate(s.ID)
	if !ok || c.Cause != session.CauseKilled || c.Story.By != "CN=ops" || c.Story.Why != "stuck" ||
		c.Left.Ephemerals != 1 || c.Left.Will != tree.WillCarriedOut {
		t.Errorf("the certificate is %+v, %v", c, ok)
	}
	same(t, restored(t, r.snapshot(t)), r.replica)
}

// A certificate with a story is written as it always was.
func TestGoldenSnapshotWithStories(t *testing.T) {
	r := newTree(t)
	o := opening(2)
	o.Labels = session.Labels{{Key: "service", Value: "web"}}
	gone, lost := r.replica.open(t, o), r.replica.open(t, opening(3))
	r.at(t, killed(gone))
	c := closing(1, lost)
	c.Sessions[0].Late, c.Sessions[0].Credit, c.Sessions[0].Silent = 250*time.Millisecond, time.Second, 3*time.Second
	r.at(t, c)
	file := golden(t, "snapshot_stories.hex", []byte(hexLines(r.snapshot(t))))
	old, err := hex.DecodeString(strings.Join(strings.Fields(string(file)), ""))
	if err != nil {
		t.Fatal(err)
	}
	again := restored(t, old)
	if c, ok := again.Certificate(gone.ID); !ok || c.Cause != session.CauseKilled || c.Story.Why != "stuck" {
		t.Errorf("the certificate is %+v, %v", c, ok)
	}
	same(t, again, r.replica)
}

func TestDeathsNewestFirst(t *testing.T) {
	r := newReplica()
	var want []session.ID
	for i := range byte(5) {
		s := r.open(t, opening(i+1))
		r.apply(t, 1, closing(1, s))
		want = append(want, s.ID)
	}
	slices.Reverse(want)
	list := func(before uint64, most int) (ids []session.ID, last, oldest uint64) {
		oldest = r.Deaths(before, func(n uint64, c *session.Certificate) bool {
			if len(ids) == most {
				return false
			}
			ids, last = append(ids, c.ID), n
			return true
		})
		return ids, last, oldest
	}
	first, last, oldest := list(0, 2)
	rest, _, _ := list(last, 10)
	if got := slices.Concat(first, rest); !slices.Equal(got, want) || len(first) != 2 || oldest != 1 {
		t.Errorf("pages %v and %v, oldest %d; want %v", first, rest, oldest, want)
	}
	if none, _, _ := list(1, 10); len(none) != 0 {
		t.Errorf("before the oldest: %v", none)
	}
	if all, _, _ := list(1<<60, 10); !slices.Equal(all, want) {
		t.Errorf("before a number that was never given: %v", all)
	}
	if oldest := newReplica().Deaths(7, func(uint64, *session.Certificate) bool { return true }); oldest != 1 {
		t.Errorf("of an empty state: oldest %d", oldest)
	}
}

// I6: two states that differ only in a story have different digests.
func TestStoriesAreInTheDigest(t *testing.T) {
	digests := make(map[[16]byte]string)
	for name, change := range map[string]func(*session.CloseSessions){
		"as it is": func(*session.CloseSessions) {},
		"by":       func(c *session.CloseSessions) { c.By = "CN=other" },
		"why":      func(c *session.CloseSessions) { c.Why = "" },
		"late":     func(c *session.CloseSessions) { c.Sessions[0].Late = time.Second },
		"credit":   func(c *session.CloseSessions) { c.Sessions[0].Credit = time.Second },
		"silent":   func(c *session.CloseSessions) { c.Sessions[0].Silent = time.Second },
	} {
		r := newTree(t)
		s := r.open(t, 1, 7)
		c := killed(s)
		change(&c)
		r.at(t, c)
		_, digest := r.Digest()
		if other, ok := digests[digest]; ok {
			t.Errorf("the digest does not show %q beside %q", name, other)
		}
		digests[digest] = name
	}
}
