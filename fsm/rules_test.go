package fsm

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/fsm/certificates"
	"holdfast/fsm/sessions"
	"holdfast/session"
	"holdfast/tree"
)

func TestO1AssignsIDs(t *testing.T) {
	const node1 = session.ID(1) << 56
	tests := []struct {
		name string
		node session.Node
		ms   uint64
		want session.ID
	}{
		{"the first of a moment", 1, 1000, node1 | 1000<<16},
		{"the same moment counts on", 1, 1000, node1 | 1000<<16 | 1},
		{"the clock went back", 1, 10, node1 | 1000<<16 | 2},
		{"the clock goes on", 1, 1001, node1 | 1001<<16},
		{"another node counts for itself", 7, 5, 7<<56 | 5<<16},
		{"time 0", 9, 0, 9 << 56},
	}
	r := newReplica()
	for i, test := range tests {
		c := opening(byte(i + 1))
		c.Node, c.MS = test.node, test.ms
		if got := r.open(t, c); got.ID != test.want {
			t.Errorf("%s: id is %v, want %v", test.name, got.ID, test.want)
		}
	}
}

func TestO1IDsUsedUp(t *testing.T) {
	r := newReplica()
	last := opening(1)
	last.MS = session.MaxMS
	r.open(t, last)
	r.tables.setMark(2<<56 - 1) // as if the other 65,535 ids of the last millisecond were used

	more := opening(2)
	if got := r.apply(t, 1, more)[0].Err; !errors.Is(got, session.ErrIDsUsedUp) {
		t.Errorf("open with a used up node number = %v, want %v", got, session.ErrIDsUsedUp)
	}
	more.Node = 2
	if got := r.open(t, more); got.ID.Node() != 2 {
		t.Errorf("the same request through node 2 gave %v, want an id of node 2", got.ID)
	}
}

func TestI7IDsAreNeverReused(t *testing.T) {
	r := newReplica()
	c := opening(1)
	c.MS = 5000
	first := r.open(t, c)
	r.do(t, closing(1, first))
	r = restored(t, r.snapshot(t))
	c = opening(2)
	c.MS = 10 // the clock was set back, and the session has ended
	if second := r.open(t, c); second.ID <= first.ID {
		t.Errorf("id after %v is %v, want one above", first.ID, second.ID)
	}
}

func TestOpenGivesTheSession(t *testing.T) {
	r := newReplica()
	r.do(t, begins(session.Configure{Key: session.Key{1}}))
	c := opening(1)
	c.Labels = session.Labels{{Key: "app", Value: "x"}}
	got := r.open(t, c)
	want := session.Session{
		ID: 1<<56 | 1000<<16, Spec: session.Spec{Timeout: 4 * time.Second, Labels: c.Labels}, Owner: 1, Attachment: 1,
		OpenedIndex: 2,
		OpenedAt:    session.Epoch().Add(time.Second),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("open = %+v\nwant %+v", got, want)
	}
	if read, ok := r.Session(got.ID); !ok || !reflect.DeepEqual(read, want) {
		t.Errorf("Session = %+v, %v\nwant %+v", read, ok, want)
	}
}

func TestO2RepeatAnswersTheSameSession(t *testing.T) {
	r := newReplica()
	first := r.open(t, opening(1))
	moved := r.do(t, session.MoveSession{ID: first.ID, NewOwner: 2, Instance: 5, Attempt: 1, Named: 1}).Session

	repeat := opening(1)
	repeat.Node, repeat.MS, repeat.Timeout = 3, 7777, time.Minute
	o := observe(r)
	if got := r.open(t, repeat); !reflect.DeepEqual(got, moved) {
		t.Errorf("repeat through another node = %+v\nwant the session as it is, %+v", got, moved)
	}
	if got := r.Attachment(); got != moved.Attachment {
		t.Errorf("attachment after the repeat is %d, want %d: a repeat moves nothing", got, moved.Attachment)
	}
	if got, want := o.events, []string{"3/1 []"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the observer was told of %v, want %v", got, want)
	}
	if got := r.Sessions(); got != 1 {
		t.Errorf("%d sessions, want 1", got)
	}
}

func TestO2RepeatInOneEntry(t *testing.T) {
	r := newReplica()
	results := r.apply(t, 1, opening(1), opening(1), opening(2))
	if results[0].Session.ID != results[1].Session.ID || results[0].Session.ID == results[2].Session.ID {
		t.Errorf("ids are %v, %v, %v; want the first two the same and the third another",
			results[0].Session.ID, results[1].Session.ID, results[2].Session.ID)
	}
}

