package fsm

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"holdfast/fsm/codec"
	"holdfast/fsm/entry"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// withTree is a replica of a cluster that has a tree, and what its observer heard of the newest entry.
type withTree struct {
	*replica
	clock   time.Duration
	now     *Tree
	changes []tree.Change
	wrote   []Wrote
}

func (r *withTree) AppliedTree(now *Tree, changes []tree.Change, wrote []Wrote) {
	r.now, r.changes, r.wrote = now, changes, wrote
}

func (r *withTree) RestoredTree(now *Tree) { r.now = now }

func newTree(t fataler) *withTree {
	t.Helper()
	r := observed(newReplica())
	r.at(t, begins(session.Configure{Key: session.Key{1}}))
	return r
}

func observed(of *replica) *withTree {
	r := &withTree{replica: of}
	r.now, _ = of.ObserveTree(r)
	return r
}

// at applies an entry of term 1 whose clocks show the time.
func (r *withTree) at(t fataler, commands ...session.Command) []session.Result {
	t.Helper()
	data, err := entry.EncodeAt(commands, entry.Clocks{WallMS: 1000 + r.clock.Milliseconds(), Log: r.clock})
	if err != nil {
		t.Fatalf("EncodeEntryAt: %v", err)
	}
	return r.applyBytes(t, 1, data)
}

func (r *withTree) open(t fataler, n byte, instance uint64) session.Session {
	t.Helper()
	o := opening(n)
	o.Instance = instance
	return r.at(t, o)[0].Session
}

// write applies a write in an entry of its own, and returns what became of it.
func (r *withTree) write(t fataler, w tree.NumberedWrite) (tree.Result, error) {
	t.Helper()
	r.at(t, writing(t, w))
	return r.outcome(t, 0)
}

// outcome returns what became of a write of the newest entry.
func (r *withTree) outcome(t fataler, i int) (tree.Result, error) {
	t.Helper()
	if err := r.wrote[i].Err; err != nil {
		return tree.Result{}, err
	}
	result, err := form.ParseResult(r.wrote[i].Result)
	if err != nil {
		t.Fatalf("ParseResult: %v", err)
	}
	return result, nil
}

func writing(t fataler, w tree.NumberedWrite) session.TreeCommand {
	t.Helper()
	encoded, err := form.AppendWrite(nil, w)
	if err != nil {
		t.Fatalf("AppendWrite: %v", err)
	}
	return session.TreeCommand{Encoded: encoded, Weight: tree.Weight(w.Transaction)}
}

func numbered(s session.Session, number uint64, ops ...tree.Op) tree.NumberedWrite {
	return tree.NumberedWrite{
		Session: uint64(s.ID), Attachment: s.Attachment, Number: number, Transaction: tree.Transaction{Then: ops},
	}
}

func ephemeral(path string) tree.Op { return tree.Create{Path: path, Kind: tree.Ephemeral} }

func persistent(path string) tree.Op { return tree.Create{Path: path, Kind: tree.Persistent} }

func (r *withTree) has(path string) bool {
	_, ok := r.now.Root.Stat(path)
	return ok
}

// TestW8: the Configure that founds the cluster sets its level, which stays. Limits follow each Configure.
func TestW8(t *testing.T) {
	r := observed(newReplica())
	if now := r.Tree(); now.Level != 0 || !r.has("/") || !r.has(tree.QuotaPath) {
		t.Errorf("before the first entry: %+v", now)
	}
	founding := begins(session.Configure{Key: session.Key{1}})
	r.at(t, founding)
	if got := r.Tree().Level; got != session.FeatureLevel {
		t.Errorf("the cluster was founded at level %d, want %d", got, session.FeatureLevel)
	}
	founding.Limits = tree.Limits{Ephemerals: 1, Children: 10, Bytes: tree.DefaultBytes}
	if r.at(t, founding); r.Tree().Limits != founding.Limits {
		t.Errorf("limits %+v, want %+v", r.Tree().Limits, founding.Limits)
	}
	same(t, restored(t, r.snapshot(t)), r.replica)
}

