package fsm

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

// model is the simplest state machine that follows the rules: maps, and no digest.
type model struct {
	sessions   map[session.ID]modelSession
	marks      map[session.Node]session.ID
	attachment uint64
	requests   map[session.RequestID]modelRequest
	ended      map[session.ID]session.Certificate
	// most bounds the number of sessions; 0 is no bound.
	most uint64
}

func (m *model) isFull() bool { return m.most != 0 && uint64(len(m.sessions)) >= m.most }

type modelSession struct {
	session.Session
	attempt uint64
}

type modelRequest struct {
	id    session.ID
	index uint64
}

func newModel() *model {
	return &model{
		sessions: map[session.ID]modelSession{}, marks: map[session.Node]session.ID{},
		requests: map[session.RequestID]modelRequest{}, ended: map[session.ID]session.Certificate{},
	}
}

// apply applies c as the State does.
func (m *model) apply(index, term uint64, c session.Command) session.Result {
	r := session.Result{Index: index, Term: term}
	switch c := c.(type) {
	case session.OpenSession:
		if known, ok := m.requests[c.RequestID]; ok {
			r.Session = m.sessions[known.id].Session
			if r.Repeated = r.Session.ID != 0; !r.Repeated {
				r.Err = session.ErrExpired
			}
			return r
		}
		if m.isFull() {
			r.Err = session.ErrLimit
			return r
		}
		id := max(m.marks[c.Node]+1, session.ID(c.Node)<<56|session.ID(c.MS)<<16)
		m.attachment++
		s := modelSession{Session: session.Session{
			ID: id, Spec: session.Spec{Timeout: c.Timeout, Labels: c.Labels}, Owner: c.Node, Attachment: m.attachment,
			OpenedIndex: index,
			OpenedAt:    session.TimeOfMS(c.MS),
		}}
		m.marks[c.Node], m.sessions[id], m.requests[c.RequestID] = id, s, modelRequest{id, index}
		r.Session = s.Session
	case session.MoveSession:
		s, ok := m.sessions[c.ID]
		switch {
		case !ok:
			r.Err = session.ErrExpired
			return r
		case s.Instance == c.Instance && c.Attempt < s.attempt:
			r.Err = session.ErrMoved
			return r
		case s.Instance != 0 && s.Instance != c.Instance && (c.NamedLocal || c.Named != s.Attachment):
			r.Err = session.ErrMoved
			return r
		case s.Instance != c.Instance || c.Attempt != s.attempt || c.NewOwner != s.Owner:
			m.attachment++
			s.Owner, s.Attachment, s.Instance, s.attempt = c.NewOwner, m.attachment, c.Instance, c.Attempt
			m.sessions[c.ID] = s
		default:
			r.Repeated = true
		}
		r.Session = s.Session
	case session.MoveSessions:
		for i := range c.Sessions {
			one := m.apply(index, term, c.Each(i))
			r.Moved = append(r.Moved, session.MoveResult{
				Attachment: one.Session.Attachment, Repeated: one.Repeated, Err: one.Err,
			})
		}
	case session.CloseSessions:
		r.Closed = make([]bool, len(c.Sessions))
		for i, named := range c.Sessions {
			s, ok := m.sessions[named.ID]
			if r.Closed[i] = ok && s.Attachment == named.Attachment && c.Term == term; r.Closed[i] {
				delete(m.sessions, named.ID)
				m.ended[named.ID] = session.Certificate{
					ID: named.ID, Cause: c.Cause, LastTouchAge: named.LastTouchAge, Owner: s.Owner, Term: term,
					Index:    index,
					Credited: c.Credited, EndedAt: session.TimeOfMS(c.MS), Left: session.Left{Instance: s.Instance},
					Story: session.Story{
						Spec:     session.Spec{Timeout: s.Timeout, Labels: s.Labels},
						OpenedAt: s.OpenedAt,
					},
				}
			}
		}
	case session.UpgradeSession:
		if s, ok := m.sessions[c.ID]; ok {
			r.Session, r.Repeated = s.Session, true
			return r
		}
		if _, ended := m.ended[c.ID]; ended {
			r.Err = session.ErrExpired
			return r
		}
		if c.ID > m.marks[c.ID.Node()] {
			r.Err = session.ErrInvalid
			return r
		}
		if m.isFull() {
			r.Err = session.ErrLimit
			return r
		}
		m.attachment++
		s := modelSession{Session: session.Session{
			ID: c.ID, Spec: session.Spec{Timeout: c.Timeout, Labels: c.Labels}, Owner: c.ID.Node(),
			Attachment:  m.attachment,
			OpenedIndex: index,
			OpenedAt:    session.TimeOfMS(c.MS), Instance: c.Instance,
		}, attempt: c.Attempt}
		m.sessions[c.ID] = s
		r.Session = s.Session
	case session.ClaimIDs:
		r.First = max(m.marks[c.Node]+1, session.ID(c.Node)<<56|session.ID(c.MS)<<16)
		m.marks[c.Node] = r.First + session.ID(c.Count) - 1
	case session.SetCapacity:
		m.most = c.Capacity.MaxSessions
	case session.ForgetRequests:
		maps.DeleteFunc(m.requests, func(_ session.RequestID, q modelRequest) bool { return q.index <= c.UpToIndex })
	}
	return r
}