func TestO2RepeatAfterTheEnd(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	r.do(t, closing(1, s))
	err := r.apply(t, 1, opening(1))[0].Err
	var expired *session.ExpiredError
	if !errors.As(err, &expired) || expired.ID != s.ID || expired.Certificate == nil || expired.Certificate.Index != 2 {
		t.Errorf("repeat of an ended session = %v, want an ExpiredError with the certificate of index 2", err)
	}
	if got := r.Sessions(); got != 0 {
		t.Errorf("%d sessions, want none", got)
	}
}

// S2: a repeat of an open or a move says that it is one. It moves no deadline, so it confirms no touch.
func TestS2RepeatSaysSo(t *testing.T) {
	r := newReplica()
	results := r.apply(t, 1, opening(1), opening(1), opening(2))
	move := session.MoveSession{ID: results[0].Session.ID, NewOwner: 2, Instance: 5, Attempt: 1, Named: 1}
	results = append(results, r.apply(t, 1, move, move)...)
	again := move
	again.NewOwner = 3
	results = append(results, r.apply(t, 1, again)...)
	for i, want := range []bool{false, true, false, false, true, false} {
		if results[i].Err != nil || results[i].Repeated != want {
			t.Errorf("result %d: repeated %v, %v; want %v", i, results[i].Repeated, results[i].Err, want)
		}
	}
}

func TestO2ForgetRequests(t *testing.T) {
	r := newReplica()
	first := r.open(t, opening(1))  // index 1
	second := r.open(t, opening(2)) // index 2
	r.do(t, session.ForgetRequests{UpToIndex: 1})
	if again := r.open(t, opening(1)); again.ID == first.ID {
		t.Error("a forgotten request answered with its session, want a new one")
	}
	if again := r.open(t, opening(2)); again.ID != second.ID {
		t.Errorf("request of index 2 was forgotten up to index 1: %v, want %v", again.ID, second.ID)
	}
}

// O2: the request ids are told in parts of whole entries, and at the end a part ends where it was asked for. A part
// that ends with an entry is not longer than it may be.
func TestO2PartsOfRequests(t *testing.T) {
	const entries, each = 6, 300
	for _, most := range []int{2*each - 1, 2 * each} {
		r := newReplica()
		for entry := range entries {
			var opens []session.Command
			for i := range each {
				opens = append(opens, openNumber(entry*each+i))
			}
			r.apply(t, 1, opens...)
		}
		upTo := r.next - 2 // the last entry is younger
		var got []int
		for part := uint64(0); part < upTo; {
			part = r.PartOfRequests(upTo, most)
			before := r.Requests()
			r.do(t, session.ForgetRequests{UpToIndex: part})
			got = append(got, before-r.Requests())
		}
		if want := []int{2 * each, 2 * each, each}; !slices.Equal(got, want) || r.Requests() != each {
			t.Errorf("at most %d: forgot %v, and %d are left, want %v and %d", most, got, r.Requests(), want, each)
		}
	}
}

func TestO2RefusedOpenIsNotRemembered(t *testing.T) {
	r := newReplica()
	r.tables.setMark(2<<56 - 1)
	r.apply(t, 1, opening(1))
	c := opening(1)
	c.Node = 2
	r.open(t, c)
}

func TestM2CloseOfAnotherAttachmentIsRefused(t *testing.T) {
	r := newReplica()
	before := r.open(t, opening(1))
	after := r.do(t, session.MoveSession{ID: before.ID, NewOwner: 1, Instance: 5, Attempt: 1, Named: 1}).Session
	c := closing(1, before)
	c.Cause = session.CauseClosed
	if got := r.do(t, c).Closed; got[0] {
		t.Error("a close of an older attachment ended the session")
	}
	c.Sessions[0].Attachment = after.Attachment + 1
	if got := r.do(t, c).Closed; got[0] {
		t.Error("a close of a later attachment ended the session")
	}
	if _, ok := r.Session(before.ID); !ok {
		t.Error("the session does not exist any more")
	}
}

