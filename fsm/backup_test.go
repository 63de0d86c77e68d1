package fsm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// inTheTree returns a state with a tree, the one of the golden snapshot.
func inTheTree(t fataler) *replica {
	t.Helper()
	text, err := os.ReadFile("testdata/snapshot_tree.hex")
	if err != nil {
		t.Fatalf("%v", err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return restored(t, b)
}

// view freezes r.
func (r *replica) view() *View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frozen()
}

// backup returns the bytes of a backup of r.
func (r *replica) backup(t fataler) []byte {
	t.Helper()
	made, err := r.Backup()
	if err != nil {
		t.Fatalf("Backup: %v", err)
	}
	var b, again bytes.Buffer
	for _, to := range []*bytes.Buffer{&b, &again} {
		if err := errors.Join(made.Verify(), made.Write(to)); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Fatalf("a backup was written twice, and not with the same bytes")
	}
	return b.Bytes()
}

func TestABackupHoldsNothingThatProvesAClient(t *testing.T) {
	for name, r := range map[string]*replica{"without a tree": furnished(t), "with a tree": inTheTree(t)} {
		t.Run(name, func(t *testing.T) {
			_, before := r.Digest()
			b := r.backup(t)
			if key := r.tables.key; bytes.Contains(b, key[:]) {
				t.Error("the backup holds the cluster key")
			}
			ids := requestsOf(r.tables)
			if len(ids) == 0 {
				t.Fatal("the state has no request ids to look for")
			}
			for _, q := range ids {
				if bytes.Contains(b, q.ID[:]) {
					t.Errorf("the backup holds request id %x", q.ID)
				}
			}
			if _, after := r.Digest(); after != before || len(requestsOf(r.tables)) != len(ids) {
				t.Error("making a backup has changed the state")
			}
			c, err := CheckBackup(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			want := r.view().contents()
			if c.Index != want.Index || c.Sessions != want.Sessions || c.Entries != want.Entries || c.Level != want.Level ||
				c.Ended != want.Ended || c.Marks != want.Marks || c.Attachment != want.Attachment {
				t.Errorf("it holds %+v, want %+v", c, want)
			}
			sum := uint64(0)
			for _, n := range c.Kinds {
				sum += n
			}
			if sum != c.Entries {
				t.Errorf("%d entries of kinds %v", c.Entries, c.Kinds)
			}
		})
	}
}

// A snapshot of a node is no backup: it holds the key.
func TestASnapshotIsNoBackup(t *testing.T) {
	if _, err := CheckBackup(bytes.NewReader(furnished(t).snapshot(t))); err == nil ||
		!strings.Contains(err.Error(), "cluster key") {
		t.Errorf("CheckBackup of a snapshot: %v", err)
	}
}

// Nothing that the former cluster gave out after the backup comes again in the renewed one (I7 ids are never reused):
// ids, whatever its clocks said, stamps and attachments. No credential of it is good any more.
func TestI7ARenewedStateGivesOutNothingAgain(t *testing.T) {
	for name, r := range map[string]*replica{"without a tree": furnished(t), "with a tree": inTheTree(t)} {
		t.Run(name, func(t *testing.T) {
			former := r.view()
			b := r.backup(t)
			// The former cluster goes on.
			later := opening(77)
			later.MS = 10 * 60_000
			went := r.open(t, later)
			wentAt := r.AppliedIndex()

			now := session.Epoch().Add(20 * time.Minute)
			key := session.Key{9, 9, 9}
			var snapshot bytes.Buffer
			c, err := Renew(bytes.NewReader(b), &snapshot, Renewal{Key: key, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			n := restored(t, snapshot.Bytes())
			if c.Index != former.index+IndexLeap || n.AppliedIndex() != c.Index || n.tables.key != key {
				t.Errorf("renewed to index %d and key %v", n.AppliedIndex(), n.tables.key)
			}
			next := opening(78)
			next.MS = 0 // a clock that is set back
			got := n.open(t, next)
			floor := session.ID(1)<<56 | session.ID(session.MS(now)+uint64(MarkLeap.Milliseconds()))<<16
			if got.ID <= went.ID || got.ID < floor {
				t.Errorf("id %v in the renewed state, %v in the former one; want one above %v", got.ID, went.ID, floor)
			}
			if got.Attachment <= went.Attachment || got.Attachment < AttachmentLeap {
				t.Errorf("attachment %d in the renewed state, %d in the former one", got.Attachment, went.Attachment)
			}
			if stamp := tree.StampAt(n.AppliedIndex(), 1); stamp <= tree.StampAt(wentAt, tree.MaxPosition) {
				t.Errorf("stamp %v in the renewed state, and the former one is at index %d", stamp, wentAt)
			}
			for node := session.Node(1); node <= session.MaxNode; node++ {
				if mark := n.tables.marks[node]; mark.Node() != node || mark.MS() < session.MS(now)+86_400_000 {
					t.Errorf("the mark of node %d is %v", node, mark)
				}
			}
			former.Ascend(0, func(s session.Session) bool {
				is, ok := n.tables.session(s.ID)
				if !ok || is.Attachment != s.Attachment {
					t.Errorf("session %v is gone, or has another attachment", s.ID)
				}
				if n.tables.key.Verify(s.ID, former.tables.key.Credential(s.ID)) {
					t.Errorf("a former credential of session %v is good", s.ID)
				}
				return true
			})
			if n.Tree().Root.Len() != former.tables.shown.Root.Len() {
				t.Error("the renewed state has another tree")
			}
		})
	}
}

// A node number whose ids are nearly used up has none left in a renewed state, rather than ids that may come again.
func TestRenewalUsesUpTheLastIDs(t *testing.T) {
	last := session.ID(8)<<56 - 1
	for mark, want := range map[session.ID]session.ID{last: last, last - 5: last} {
		if got := leap(mark, 7, 0); got != want {
			t.Errorf("the mark %v becomes %v, want %v", mark, got, want)
		}
	}
	if got := leap(0, 7, session.MaxMS+1); got != last {
		t.Errorf("with a clock beyond all ids the mark is %v, want %v", got, last)
	}
}

func TestRenewalRefusesAnIndexWithoutRoom(t *testing.T) {
	v := inTheTree(t).view()
	v.index = tree.MaxIndex - IndexLeap
	if err := v.renew(Renewal{Key: session.Key{1}, Now: session.Epoch()}); err == nil ||
		!strings.Contains(err.Error(), "is too high") {
		t.Errorf("renewed: %v", err)
	}
}

func TestNoBackupOfDamagedMemory(t *testing.T) {
	r := furnished(t)
	r.tables.sum.Add([]byte("damage"))
	made, err := r.Backup()
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Verify(); err == nil {
		t.Error("a damaged state was accepted")
	}
}