// TestW8TheLevelIsThatOfTheFounding: a later leader, of a release that knows more, raises nothing by leading (W8
// feature level).
func TestW8TheLevelIsThatOfTheFounding(t *testing.T) {
	r := newReplica()
	now := &step{tables: r.tables}
	for _, level := range []uint32{1, 2} {
		now.configure(session.Configure{Key: session.Key{1}, Level: level})
		if got := r.tables.treeState.level; got != 1 {
			t.Errorf("after a leader of level %d: level %d, want that of the founding, 1", level, got)
		}
	}
}

// TestW8ALevelThatThisProgramDoesNotKnow: a node stops at an entry with a higher level, and says what to do.
func TestW8ALevelThatThisProgramDoesNotKnow(t *testing.T) {
	r := newTree(t)
	later := &logv1.Configure{Nonce: 1, Level: session.FeatureLevel + 1, Limits: codec.LimitsProto(tree.DefaultLimits())}
	message, err := proto.Marshal(&logv1.Entry{Commands: []*logv1.Command{
		{Command: &logv1.Command_Configure{Configure: later}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	data := entry.Join([][]byte{message}, entry.Clocks{})
	r.Apply(&raft.Log{Index: r.next, Term: 1, Data: data})
	if len(r.fatal) != 1 || !strings.Contains(r.fatal[0].Error(), "the cluster has feature level 2, and this program "+
		"knows levels up to 1") {
		t.Errorf("Fatal was told %v", r.fatal)
	}
}

// TestW3: the state takes a write only from the client process that has the session now.
func TestW3(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	if _, err := r.write(t, numbered(s, 1, persistent("/a"))); err != nil {
		t.Fatal(err)
	}
	none := r.open(t, 2, 0)
	if _, err := r.write(t, numbered(none, 1, persistent("/b"))); !errors.Is(err, session.ErrNoInstance) {
		t.Errorf("a session without an instance: %v, want %v", err, session.ErrNoInstance)
	}
	moved := r.at(t, session.MoveSession{ID: s.ID, NewOwner: 2, Instance: 7, Attempt: 1, Named: s.Attachment})[0].Session
	if _, err := r.write(t, numbered(s, 2, persistent("/b"))); !errors.Is(err, session.ErrMoved) {
		t.Errorf("a former attachment: %v, want %v", err, session.ErrMoved)
	}
	r.at(t, closing(1, moved))
	if _, err := r.write(t, numbered(moved, 2, persistent("/b"))); !errors.Is(err, session.ErrExpired) {
		t.Errorf("an ended session: %v, want %v", err, session.ErrExpired)
	}
	if r.has("/b") || !r.has("/a") {
		t.Error("a refused write took effect")
	}
}

// TestX2: a write takes effect once. Its repeats get its result, and what comes early waits for what is before it.
func TestX2(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	sequential := tree.Create{Path: "/q-", Sequential: true, Kind: tree.Persistent}
	first, err := r.write(t, numbered(s, 1, sequential))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.write(t, numbered(s, 1, sequential)); err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("the repeat: %+v, %v, want %+v", again, err, first)
	}
	var gap *tree.GapError
	if _, err := r.write(t, numbered(s, 3, sequential)); !errors.As(err, &gap) || gap.Expected != 2 {
		t.Errorf("a gap: %v, want %d expected", err, 2)
	}
	r.at(t, acknowledging(t, tree.Acknowledgement{Session: uint64(s.ID), UpTo: 1}))
	if _, err := r.write(t, numbered(s, 1, sequential)); !errors.Is(err, session.ErrOutcomeUnknown) {
		t.Errorf("a repeat of an acknowledged write: %v, want %v", err, session.ErrOutcomeUnknown)
	}
	void := numbered(s, 2)
	void.Void = true
	if result, err := r.write(t, void); err != nil || !result.Void {
		t.Errorf("a void: %+v, %v", result, err)
	}
	if result, err := r.write(t, numbered(s, 2, sequential)); err != nil || !result.Void {
		t.Errorf("a write behind its void: %+v, %v, want the void's result (X6)", result, err)
	}
	if stat, _ := r.now.Root.Stat("/"); stat.Children != 2 { // and /zookeeper
		t.Errorf("the root has %d children, want 2", stat.Children)
	}
}

func acknowledging(t fataler, all ...tree.Acknowledgement) session.TreeCommand {
	t.Helper()
	encoded, err := form.AppendAcknowledge(nil, all)
	if err != nil {
		t.Fatalf("AppendAcknowledge: %v", err)
	}
	return session.TreeCommand{Encoded: encoded, Weight: 1}
}

// TestX4: another client process gets no results of the former one.
func TestX4(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	if _, err := r.write(t, numbered(s, 1, persistent("/a"))); err != nil {
		t.Fatal(err)
	}
	s = r.at(t, session.MoveSession{ID: s.ID, NewOwner: 1, Instance: 8, Attempt: 1, Named: s.Attachment})[0].Session
	if now, _ := r.now.Writers.Writer(uint64(s.ID)); now.Applied != 1 || now.Floor != 1 {
		t.Errorf("the writer is %+v, want applied 1 and floor 1", now)
	}
	if _, err := r.write(t, numbered(s, 1, persistent("/b"))); !errors.Is(err, session.ErrOutcomeUnknown) || r.has("/b") {
		t.Errorf("the number of another process: %v, want %v", err, session.ErrOutcomeUnknown)
	}
	if _, err := r.write(t, numbered(s, 2, persistent("/b"))); err != nil || !r.has("/b") {
		t.Errorf("the next number: %v", err)
	}
}

// TestU1U3: what hangs on a session goes in the entry that ends it, and its will is carried out. Its certificate says
// so.
func TestU1U3(t *testing.T) {
	r := newTree(t)
	one, two, three := r.open(t, 1, 7), r.open(t, 2, 8), r.open(t, 3, 9)
	for i, s := range []session.Session{one, two, three} {
		w := numbered(s, 1, ephemeral(fmt.Sprint("/e", i)), tree.Create{
			Path: fmt.Sprint("/lock", i), Kind: tree.Ephemeral, LockDelay: time.Second,
		})
		w.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{persistent(fmt.Sprint("/will", i))}}}
		w.Will.OnClose = i == 1
		if result, err := r.write(t, w); err != nil || result.Outcome.Refused != nil {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	ended := closing(1, two, three)
	ended.Cause = session.CauseClosed
	// A create of a session before its end in the log dies with it, one behind it is refused.
	r.at(t, writing(t, numbered(one, 2, ephemeral("/late"))), closing(1, one),
		writing(t, numbered(one, 3, ephemeral("/no"))), ended)
	if _, err := r.outcome(t, 1); !errors.Is(err, session.ErrExpired) {
		t.Errorf("a write behind the end: %v, want %v", err, session.ErrExpired)
	}
	for path, want := range map[string]bool{
		"/e0": false, "/e1": false, "/e2": false, "/late": false, "/no": false, "/lock0": true, "/lock1": false,
		"/lock2": false, "/will0": true, "/will1": true, "/will2": false,
	} {
		if r.has(path) != want {
			t.Errorf("%s is there: %v, want %v", path, !want, want)
		}
	}
	for s, want := range map[session.ID]session.Left{
		one.ID:   {Instance: 7, Applied: 2, Ephemerals: 3, Will: tree.WillCarriedOut},
		two.ID:   {Instance: 8, Applied: 1, Ephemerals: 2, Will: tree.WillCarriedOut},
		three.ID: {Instance: 9, Applied: 1, Ephemerals: 2, Will: tree.WillDropped},
	} {
		if c, ok := r.Certificate(s); !ok || c.Left != want {
			t.Errorf("certificate %+v, want %+v", c.Left, want)
		}
	}
	if r.now.Writers.Len() != 0 {
		t.Errorf("%d writers outlive their sessions", r.now.Writers.Len())
	}
	// D2: each command and each session that it ends has a position.
	last := r.changes[len(r.changes)-1].Stamp
	if want := tree.StampAt(r.AppliedIndex(), 7); last != want {
		t.Errorf("the last change has stamp %v, want %v", last, want)
	}
	if !slices.IsSortedFunc(r.changes, func(a, b tree.Change) int { return int(int64(a.Stamp) - int64(b.Stamp)) }) {
		t.Error("changes are not in the order of their stamps")
	}
}

// TestAWillOfARefusedWriteIsNone: a write whose will is refused changes nothing, and the former will stays.
func TestAWillOfARefusedWriteIsNone(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	w := numbered(s, 1)
	w.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{persistent("/first")}}}
	if result, err := r.write(t, w); err != nil || result.Outcome.Refused != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	w = numbered(s, 2, tree.Delete{Path: "/none", Version: tree.Any})
	w.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{persistent("/second")}}}
	if result, err := r.write(t, w); err != nil || result.Outcome.Refused == nil {
		t.Fatalf("%+v, %v", result, err)
	}
	if r.at(t, closing(1, s)); !r.has("/first") || r.has("/second") {
		t.Error("the will of a refused write counts")
	}
}