func TestE3CloseOfAnotherTermIsIgnored(t *testing.T) {
	for _, decided := range []uint64{4, 6} {
		r := newReplica()
		s, other := r.open(t, opening(1)), r.open(t, opening(2))
		o := observe(r)
		result := r.apply(t, 5, closing(decided, s, other))[0]
		if !reflect.DeepEqual(result.Closed, []bool{false, false}) || result.Err != nil {
			t.Errorf("close decided in term %d, appended in 5 = %v, %v; want neither closed", decided, result.Closed,
				result.Err)
		}
		if got := r.Sessions(); got != 2 {
			t.Errorf("%d sessions are left, want 2", got)
		}
		if _, ok := r.Certificate(s.ID); ok {
			t.Error("a certificate was issued")
		}
		if got, want := o.events, []string{"3/5 []"}; !reflect.DeepEqual(got, want) {
			t.Errorf("the observer was told of %v, want %v", got, want)
		}
	}
}

func TestE3CloseEndsWhatIsStillAsNamed(t *testing.T) {
	r := newReplica()
	a, b, c := r.open(t, opening(1)), r.open(t, opening(2)), r.open(t, opening(3))
	r.do(t, session.MoveSession{ID: b.ID, NewOwner: 2, Instance: 5, Attempt: 1, Named: 1})
	result := r.apply(t, 9, closing(9, a, b, c, a))[0]
	if want := []bool{true, false, true, false}; !reflect.DeepEqual(result.Closed, want) {
		t.Errorf("closed %v, want %v", result.Closed, want)
	}
	if _, ok := r.Session(b.ID); !ok || r.Sessions() != 1 {
		t.Errorf("%d sessions are left, the moved session among them: %v; want only the moved session", r.Sessions(), ok)
	}
}

func TestCertificate(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	want := session.Certificate{
		ID: s.ID, Cause: session.CauseExpired, LastTouchAge: 4 * time.Second, Owner: 1, Term: 9, Index: 2,
		Credited: time.Second,
		EndedAt:  session.TimeOfMS(9000),
		Story:    session.Story{Spec: session.Spec{Timeout: s.Timeout}, OpenedAt: s.OpenedAt},
	}
	r.apply(t, 9, closing(9, s))
	if got, ok := r.Certificate(s.ID); !ok || !got.Equal(want) {
		t.Errorf("Certificate = %+v, %v\nwant %+v", got, ok, want)
	}
	if got, ok := r.Certificate(s.ID + 1); ok {
		t.Errorf("Certificate of an unknown session = %+v", got)
	}
}

// When more certificates are issued than are kept, the oldest are dropped and nothing else.
func TestCertificatesAreARing(t *testing.T) {
	r := bounded(t, session.MaxCapacitySessions, 2<<30)
	const over = 5
	var all []session.ID
	request := 0
	for len(all) < certificateLimit+over {
		var opens []session.Command
		for range 1000 {
			request++
			c := opening(0)
			c.RequestID = session.RequestID{byte(request), byte(request >> 8), byte(request >> 16), 1}
			opens = append(opens, c)
		}
		var opened []session.Session
		for _, result := range r.apply(t, 1, opens...) {
			opened = append(opened, result.Session)
		}
		opened = opened[:min(len(opened), certificateLimit+over-len(all))]
		r.apply(t, 1, closing(1, opened...))
		for _, s := range opened {
			all = append(all, s.ID)
		}
	}
	for i, id := range all {
		if _, ok := r.Certificate(id); ok != (i >= over) {
			t.Fatalf("certificate %d of %d is known: %v", i, len(all), ok)
		}
	}
	if got := restored(t, r.snapshot(t)); got.tables.digest() != r.tables.digest() {
		t.Error("the state restored from a full ring has another digest")
	}
}

func TestConfigureKeepsTheFirstKey(t *testing.T) {
	r := newReplica()
	if _, ok := r.Credential(7); ok || r.Verify(7, session.Credential{}) {
		t.Error("Credential returns a credential before there is a key")
	}
	r.do(t, begins(session.Configure{Nonce: 1})) // a Configure without a key
	first := session.Key{1, 2, 3}
	r.do(t, begins(session.Configure{Key: first, Nonce: 2}))
	r.do(t, begins(session.Configure{Key: session.Key{9}, Nonce: 3}))
	want := first.Credential(7)
	if got, ok := r.Credential(7); !ok || got != want {
		t.Errorf("Credential = %x, %v, want %x of the first key", got, ok, want)
	}
	if !r.Verify(7, want) || r.Verify(8, want) {
		t.Errorf("Verify is %v for the owner and %v for another session, want true, false", r.Verify(7, want),
			r.Verify(8, want))
	}
	if got := restored(t, r.snapshot(t)); !got.Verify(7, want) {
		t.Error("the key is not in the snapshot")
	}
}