// list returns the sessions in the order of their ids.
func (m *model) list() []session.Session {
	var all []session.Session
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		all = append(all, m.sessions[id].Session)
	}
	return all
}

func shown(v *View) []session.Session {
	var all []session.Session
	v.Ascend(0, func(s session.Session) bool { all = append(all, s); return true })
	return all
}

// drawLikely draws a command about sessions and requests that m holds, so that every rule is used.
func (m *model) drawLikely(t *rapid.T, index, term uint64) session.Command {
	node := rapid.Custom(func(t *rapid.T) session.Node { return session.Node(rapid.IntRange(1, 3).Draw(t, "node")) })
	ids := append(slices.Sorted(maps.Keys(m.sessions)), slices.Sorted(maps.Keys(m.ended))...)
	ids = append(ids, 1<<56|99<<16)
	id := rapid.SampledFrom(ids)
	switch rapid.SampledFrom(
		[]string{
			"open", "open", "move", "moves", "close", "forget", "configure", "claim", "upgrade", "capacity",
		},
	).Draw(t, "kind") {
	case "open":
		c := session.OpenSession{
			Node: node.Draw(t, "node"), MS: rapid.Uint64Max(3).Draw(t, "ms"),
			Spec:      session.Spec{Timeout: 4 * time.Second},
			RequestID: session.RequestID{rapid.ByteRange(1, 30).Draw(t, "request")},
		}
		if rapid.Bool().Draw(t, "labelled") {
			c.Labels = session.Labels{{Key: "k", Value: "v"}}
		}
		return c
	case "moves":
		c := session.MoveSessions{NewOwner: node.Draw(t, "owner"), Instance: rapid.Uint64Max(2).Draw(t, "instance")}
		for range rapid.IntRange(1, 5).Draw(t, "sessions") {
			one := session.Moving{ID: id.Draw(t, "id"), Attempt: rapid.Uint64Range(1, 3).Draw(t, "attempt")}
			present := max(m.sessions[one.ID].Attachment, 1)
			one.Named = rapid.SampledFrom([]uint64{present, present, present + 1, max(present, 2) - 1}).Draw(t, "named")
			c.Sessions = append(c.Sessions, one)
		}
		return c
	case "move":
		c := session.MoveSession{
			ID: id.Draw(t, "id"), NewOwner: node.Draw(t, "owner"), Instance: rapid.Uint64Max(2).Draw(t, "instance"),
			Attempt: rapid.Uint64Range(1, 3).Draw(t, "attempt"),
		}
		present := max(m.sessions[c.ID].Attachment, 1)
		c.Named = rapid.SampledFrom([]uint64{present, present, present + 1, max(present, 2) - 1}).Draw(t, "named")
		c.NamedLocal = rapid.IntRange(0, 4).Draw(t, "local") == 0
		return c
	case "close":
		c := session.CloseSessions{Term: term, Cause: session.CauseClosed, Credited: time.Second, MS: index}
		if rapid.IntRange(0, 4).Draw(t, "other term") == 0 {
			c.Term--
		}
		for range rapid.IntRange(1, 4).Draw(t, "closings") {
			named := session.Closing{ID: id.Draw(t, "id"), LastTouchAge: time.Second}
			named.Attachment = m.sessions[named.ID].Attachment
			if rapid.IntRange(0, 4).Draw(t, "other attachment") == 0 {
				named.Attachment--
			}
			c.Sessions = append(c.Sessions, named)
		}
		return c
	case "upgrade":
		up := session.UpgradeSession{
			ID: id.Draw(t, "id"), Spec: session.Spec{Timeout: 4 * time.Second}, MS: index,
			Instance: rapid.Uint64Max(2).Draw(t, "instance"),
			Attempt:  rapid.Uint64Max(3).Draw(t, "attempt"),
		}
		if n := node.Draw(t, "node"); m.marks[n] != 0 && rapid.Bool().Draw(t, "claimed") {
			up.ID = m.marks[n]
		}
		return up
	case "claim":
		return session.ClaimIDs{
			Node: node.Draw(t, "node"), MS: rapid.Uint64Max(3).Draw(t, "ms"),
			Count: rapid.Uint32Range(1, 3).Draw(t, "count"),
		}
	case "capacity":
		return session.SetCapacity{Capacity: session.Capacity{
			MaxSessions: rapid.Uint64Range(1, 12).Draw(t, "most"), MaxBytes: session.MinCapacityBytes,
		}}
	case "forget":
		return session.ForgetRequests{UpToIndex: rapid.Uint64Max(index).Draw(t, "up to")}
	default:
		return begins(session.Configure{Key: session.Key{byte(index)}, Nonce: index})
	}
}

