package house

import (
	"bytes"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"holdfast/fsm"
	"holdfast/fsm/entry"
	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// A new field of a session's spec reaches every encoding of a spec, and every comparison of two.
func TestEachFieldOfASpecIsCarried(t *testing.T) {
	whole := fullSpec(t)
	carriers := map[string]func(*testing.T, session.Spec) session.Spec{
		"the open of a client":            specOfClientOpen,
		"a session in an answer":          specOfSession,
		"a session in a short answer":     specOfOpened,
		"a certificate in an answer":      specOfCertificate,
		"the open of a learner":           specOfPeerOpen,
		"the upgrade of a learner":        specOfPeerUpgrade,
		"the reply of a leader":           specOfReply,
		"an open in the log":              specOfLoggedOpen,
		"an upgrade in the log":           specOfLoggedUpgrade,
		"a session of the state":          specOfState,
		"a certificate of the state":      specOfCertificateOfState,
		"a session that was restored":     specOfRestoredSession,
		"a certificate that was restored": specOfRestoredCertificate,
	}
	for field := range reflect.TypeFor[session.Spec]().Fields() {
		part := session.Spec{Timeout: whole.Timeout}
		reflect.ValueOf(&part).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(whole).FieldByIndex(field.Index))
		for name, carry := range carriers {
			for _, want := range []session.Spec{whole, part} {
				if got := carry(t, want); !reflect.DeepEqual(got, want) {
					t.Errorf("%s loses a field of a spec, look at %s: %+v became %+v", name, field.Name, want, got)
				}
			}
		}
		other := whole
		if reflect.ValueOf(&other).Elem().FieldByIndex(field.Index).SetZero(); field.Name == "Timeout" {
			other.Timeout = 2 * whole.Timeout
		}
		if whole.SameSpec(&other) {
			t.Errorf("SameSpec does not compare %s", field.Name)
		}
		if field.Name != "Timeout" && part.OnlyTimeout() {
			t.Errorf("OnlyTimeout does not look at %s", field.Name)
		}
		if digestOf(t, func(w *world) { w.open(whole) }) == digestOf(t, func(w *world) { w.open(other) }) {
			t.Errorf("the digest of the state does not have %s of sessions", field.Name)
		}
		if digestOf(t, func(w *world) { w.end(whole) }) == digestOf(t, func(w *world) { w.end(other) }) {
			t.Errorf("the digest of the state does not have %s of certificates", field.Name)
		}
	}
}

// fullSpec returns a spec each of whose fields has a value other than zero.
func fullSpec(t *testing.T) session.Spec {
	t.Helper()
	s := session.Spec{Timeout: 7 * time.Second, Labels: session.Labels{{Key: "service", Value: "web"}}}
	for field := range reflect.TypeFor[session.Spec]().Fields() {
		if reflect.ValueOf(s).FieldByIndex(field.Index).IsZero() {
			t.Fatalf("%s is a new field of session.Spec: give it a value here, and run this test again", field.Name)
		}
	}
	return s
}

const anID = session.ID(1)<<56 | 1

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func open(s session.Spec) session.OpenSession {
	return session.OpenSession{Node: 1, MS: 1000, Spec: s, RequestID: session.RequestID{1}}
}

func specOfClientOpen(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	m := &holdfastv1.Open{RequestId: make([]byte, len(session.RequestID{}))}
	m.Timeout, m.Labels = wire.SpecProto(&s)
	return must(wire.OpenFrom(m, time.Now()))(t).Spec
}

func specOfSession(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	return must(wire.SessionFrom(wire.SessionProto(session.Session{ID: anID, Spec: s, Owner: 1})))(t).Spec
}

func specOfOpened(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	b := wire.AppendOpened(nil, 1, &session.Grant{Session: session.Session{ID: anID, Spec: s, Owner: 1}})
	m := &holdfastv1.ServerMessage{}
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return must(wire.SessionFrom(m.GetOpened().GetSession()))(t).Spec
}

func specOfCertificate(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	c := session.Certificate{ID: anID, Cause: session.CauseClosed, Owner: 1, Story: session.Story{Spec: s}}
	return must(wire.CertificateFrom(wire.CertificateProto(c)))(t).Story.Spec
}

