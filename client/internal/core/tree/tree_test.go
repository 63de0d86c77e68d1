package tree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/client/internal/writes"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// user is what the connection of a test carries.
type user struct{ *sessions.Manager }

func (user) ClusterChanged() {}

// newTest returns a manager that has lost its connection, and a session that was attached there.
func newTest(t *testing.T) (*Manager, *sessions.Session) {
	t.Helper()
	jitter := route.NewJitter(rand.NewPCG(1, 2), 50*time.Millisecond, 2*time.Second)
	conns := conn.New(conn.Config{Servers: []string{"n1:7400"}, ConnectTimeout: time.Second, Jitter: jitter})
	all := sessions.New(sessions.Config{Instance: 77, Jitter: jitter}, conns)
	m := New(Config{Instance: 77}, conns, all)
	all.SetTree(m)
	conns.SetUser(user{all}, user{all})
	conns.SetTime(time.Unix(1, 0), 0)
	token := session.Token{ID: 1, Attachment: 9}
	all.Resume(new(sessions.Call), token)
	conns.Advance()
	c := conns.Effects.Actions[0].Conn
	conns.Connected(c)
	conns.Pump(c)
	granted := session.Session{ID: 1, Spec: session.Spec{Timeout: 10 * time.Second}, Owner: 1, Attachment: 9}
	all.Receive(c, &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
		Seq: 1, Session: wire.SessionProto(granted), Token: wire.TokenProto(token), SafeFor: wire.PromiseProto(-1),
	}}})
	conns.Lost(c, errors.New("connection reset"))
	return m, all.Effects.Granted[0].Session
}

// While no node is in reach, callers come, wait for a while and give up. Callers that have given up leave nothing
// behind.
func TestCallersThatGaveUpLeaveNothingBehind(t *testing.T) {
	m, h := newTest(t)
	patient := []*Call{{}, {}}
	m.Read(patient[0], nil)
	m.Read(patient[1], h)
	m.AddWatch(&Watch{Spec: tree.WatchSpec{Path: "/patient", Kind: tree.WatchRecursive}})
	for i := range 1000 {
		alone, ofSession := &Call{}, &Call{}
		w := &Watch{Spec: tree.WatchSpec{Path: fmt.Sprint("/", i), Kind: tree.WatchRecursive}}
		m.Read(alone, nil)
		m.Read(ofSession, h)
		m.AddWatch(w)
		m.Send()
		m.GiveUp(alone, context.Canceled)
		m.GiveUp(ofSession, context.Canceled)
		m.GiveUpWatch(w, context.Canceled)
		m.Send()
	}
	const few = 8
	s, queue := m.bySession[h], m.watches.queue
	if len(m.reads) > few || len(s.reads) > few || len(queue) > few {
		t.Errorf("%d reads, %d reads of the session and %d watches are kept", len(m.reads), len(s.reads), len(queue))
	}
	if m.reads[0].call != patient[0] || s.reads[0].call != patient[1] || queue[0].spec.Path != "/patient" {
		t.Error("a caller that waits on was forgotten")
	}
}

// Callers that give up all at once cost no search each, and the others keep their order.
func TestThoseWhoWaitOnKeepTheirOrder(t *testing.T) {
	m, _ := newTest(t)
	var calls []*Call
	for range 100 {
		calls = append(calls, &Call{})
		m.Read(calls[len(calls)-1], nil)
	}
	for i, call := range calls {
		if i%10 != 0 {
			m.GiveUp(call, context.Canceled)
		}
	}
	var left []*Call
	for _, r := range m.reads {
		if r.Wanted() {
			left = append(left, r.call)
		}
	}
	if len(left) != 10 || len(m.reads) > 20 {
		t.Fatalf("%d reads wait on, of %d that are kept; want 10 of at most 20", len(left), len(m.reads))
	}
	for i, call := range left {
		if call != calls[10*i] {
			t.Errorf("read %d is another one than before", i)
		}
	}
}

// A question for watches fits into a message that a node accepts, whatever the paths.
func TestQuestionsForLongPathsFit(t *testing.T) {
	for _, catchingUp := range []bool{false, true} {
		m, _ := newTest(t)
		for i := range tree.MaxWatches {
			path := fmt.Sprintf("/%04d", i)
			path += strings.Repeat("x", tree.MaxPath-len(path))
			e := m.watches.entryOf(tree.WatchSpec{Path: path, Kind: tree.WatchPersistent})
			e.active, e.catchingUp = []*Watch{{}}, catchingUp
			m.watches.ask(e)
		}
		asked := 0
		for b := m.nextQuestion(); b != nil; b = m.nextQuestion() {
			var a tree.Addition
			for _, e := range b.entries {
				a.Watches = append(a.Watches, e.spec)
			}
			if size := proto.Size(wire.AdditionProto(1, a)); size > wire.DefaultMessageBytes/2 {
				t.Fatalf("%d watches make a message of %d bytes", len(b.entries), size)
			}
			asked += len(b.entries)
			m.watches.catchUp = nil // the node has answered
		}
		if asked != tree.MaxWatches {
			t.Errorf("asked for %d watches, catching up: %v", asked, catchingUp)
		}
	}
}