// TestD8ReadersDoNotWaitForAHeavyEntry reads sessions while an entry is applied that takes long.
func TestD8ReadersDoNotWaitForAHeavyEntry(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	ops := make([]tree.Op, tree.MaxOps)
	for i := range ops {
		ops[i] = ephemeral(fmt.Sprint("/e", i))
	}
	_, cancel := r.Observe(toldLate{t, r.State})
	defer cancel()
	var applying atomic.Bool
	applying.Store(true)
	data, err := entry.EncodeAt([]session.Command{writing(t, numbered(s, 1, ops...))}, entry.Clocks{WallMS: 1})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer applying.Store(false)
		r.applyBytes(t, 1, data)
	}()
	reads := 0
	for applying.Load() {
		before := r.beforeHeavy.Load()
		if _, ok := r.Session(s.ID); !ok {
			t.Fatal("the session is not there")
		}
		if before != nil && before == r.beforeHeavy.Load() {
			reads++
		}
	}
	if reads == 0 {
		t.Error("no read came back while the entry was applied")
	}
	if r.now.Root.Len() != tree.MaxOps+3 || r.beforeHeavy.Load() != nil {
		t.Errorf("%d entries, and during is %v", r.now.Root.Len(), r.beforeHeavy.Load())
	}
	end := closing(1, s)
	if got := r.weigh(end); got != 1+4*tree.MaxOps {
		t.Errorf("the end of the session weighs %d, want %d", got, 1+4*tree.MaxOps)
	}
	if r.at(t, end); r.now.Root.Len() != 3 {
		t.Errorf("%d entries after the end", r.now.Root.Len())
	}
	r.mu.Lock() // as while an entry is applied
	r.beforeHeavy.Store(r.frozen())
	defer r.mu.Unlock()
	if c, ok := r.Certificate(s.ID); !ok || c.Left.Ephemerals != tree.MaxOps {
		t.Errorf("a reader that does not wait sees certificate %+v, %v", c, ok)
	}
	if _, ok := r.Certificate(s.ID + 1); ok {
		t.Error("it sees a certificate that is not there")
	}
}

