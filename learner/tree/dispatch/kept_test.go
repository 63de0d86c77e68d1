package dispatch_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/watch"
)

// keptWorld is a dispatcher with a connection of session 1, whose writes set /a.
type keptWorld struct {
	*world
	t      *testing.T
	l      *dispatch.Dispatcher
	c      *dispatch.Conn
	sent   []*pending.Write // the writes that the pending table has, and that are not applied
	number uint64
}

func newKeptWorld(t *testing.T, limits dispatch.Limits) *keptWorld {
	t.Helper()
	w := &keptWorld{
		t: t, world: newWorld(t, rand.New(rand.NewPCG(1, 1)), limits, watch.RingLimits{Items: 100_000, Bytes: 1 << 30}),
	}
	w.shared.Writes = w
	w.l = dispatch.New(w.shared, limits, func() {})
	w.c = w.l.Open(root, func() {})
	w.l.Attach(w.c, 1, 1, 1)
	return w
}

func (w *keptWorld) Accept(p *pending.Write) error {
	w.sent = append(w.sent, p)
	return nil
}

func (*keptWorld) Refused(*pending.Write)  {}
func (*keptWorld) Repeated(*pending.Write) {}

// write sends the next write.
func (w *keptWorld) write(body int) {
	w.t.Helper()
	w.number++
	one := pending.Write{Session: 1, Attachment: 1, Number: w.number, Body: make([]byte, body)}
	if err := w.l.Write(w.c, dispatch.Write{Key: w.number, Write: one}); err != nil {
		w.t.Fatal(err)
	}
}

// readKey is the key of a read, less the number of the write before it.
const readKey = 1_000_000

func (w *keptWorld) read(q tree.Query) {
	w.t.Helper()
	q.Session = 1
	if _, err := w.l.Read(w.c, dispatch.Read{Key: readKey + w.number, Attachment: 1, Query: q}); err != nil {
		w.t.Fatal(err)
	}
}

// applySent applies an entry with the sent writes. Each sets /a to its number, with the size of its body.
func (w *keptWorld) applySent() {
	w.index++
	var changes []tree.Change
	var wrote []pending.Outcome
	for i, p := range w.sent {
		at := store.At{Stamp: tree.StampAt(w.index, i+1), Principals: root}
		one := pending.Outcome{Session: 1, Attachment: 1, Number: p.Number, At: at.Stamp, Result: result(at.Stamp)}
		if p.ReadsBefore {
			one.Before = w.tree.Freeze()
		}
		data := make([]byte, max(8, len(p.Body)))
		binary.BigEndian.PutUint64(data, p.Number)
		var op tree.Op = tree.Set{Path: "/a", Version: tree.Any, Data: data}
		if p.Number == 1 {
			op = tree.Create{Path: "/a", Kind: tree.Persistent, Data: data}
		}
		_, more := w.tree.Do(at, tree.Transaction{Then: []tree.Op{op}})
		changes, wrote = append(changes, more...), append(wrote, one)
		former := w.kept[1]
		w.kept[1] = writer{attachment: 1, results: append(former.results, one.Result)}
	}
	w.sent = nil
	w.hub.Applied(w.published(), changes, wrote)
}

// pass passes to the newest state, and returns the answers.
func (w *keptWorld) pass() (answers []*dispatch.Answer) {
	w.l.Pass()
	for _, job := range w.l.Work() {
		job.Do()
	}
	for s, ok := w.c.Next(time.Time{}); ok; s, ok = w.c.Next(time.Time{}) {
		answers = append(answers, s.Value.Answer)
	}
	return answers
}

// shows checks that answers come in order, and that each read shows the write before it.
func (w *keptWorld) shows(answers []*dispatch.Answer) {
	w.t.Helper()
	newest := tree.Stamp(0)
	for _, a := range answers {
		if a.Stamp < newest {
			w.t.Errorf("an answer as of %v follows one as of %v", a.Stamp, newest)
		}
		newest = max(newest, a.Stamp)
		switch number := a.Key - readKey; {
		case a.Key < readKey:
		case a.Err != nil || len(a.Read.Data) < 8 || binary.BigEndian.Uint64(a.Read.Data) != number:
			w.t.Errorf("the read after write %d shows %x at %v, %v", number, a.Read.Data, a.Stamp, a.Err)
		}
	}
}