// V4: that an entry has gone, which a node reports to a one-shot watch that comes back, is not for watches that wait
// for the entry to come, nor for lasting ones. A deletion is for all.
func TestV4DeletionsAreForWatchersOfTheEntry(t *testing.T) {
	w := &watches{all: map[tree.WatchSpec]*entry{}}
	for kind := tree.WatchData; kind <= tree.WatchRecursive; kind++ {
		w.entryOf(tree.WatchSpec{Path: "/a", Kind: kind})
	}
	for _, one := range []struct {
		what string
		at   tree.Stamp
		want []tree.WatchKind
	}{
		{"an entry that has gone", tree.StampAt(7, tree.MaxPosition), []tree.WatchKind{tree.WatchData, tree.WatchChild}},
		{"a deletion", tree.StampAt(7, 1), []tree.WatchKind{
			tree.WatchData, tree.WatchExists, tree.WatchChild, tree.WatchPersistent, tree.WatchRecursive,
		}},
	} {
		var got []tree.WatchKind
		for _, e := range w.matching(tree.Event{Path: "/a", Kind: tree.EntryDeleted, Stamp: one.at}) {
			got = append(got, e.spec.Kind)
		}
		if slices.Sort(got); !slices.Equal(got, one.want) {
			t.Errorf("%s is for watches %v, want %v", one.what, got, one.want)
		}
	}
}

// A node refuses to watch for a second caller after the first watcher has left. Nothing is left of the watch: otherwise
// reads would wait for its events after the next move.
func TestARefusedWatchLeavesNothing(t *testing.T) {
	m, _ := newTest(t)
	c := &conn.Conn{Window: window.New()}
	m.watches.on = c
	first, second := &Watch{Spec: tree.WatchSpec{Path: "/a"}}, &Watch{Spec: tree.WatchSpec{Path: "/a"}}
	m.AddWatch(first)
	m.watchesAdded(c, m.nextQuestion(), &holdfastv1.WatchesAdded{Stamp: 1})
	m.AddWatch(second)
	b := m.nextQuestion()
	m.DropWatch(first)
	m.watchRefused(c, &window.Request{Body: b}, b, &session.LimitError{Name: "watch_bytes_per_connection"})
	if d := m.Effects.Deliveries; len(d) != 2 || d[1].Watch != second || d[1].Err == nil {
		t.Errorf("deliveries %+v, want that the second watch ends", d)
	}
	if m.watches.moveTo(nil); len(m.watches.all) > 0 || m.watches.catchesUpOn(nil) {
		t.Errorf("%d watches are left", len(m.watches.all))
	}
}

// A watch ends before the node answers its request. The answer leaves no stamp to continue from: the next watch, which
// a read on another node sets, would otherwise get a change that the read has shown, after the next move (V4 resumed
// watches).
func TestV4AnEndedWatchLeavesNoStamp(t *testing.T) {
	m, _ := newTest(t)
	c := &conn.Conn{Window: window.New()}
	m.watches.on = c
	ended := &Watch{Spec: tree.WatchSpec{Path: "/a"}}
	m.AddWatch(ended)
	b := m.nextQuestion()
	m.DropWatch(ended)
	m.watchesAdded(c, b, &holdfastv1.WatchesAdded{Stamp: 1})
	if m.watches.since != 0 {
		t.Errorf("without a watch, events continue from %v", m.watches.since)
	}
	other, shown := &conn.Conn{Window: window.New()}, tree.StampAt(2, tree.MaxPosition)
	m.watchSet(other, &Call{Query: tree.Query{Kind: tree.GetEntry, Path: "/a", Watch: true}, Watch: &Watch{}},
		tree.Answer{Kind: tree.GetEntry, Stamp: shown, Exists: true})
	if m.watches.since != shown {
		t.Errorf("a watch since %v continues from %v", shown, m.watches.since)
	}
}

// A node has answered a write before an earlier one. Its caller, which gives up, gets an answer at once.
func TestACallerGivesUpAWriteThatIsAnsweredTooEarly(t *testing.T) {
	m, h := newTest(t)
	calls := []*Call{{}, {}}
	for _, call := range calls {
		m.Write(call, h)
	}
	s := m.bySession[h]
	if _, err := s.writes.Resumed(0, 0); err != nil {
		t.Fatal(err)
	}
	for range calls {
		s.writes.Next(time.Unix(1, 0))
	}
	m.writeAnswered(s, 2, writes.Answer{Result: tree.Result{Stamp: 1}})
	if len(m.Effects.Done) > 0 {
		t.Fatalf("answered out of order: %+v", m.Effects.Done)
	}
	m.GiveUp(calls[1], context.Canceled)
	if d := m.Effects.Done; len(d) != 1 || d[0].Call != calls[1] || !errors.Is(d[0].Err, session.ErrOutcomeUnknown) {
		t.Errorf("answers %+v, want an unknown outcome", d)
	}
}

// The cluster was restored from a backup, and knows fewer writes of a session than it has answered. The session's reads
// do not wait for the writes that had no answer then: nobody sends these again.
func TestReadsDoNotWaitForLostWrites(t *testing.T) {
	m, h := newTest(t)
	for range 2 {
		m.Write(new(Call), h)
	}
	s := m.bySession[h]
	if _, err := s.writes.Resumed(0, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.writes.Next(time.Unix(1, 0))
	}
	m.writeAnswered(s, 1, writes.Answer{Result: tree.Result{Stamp: 1}})
	m.Attached(h, session.Grant{})
	if d := m.Effects.Done; len(d) != 2 || d[1].Err == nil {
		t.Fatalf("answers %+v, want those of both writes", d)
	}
	m.Read(&Call{Query: tree.Query{Kind: tree.GetEntry, Path: "/a"}}, h)
	c := &conn.Conn{Window: window.New()}
	if m.sendSessionReads(s, c); c.Window.DirectInFlight() != 1 {
		t.Error("the read waits for a write that is never sent")
	}
}