func checkResult(t *rapid.T, got, want session.Result) {
	t.Helper()
	if got.Index != want.Index || got.Term != want.Term || got.Repeated != want.Repeated || got.First != want.First ||
		!reflect.DeepEqual(got.Session, want.Session) ||
		!slices.Equal(got.Closed, want.Closed) || !slices.EqualFunc(got.Moved, want.Moved, sameMove) ||
		!errors.Is(got.Err, want.Err) {
		t.Fatalf("result is %+v\nwant      %+v", got, want)
	}
}

func sameMove(got, want session.MoveResult) bool {
	return got.Attachment == want.Attachment && got.Repeated == want.Repeated && errors.Is(got.Err, want.Err)
}

// One log on two replicas gives the same digest at each index (I6 same state). A snapshot at any index and the rest of
// the log give the same state as the whole log. The state and all results are those of the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, a, b := newModel(), newReplica(), newReplica()
		entries := rapid.IntRange(1, 40).Draw(t, "entries")
		snapshotAt := uint64(rapid.IntRange(0, entries).Draw(t, "snapshot at"))
		var (
			c          *replica
			frozen     = a.Frozen()
			frozenWant []session.Session
			term       = uint64(1)
		)
		for index := uint64(1); index <= uint64(entries); index++ {
			term += rapid.Uint64Max(1).Draw(t, "terms")
			var commands []session.Command
			var want []session.Result
			for range rapid.IntRange(1, 6).Draw(t, "commands") {
				command := m.drawLikely(t, index, term)
				commands, want = append(commands, command), append(want, m.apply(index, term, command))
			}
			got := a.apply(t, term, commands...)
			for i := range want {
				checkResult(t, got[i], want[i])
			}
			if one, other := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", b.apply(t, term, commands...)); one != other {
				t.Fatalf("index %d: one replica answers %s\nthe other %s", index, one, other)
			}
			da, okA := a.DigestAt(index)
			if db, okB := b.DigestAt(index); da != db || !okA || !okB {
				t.Fatalf("index %d: digests are %x, %v and %x, %v", index, da, okA, db, okB)
			}
			if c != nil {
				c.apply(t, term, commands...)
			}
			if index == snapshotAt {
				c, frozen, frozenWant = restored(t, a.snapshot(t)), a.Frozen(), m.list()
			}
		}
		if c == nil {
			c = restored(t, a.snapshot(t))
		}
		same(t, b, a)
		same(t, c, a)
		checkAgainst(t, a, m)
		if got := shown(frozen); !reflect.DeepEqual(got, frozenWant) {
			t.Fatalf("the view of index %d shows %+v\nwant %+v", snapshotAt, got, frozenWant)
		}
		fresh := newTables()
		rebuild(fresh, a.tables)
		if fresh.bytes != a.tables.bytes || fresh.certificates.Bytes != a.tables.certificates.Bytes {
			t.Fatalf("%d and %d bytes were counted command by command, and the contents have %d and %d", a.tables.bytes,
				a.tables.certificates.Bytes, fresh.bytes, fresh.certificates.Bytes)
		}
		if fresh.digest() != a.tables.digest() {
			t.Fatal("the digest that was kept command by command is not the digest of the contents")
		}
	})
}

