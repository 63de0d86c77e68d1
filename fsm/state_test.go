package fsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// recorder is an Observer that records its calls, and runs a hook in each.
type recorder struct {
	events []string
	hook   func()
}

func (o *recorder) Applied(index, term uint64, changes []session.Change) {
	kinds := make([]string, len(changes))
	for i, c := range changes {
		kinds[i] = fmt.Sprintf("%s %v", map[session.ChangeKind]string{
			session.Opened: "opened", session.Moved: "moved", session.Ended: "ended",
		}[c.Kind], c.Session.ID.Counter())
	}
	o.events = append(o.events, fmt.Sprintf("%d/%d %v", index, term, kinds))
	if o.hook != nil {
		o.hook()
	}
}

func (o *recorder) Restored() {
	o.events = append(o.events, "restored")
	if o.hook != nil {
		o.hook()
	}
}

func observe(r *replica) *recorder {
	o := new(recorder)
	r.Observe(o)
	return o
}

func TestObserverHearsEveryChangeInOrder(t *testing.T) {
	r := newReplica()
	r.open(t, opening(1))
	o := new(recorder)
	frozen, cancel := r.Observe(o)
	if frozen.Len() != 1 || frozen.Index() != 1 {
		t.Errorf("frozen at index %d with %d sessions, want 1 with 1", frozen.Index(), frozen.Len())
	}
	results := r.apply(t, 3, opening(2), opening(3))
	a, b := results[0].Session, results[1].Session
	r.apply(t, 4, session.MoveSession{ID: a.ID, NewOwner: 2, Instance: 1, Attempt: 1, Named: 1}, closing(4, b, a),
		begins(session.Configure{}))
	r.apply(t, 4, session.ForgetRequests{})
	cancel()
	r.open(t, opening(4))
	cancel()
	want := []string{"2/3 [opened 1 opened 2]", "3/4 [moved 1 ended 2]", "4/4 []"}
	if !reflect.DeepEqual(o.events, want) {
		t.Errorf("told %q\nwant %q", o.events, want)
	}
	if frozen.Len() != 1 {
		t.Errorf("the frozen state has %d sessions now, want 1", frozen.Len())
	}
}

func TestChangeOfAnEnd(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	var got session.Change
	r.Observe(changeKeeper{&got})
	r.do(t, closing(1, s))
	cert, _ := r.Certificate(s.ID)
	if want := (session.Change{
		Kind: session.Ended, Session: s, Certificate: &cert, Stamp: tree.StampAt(2, 2),
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("change is %+v\nwant %+v", got, want)
	}
}

type changeKeeper struct{ last *session.Change }

func (k changeKeeper) Applied(_, _ uint64, changes []session.Change) {
	*k.last = changes[len(changes)-1]
}
func (changeKeeper) Restored() {}

// Observers have returned from Applied before anything shows that the entry was applied (M3 served in the leader's
// term, T1 atomic swap).
func TestObserversRunBeforeTheIndexShows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newReplica()
		first := r.open(t, opening(1))
		o := observe(r)
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			if err := r.WaitApplied(t.Context(), 2); err != nil {
				t.Error(err)
			}
			if got := r.Attachment(); got != 2 {
				t.Errorf("attachment after waiting for index 2 is %d, want 2", got)
			}
		}()
		synctest.Wait()
		o.hook = func() {
			synctest.Wait()
			select {
			case <-waited:
				t.Error("WaitApplied returned before the observer had")
			default:
			}
			if got := r.Attachment(); got != first.Attachment {
				t.Errorf("attachment is %d while the observer runs, want %d", got, first.Attachment)
			}
			if got := r.AppliedIndex(); got != 1 {
				t.Errorf("applied index is %d while the observer runs, want 1", got)
			}
			if got := r.ShownIndex(); got != 2 {
				t.Errorf("shown index is %d while the observer runs, want 2", got)
			}
			if got := r.Sessions(); got != 2 {
				t.Errorf("%d sessions while the observer runs, want 2", got)
			}
		}
		r.open(t, opening(2))
		<-waited
	})
}

func TestWaitApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newReplica()
		r.open(t, opening(1))
		if err := r.WaitApplied(t.Context(), 1); err != nil {
			t.Errorf("waiting for an applied index = %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		const waiters = 3000
		done := make(chan uint64, waiters)
		for i := range waiters {
			go func() {
				index := uint64(2 + i%3)
				if err := r.WaitApplied(t.Context(), index); err != nil {
					t.Error(err)
				}
				done <- index
			}()
			go func() {
				if err := r.WaitApplied(ended, uint64(2+i%5)); !errors.Is(err, context.Canceled) {
					t.Errorf("waiting with an ended context = %v, want %v", err, context.Canceled)
				}
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := r.progress.waiting.Len(); got != 3 {
			t.Errorf("calls wait for %d indices, want 3", got)
		}
		for index := uint64(2); index <= 4; index++ {
			r.apply(t, 1, begins(session.Configure{}))
			synctest.Wait()
			if got := len(done); got != waiters/3 {
				t.Errorf("%d waiters were woken at index %d, want %d", got, index, waiters/3)
			}
			for len(done) > 0 {
				if got := <-done; got != index {
					t.Errorf("a waiter for %d was woken at %d", got, index)
				}
			}
		}
		if got := r.progress.waiting.Len(); got != 0 {
			t.Errorf("calls wait for %d indices, want none", got)
		}
	})
}

// Raft commits entries that it does not show to an FSM. The state reaches the index of a configuration at once, and the
// index of a no-op with the entry after it (R4 leadership needs a good round).
func TestR4IndicesWithoutACommand(t *testing.T) {
	r := newReplica()
	r.StoreConfiguration(1, raft.Configuration{})
	if got := r.AppliedIndex(); got != 1 {
		t.Errorf("applied index after a configuration is %d, want 1", got)
	}
	if index, digest := r.Digest(); index != 1 || digest != r.tables.digest() {
		t.Errorf("Digest = %d, %x, want 1, %x", index, digest, r.tables.digest())
	}
	r.next = 3 // index 2 was the no-op of the term
	r.do(t, begins(session.Configure{}))
	if err := r.WaitApplied(t.Context(), 2); err != nil {
		t.Errorf("waiting for the index of the no-op = %v", err)
	}
	if _, ok := r.DigestAt(2); ok {
		t.Error("there is a digest of an index that was not shown")
	}
	if got := restored(t, r.snapshot(t)).AppliedIndex(); got != 3 {
		t.Errorf("applied index after a restore is %d, want 3", got)
	}
}

func TestDigestAt(t *testing.T) {
	r := newReplica()
	var want [][16]byte
	for i := range digestRing + 10 {
		c := opening(1)
		c.RequestID = session.RequestID{1, byte(i), byte(i >> 8)}
		r.open(t, c)
		_, d := r.Digest()
		want = append(want, d)
	}
	for i, d := range want {
		index := uint64(i) + 1
		got, ok := r.DigestAt(index)
		if remembered := i >= 10; ok != remembered || ok && got != d {
			t.Fatalf("DigestAt(%d) = %x, %v, want %x, %v", index, got, ok, d, remembered)
		}
	}
	if _, ok := r.DigestAt(r.AppliedIndex() + 1); ok {
		t.Error("there is a digest of an index that has not been applied")
	}
}

// The error of a damaged entry names the entry and its file, and does not blame the release.
func TestADamagedEntryIsNamed(t *testing.T) {
	good, err := entry.Encode([]session.Command{opening(2)})
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for _, data := range [][]byte{flipped, good[:3], make([]byte, len(good)), nil} {
		s := New(Config{Logger: hclog.NewNullLogger(), Fatal: func(error) {}, LogPath: "/data/log"})
		err, ok := s.Apply(&raft.Log{Index: 812, Term: 7, Data: data}).(error)
		named := &UnreadableError{}
		if !ok || !errors.As(err, &named) || !named.Corrupt() ||
			!strings.HasPrefix(err.Error(), "log entry 812 of term 7 in /data/log is damaged: ") ||
			strings.Contains(err.Error(), "release") ||
			!strings.Contains(err.Error(), "empty this node's data directory") {
			t.Errorf("%x: %v", data, err)
		}
	}
}

func TestEntryThatCannotBeUnderstoodHalts(t *testing.T) {
	r := newReplica()
	r.open(t, opening(1))
	o := observe(r)
	before := r.tables.digest()
	for range 2 {
		result := r.Apply(&raft.Log{Index: 2, Term: 7, Data: append([]byte{2, 0, 0, 0, 0xab}, make([]byte, 1<<20)...)})
		err, ok := result.(error)
		if !ok {
			t.Fatalf("Apply = %v, want an error", result)
		}
		for _, want := range []string{
			"entry 2 of term 7", "this node's release cannot read", "format 2",
			"data directory", "(1048581 bytes, which begin with 02 00 00 00 ab 00",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		}
		if len(err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
	if len(r.fatal) != 1 {
		t.Fatalf("Fatal was told %d times, want once", len(r.fatal))
	}
	good, err := entry.Encode([]session.Command{opening(2)})
	if err != nil {
		t.Fatal(err)
	}
	if result, ok := r.Apply(&raft.Log{Index: 3, Term: 7, Data: good}).(error); !ok || !errors.Is(result, r.fatal[0]) {
		t.Errorf("a good entry after a bad one = %v, want %v", result, r.fatal[0])
	}
	r.StoreConfiguration(4, raft.Configuration{})
	if r.AppliedIndex() != 1 || r.tables.digest() != before || len(o.events) != 0 {
		t.Errorf("a halted state is at index %d and told %v, want 1 and nothing", r.AppliedIndex(), o.events)
	}
	if _, err := r.Snapshot(); !errors.Is(err, r.fatal[0]) {
		t.Errorf("Snapshot of a halted state = %v, want %v", err, r.fatal[0])
	}
	if err := r.restore(newReplica().snapshot(t)); !errors.Is(err, r.fatal[0]) {
		t.Errorf("Restore of a halted state = %v, want %v", err, r.fatal[0])
	}
}

func TestViewAscends(t *testing.T) {
	r := newReplica()
	var want []session.ID
	for n := byte(1); n <= 100; n++ {
		c := opening(n)
		c.Node = session.Node(n%3 + 1)
		r.open(t, c)
	}
	v := r.Frozen()
	v.Ascend(0, func(s session.Session) bool { want = append(want, s.ID); return true })
	if len(want) != 100 || v.Attachment() != 100 {
		t.Fatalf("%d sessions, attachment %d; want 100, 100", len(want), v.Attachment())
	}
	for size := 1; size <= 101; size += 10 {
		var got []session.ID
		for after := session.ID(0); ; {
			page := 0
			v.Ascend(after, func(s session.Session) bool {
				got, after = append(got, s.ID), s.ID
				page++
				return page < size
			})
			if page < size {
				break
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("pages of %d give %d sessions, want the same 100", size, len(got))
		}
	}
	if s, ok := v.Session(want[7]); !ok || s.ID != want[7] {
		t.Errorf("Session(%v) = %v, %v", want[7], s.ID, ok)
	}
	if _, ok := v.Session(want[99] + 1); ok {
		t.Error("the View has a session that was never opened")
	}
	v.Ascend(^session.ID(0), func(s session.Session) bool {
		t.Errorf("%v is above the highest id", s.ID)
		return false
	})
}

// ShownIndex after a read is never below the index that the read showed, however the state reached it (N4 seen index).
func TestN4ShownIndexIsNeverBelowWhatIsShown(t *testing.T) {
	r := newReplica()
	shown := func(how string, want uint64) {
		t.Helper()
		if got := r.ShownIndex(); got != want {
			t.Errorf("after %s the index shown is %d, want %d", how, got, want)
		}
	}
	r.StoreConfiguration(1, raft.Configuration{})
	shown("a configuration", 1)
	other := furnished(t)
	o := observe(r)
	if err := r.restore(other.snapshot(t)); err != nil || len(o.events) == 0 {
		t.Fatalf("restored with %v, told %v", err, o.events)
	}
	shown("a restore", other.AppliedIndex())

	// Reads show an entry, and ShownIndex its index, from the same moment on, because both change with the lock held.
	done, reader := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reader)
		for {
			select {
			case <-done:
				return
			default:
			}
			if read, _ := r.Digest(); r.ShownIndex() < read {
				t.Errorf("a read at index %d was followed by the index %d", read, r.ShownIndex())
				return
			}
		}
	}()
	data, err := entry.Encode([]session.Command{begins(session.Configure{})})
	if err != nil {
		t.Fatal(err)
	}
	for r.next = other.AppliedIndex() + 1; r.next < 120_000; {
		r.applyBytes(t, 2, data)
	}
	close(done)
	<-reader
}