var getA = tree.Query{Kind: tree.GetEntry, Path: "/a"}

// TestKeptTrees: a node keeps 4,096 trees for reads that writes have passed. Further writes wait, and each read shows
// exactly the tree before the write behind it (G3 order in a session).
func TestKeptTrees(t *testing.T) {
	const kept, more = 4096, 3
	limits := dispatch.DefaultLimits()
	limits.Requests = 3 * kept
	w := newKeptWorld(t, limits)
	slow := dispatch.New(w.shared, limits, func() {}) // it passes nothing, and needs no tree
	w.write(0)
	for range kept + more {
		w.read(getA)
		w.write(0)
	}
	for _, want := range []int{kept + 1, more} {
		if len(w.sent) != want {
			t.Fatalf("%d writes are sent, want %d", len(w.sent), want)
		}
		w.applySent()
		answers := w.pass()
		if len(answers) < 2*want-1 {
			t.Fatalf("%d answers for %d writes", len(answers), want)
		}
		w.shows(answers)
	}
	if n := w.hub.KeptTrees(); n != 0 {
		t.Errorf("%d trees are kept after their reads", n)
	}
	slow.Pass()
	w.write(0)
	w.read(getA)
	w.write(0)
	if n := w.hub.ReservedTrees(); n != 1 {
		t.Errorf("%d trees are reserved, want 1", n)
	}
	if w.l.Close(w.c); w.hub.ReservedTrees() != 0 {
		t.Errorf("a closed connection has reserved %d trees", w.hub.ReservedTrees())
	}
}

// Reads that no write passes reserve no memory: other reads of the connection run meanwhile. Writes stop passing reads
// when half of the connection's memory is reserved.
func TestPassedReadsHoldHalfTheMemory(t *testing.T) {
	limits := dispatch.DefaultLimits()
	limits.Unsent = 100_000
	w := newKeptWorld(t, limits)
	w.write(10_000)
	w.applySent()
	w.pass()
	w.write(10_000)
	for range 20 {
		w.read(getA)
	}
	if n := w.c.Unsent(); n != 0 {
		t.Errorf("%d bytes are reserved for reads that no write has passed", n)
	}
	w.write(0)
	if n, sent := w.c.Unsent(), len(w.sent); n < limits.Unsent/2 || n > limits.Unsent*3/4 || sent != 1 {
		t.Errorf("%d bytes of %d are reserved, %d writes sent", n, limits.Unsent, sent)
	}
	if _, err := w.l.Read(w.c, dispatch.Read{Key: 1, Query: getA}); err != nil {
		t.Fatal(err)
	}
	w.read(getA)
	if work := w.l.Work(); len(work) != 1 {
		t.Errorf("%d reads run beside reads that wait, want 1", len(work))
	} else {
		work[0].Do()
	}
	for range 4 { // what waited for memory runs when answers are sent
		w.applySent()
		w.shows(w.pass()[1:])
	}
	if !w.l.Idle(1, 1) {
		t.Error("requests are left")
	}
}