func received(t *testing.T, r session.Request) session.Request {
	t.Helper()
	r.Seq = 1
	var all []session.Request
	err := wire.SendLearner(session.LearnerMessage{Requests: []session.Request{r}}, func(m *peerv1.LearnerMessage) error {
		got, err := wire.LearnerFrom(m)
		all = append(all, got.Requests...)
		return err
	})
	if err != nil || len(all) != 1 {
		t.Fatalf("a request became %d, error %v", len(all), err)
	}
	return all[0]
}

func specOfPeerOpen(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	return received(t, session.Request{Open: &session.OpenRequest{RequestID: session.RequestID{1}, Spec: s}}).Open.Spec
}

func specOfPeerUpgrade(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	return received(t, session.Request{Upgrade: &session.UpgradeRequest{ID: anID, Spec: s}}).Upgrade.Spec
}

func specOfReply(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	r := session.Reply{Seq: 1, Term: 1, Index: 1, Session: session.Session{ID: anID, Spec: s, Owner: 1, Attachment: 1}}
	var all []session.Reply
	err := wire.SendLeader(session.LeaderMessage{Replies: []session.Reply{r}}, func(m *peerv1.LeaderMessage) error {
		got, err := wire.LeaderFrom(m)
		all = append(all, got.Replies...)
		return err
	})
	if err != nil || len(all) != 1 {
		t.Fatalf("a reply became %d, error %v", len(all), err)
	}
	return all[0].Session.Spec
}

// logged returns c as the log gives it back.
func logged[C session.Command](t *testing.T, c C) C {
	t.Helper()
	e := must(entry.Decode(must(entry.Encode([]session.Command{c}))(t)))(t)
	return e.Commands[0].(C)
}

func specOfLoggedOpen(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	return logged(t, open(s)).Spec
}

func specOfLoggedUpgrade(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	return logged(t, session.UpgradeSession{ID: anID, Spec: s}).Spec
}

// world is a replicated state and the index of its next entry.
type world struct {
	t     *testing.T
	state *fsm.State
	index uint64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, state: fsm.New(fsm.Config{Logger: hclog.NewNullLogger(), Fatal: func(err error) { t.Fatal(err) }})}
	w.do(session.Configure{Key: session.Key{1}, Level: session.FeatureLevel, Limits: tree.DefaultLimits()})
	return w
}

func (w *world) do(c session.Command) session.Result {
	w.index++
	data := must(entry.Encode([]session.Command{c}))(w.t)
	results, ok := w.state.Apply(&raft.Log{Index: w.index, Term: 1, Data: data}).([]session.Result)
	if !ok || results[0].Err != nil {
		w.t.Fatalf("%T was refused: %+v", c, results)
	}
	return results[0]
}

func (w *world) open(s session.Spec) session.Session { return w.do(open(s)).Session }

func (w *world) end(s session.Spec) session.Certificate {
	opened := w.open(s)
	w.do(session.CloseSessions{
		Term: 1, Cause: session.CauseClosed, MS: 2000,
		Sessions: []session.Closing{{ID: opened.ID, Attachment: opened.Attachment}},
	})
	c, ok := w.state.Certificate(opened.ID)
	if !ok {
		w.t.Fatal("the session has no certificate")
	}
	return c
}

// restored returns another state, from a snapshot of w.
func (w *world) restored() *fsm.State {
	var b bytes.Buffer
	if err := must(w.state.Backup())(w.t).Write(&b); err != nil {
		w.t.Fatal(err)
	}
	to := newWorld(w.t).state
	if err := to.Restore(io.NopCloser(&b)); err != nil {
		w.t.Fatal(err)
	}
	return to
}

func specOfState(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	return newWorld(t).open(s).Spec
}

func specOfCertificateOfState(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	return newWorld(t).end(s).Story.Spec
}

func specOfRestoredSession(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	w := newWorld(t)
	id := w.open(s).ID
	found, _ := w.restored().Session(id)
	return found.Spec
}

func specOfRestoredCertificate(t *testing.T, s session.Spec) session.Spec {
	t.Helper()
	w := newWorld(t)
	id := w.end(s).ID
	found, _ := w.restored().Certificate(id)
	return found.Story.Spec
}

func digestOf(t *testing.T, do func(*world)) [16]byte {
	t.Helper()
	w := newWorld(t)
	do(w)
	_, digest := w.state.Digest()
	return digest
}