// I5: at every moment a View shows all of the sessions that end in one entry, or none of them.
func TestI5DeathIsAtomic(t *testing.T) {
	const rounds, count = 20, 200
	r := newReplica()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if v := r.Frozen(); v.Len() != 0 && v.Len() != count {
					t.Errorf("index %d shows %d sessions of %d", v.Index(), v.Len(), count)
					return
				}
			}
		})
	}
	for round := range rounds {
		var opens []session.Command
		for i := range count {
			c := opening(1)
			c.RequestID = session.RequestID{1, byte(round), byte(i), byte(i >> 8)}
			opens = append(opens, c)
		}
		var opened []session.Session
		for _, result := range r.apply(t, 1, opens...) {
			opened = append(opened, result.Session)
		}
		r.apply(t, 1, closing(1, opened...))
	}
	close(stop)
	readers.Wait()
}

func TestI6DigestCoversEverything(t *testing.T) {
	base := func() *replica {
		r := newReplica()
		r.open(t, opening(1))
		r.do(t, closing(1, r.open(t, opening(2))))
		return r
	}
	change := func(change func(*sessions.Row)) func(*replica) {
		return func(r *replica) {
			old, _ := r.tables.session(1<<56 | 1000<<16)
			changed := *old
			change(&changed)
			r.tables.putSession(&changed)
		}
	}
	changes := map[string]func(*replica){
		"nothing":      func(*replica) {},
		"label":        change(func(s *sessions.Row) { s.Labels = &session.Labels{{Key: "k", Value: "ab"}} }),
		"label's edge": change(func(s *sessions.Row) { s.Labels = &session.Labels{{Key: "ka", Value: "b"}} }),
		"mark":         func(r *replica) { r.tables.setMark(1<<56 | 2000<<16) },
		"counter":      func(r *replica) { r.tables.attachment++ },
		"key":          func(r *replica) { r.tables.key[31] = 1 },
		"issued":       func(r *replica) { r.tables.issued++ },
		"request":      func(r *replica) { r.tables.forgetRequests(1) },
		"requests":     func(r *replica) { r.tables.forgetRequests(2) },
		"gone": func(r *replica) {
			d, one := r.tables.sessions.Remover(), sessions.Row{}
			d.Find(1<<56|1000<<16, &one)
			r.tables.removeSession(&d, &one)
			d.End()
		},
		"certificate": func(r *replica) {
			r.tables.addCertificate(&certificates.Certificate{ID: 5, Number: 1, Story: &session.Story{}})
		},
	}
	seen := map[[16]byte]string{}
	for name, change := range changes {
		r := base()
		change(r)
		d := r.tables.digest()
		if other, ok := seen[d]; ok {
			t.Errorf("the digest is the same with %q and %q changed", name, other)
		}
		seen[d] = name
	}
}

// D2: an entry has 65,535 positions. A command that finds none, with the sessions that it may end, changes nothing and
// may come again.
func TestPositionsOfAnEntry(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	all := make([]session.Command, 0, tree.MaxPosition+1)
	for range tree.MaxPosition - 1 {
		all = append(all, session.ForgetRequests{})
	}
	all = append(all, closing(1, s), opening(2), opening(3))
	results := r.apply(t, 1, all...)
	closed, last, over := results[len(all)-3], results[len(all)-2], results[len(all)-1]
	if closed.Err != nil || len(closed.Closed) != 1 || closed.Closed[0] {
		t.Errorf("a close with one position left: %+v, want a session that is left alone", closed)
	}
	if last.Err != nil {
		t.Errorf("the last position: %v", last.Err)
	}
	var limit *session.LimitError
	if !errors.As(over.Err, &limit) || limit.Name != "positions_per_entry" || limit.RetryAfter != session.BusyRetryAfter {
		t.Errorf("a command without a position: %v, want the limit positions_per_entry", over.Err)
	}
	if again := r.apply(t, 1, closing(1, s), opening(3)); !again[0].Closed[0] || again[1].Err != nil {
		t.Errorf("the next entry: %+v", again)
	}
}