// toldLate fails when it is told of an entry while readers still see the state before it.
type toldLate struct {
	t     *testing.T
	state *State
}

func (o toldLate) Applied(index, _ uint64, _ []session.Change) {
	if o.state.beforeHeavy.Load() != nil {
		o.t.Errorf("entry %d is told, and readers may see the state before it", index)
	}
}

func (toldLate) Restored() {}

// N4: a snapshot may have the index of a change of Raft's configuration. Nodes tell such an index to clients, and all
// others come to show it too.
func TestConfigurationsAreToldToTreeObservers(t *testing.T) {
	r := newTree(t)
	r.open(t, 1, 7)
	before := r.now.Index
	r.StoreConfiguration(before+1, raft.Configuration{})
	if r.now.Index != before+1 || len(r.changes)+len(r.wrote) > 0 {
		t.Errorf("the observer is told of index %d with %v and %v, want index %d with nothing", r.now.Index, r.changes,
			r.wrote, before+1)
	}
}

// D6: the digest shows each of the limits that decide what is refused.
func TestD6TheDigestHasAllLimits(t *testing.T) {
	kind := reflect.TypeFor[tree.Limits]()
	sound := (&Tree{}).canonical(nil)
	for i := range kind.NumField() {
		var limits tree.Limits
		if field := reflect.ValueOf(&limits).Elem().Field(i); field.Kind() == reflect.Bool {
			field.SetBool(true)
		} else {
			field.SetInt(1)
		}
		if slices.Equal((&Tree{Limits: limits}).canonical(nil), sound) {
			t.Errorf("the digest is the same whatever %s is", kind.Field(i).Name)
		}
	}
}