func checkAgainst(t *rapid.T, r *replica, m *model) {
	t.Helper()
	if got, want := shown(r.Frozen()), m.list(); !reflect.DeepEqual(got, want) {
		t.Fatalf("sessions are %+v\nwant %+v", got, want)
	}
	for id, want := range m.ended {
		if got, ok := r.Certificate(id); !ok || !got.Equal(want) {
			t.Fatalf("certificate of %v is %+v, %v\nwant %+v", id, got, ok, want)
		}
		if _, ok := r.Session(id); ok {
			t.Fatalf("session %v has ended and still exists", id)
		}
	}
	if got := r.Requests(); got != len(m.requests) {
		t.Fatalf("%d requests are remembered, want %d", got, len(m.requests))
	}
	for id, want := range m.requests {
		if got, ok := r.tables.requests.Find(id); !ok || got.Session != want.id || got.Index != want.index {
			t.Fatalf("request %x is %+v, %v; want %+v", id, got, ok, want)
		}
	}
	if r.Attachment() != m.attachment || r.Sessions() != len(m.sessions) {
		t.Fatalf("attachment %d, %d sessions; want %d, %d", r.Attachment(), r.Sessions(), m.attachment, len(m.sessions))
	}
}

// rebuild adds all contents of from to the empty tables to.
func rebuild(to, from *tables) {
	to.attachment, to.key, to.capacity, to.shown = from.attachment, from.key, from.capacity, from.shown
	to.forgotten = from.forgotten
	for _, mark := range from.marks {
		if mark != 0 {
			to.setMark(mark)
		}
	}
	for _, r := range slices.Backward(sessionsOf(from)) {
		to.putSession(r)
	}
	for _, c := range from.certificates.Items {
		to.addCertificate(c)
	}
	for _, q := range slices.Backward(requestsOf(from)) {
		to.addRequest(&q)
	}
}

// Views of every age stay the same while the tree that they share is written to, split and merged.
func TestViewsNeverChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, r := newModel(), newReplica()
		type taken struct {
			view *View
			want []session.Session
		}
		var all []taken
		var open []session.ID
		for step := range rapid.IntRange(1, 8).Draw(t, "steps") {
			var commands []session.Command
			for i := range rapid.IntRange(0, 300).Draw(t, "opens") {
				c := opening(0)
				c.RequestID = session.RequestID{byte(step) + 1, byte(i), byte(i >> 8)}
				c.Node = session.Node(i%5 + 1)
				commands = append(commands, c)
			}
			for range min(rapid.IntRange(0, 300).Draw(t, "closes"), len(open)) {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				s := m.sessions[open[i]]
				open = slices.Delete(open, i, i+1)
				commands = append(commands, session.CloseSessions{
					Term: 1, Cause: session.CauseClosed,
					Sessions: []session.Closing{{ID: s.ID, Attachment: s.Attachment}},
				})
			}
			if len(commands) == 0 {
				continue
			}
			for i, got := range r.apply(t, 1, commands...) {
				want := m.apply(r.next-1, 1, commands[i])
				checkResult(t, got, want)
				if want.Session.ID != 0 {
					open = append(open, want.Session.ID)
				}
			}
			all = append(all, taken{r.Frozen(), m.list()})
		}
		for i, v := range all {
			if got := shown(v.view); !reflect.DeepEqual(got, v.want) {
				t.Fatalf("view %d of %d shows %d sessions, and had %d when it was taken: %s", i, len(all), len(got),
					len(v.want), firstDifference(got, v.want))
			}
		}
	})
}

func firstDifference(got, want []session.Session) string {
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			return fmt.Sprintf("at %d %+v, want %+v", i, got[i], want[i])
		}
	}
	return "one is longer"
}