// A read shows what a write before it has made larger, also when the connection's memory is used up meanwhile.
func TestAPassedReadGrows(t *testing.T) {
	limits := dispatch.DefaultLimits()
	limits.Unsent = 90_000
	w := newKeptWorld(t, limits)
	w.write(1)
	w.applySent()
	w.pass()
	w.write(40_000)
	w.read(getA)
	w.write(2)
	for range 8 { // their answers use up the memory until they are filled
		if _, err := w.l.Read(w.c, dispatch.Read{Key: 1, Query: tree.Query{Kind: tree.GetACL, Path: "/a"}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.c.Unsent(); len(w.sent) != 2 || n < limits.Unsent {
		t.Fatalf("%d writes are sent, want 2; %d bytes of %d are used", len(w.sent), n, limits.Unsent)
	}
	w.applySent()
	w.shows(w.pass())
}

// A read that another session's write has made larger is refused when the connection has no memory for it, as of the
// tree that it would show: stamps do not fall.
func TestARefusedPassedReadKeepsTheOrder(t *testing.T) {
	limits := dispatch.DefaultLimits()
	limits.Unsent = 90_000
	w := newKeptWorld(t, limits)
	w.write(1)
	w.applySent()
	w.pass()
	w.write(1)
	w.read(getA)
	w.write(1)
	for range 8 {
		if _, err := w.l.Read(w.c, dispatch.Read{Key: 1, Query: tree.Query{Kind: tree.GetACL, Path: "/a"}}); err != nil {
			t.Fatal(err)
		}
	}
	w.sent[0].Body = make([]byte, 40_000) // what the entry has then, as if another session had set it
	w.applySent()
	answers := w.pass()
	newest, refused := tree.Stamp(0), 0
	for _, a := range answers {
		if a.Stamp < newest {
			t.Errorf("an answer as of %v follows one as of %v", a.Stamp, newest)
		}
		newest = max(newest, a.Stamp)
		if errors.Is(a.Err, session.ErrLagging) {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d reads are refused, want 1", refused)
	}
}

// A passed read shows the time that an entry has left as of the newest state, also after a long time without entries.
func TestAPassedReadShowsTheTimeLeft(t *testing.T) {
	w := newKeptWorld(t, dispatch.DefaultLimits())
	w.write(1)
	w.applySent()
	w.pass()
	w.write(1)
	w.read(tree.Query{Kind: tree.GetStat, Path: "/b"})
	w.write(1)
	const now, ttl = time.Hour, 10 * time.Second
	w.index++
	var changes []tree.Change
	var wrote []pending.Outcome
	for i, op := range []tree.Op{
		tree.Create{Path: "/b", Kind: tree.Expiring, TTL: ttl}, tree.Set{Path: "/a", Version: tree.Any},
	} {
		at := store.At{Stamp: tree.StampAt(w.index, i+1), L: now, Principals: root}
		one := pending.Outcome{Session: 1, Attachment: 1, Number: uint64(i + 2), At: at.Stamp, Result: result(at.Stamp)}
		if w.sent[i].ReadsBefore {
			one.Before = w.tree.Freeze()
		}
		_, more := w.tree.Do(at, tree.Transaction{Then: []tree.Op{op}})
		changes, wrote = append(changes, more...), append(wrote, one)
	}
	state := w.published()
	state.Clock = now
	w.hub.Applied(state, changes, wrote)
	answers := w.pass()
	if len(answers) != 3 || !answers[1].Read.Exists || answers[1].Read.Stat.Remaining != ttl {
		t.Errorf("got %+v, want an entry with %v left", answers[min(1, len(answers)-1)].Read, ttl)
	}
}

// A snapshot that replaces the state replaces the kept trees too.
func TestARestoreKeepsNoTree(t *testing.T) {
	w := newKeptWorld(t, dispatch.DefaultLimits())
	w.write(1)
	w.read(getA)
	w.write(1)
	w.applySent()
	if n := w.hub.KeptTrees(); n != 1 {
		t.Fatalf("%d trees are kept, want 1", n)
	}
	w.index++
	w.hub.Restored(w.published())
	if n := w.hub.KeptTrees(); n != 0 {
		t.Errorf("%d trees are kept after a restore", n)
	}
	refused := 0
	for _, a := range w.pass() {
		if errors.Is(a.Err, session.ErrLagging) {
			refused++
		}
	}
	if refused != 1 || w.hub.ReservedTrees() != 0 {
		t.Errorf("%d reads are refused, want 1; %d trees are reserved", refused, w.hub.ReservedTrees())
	}
}
