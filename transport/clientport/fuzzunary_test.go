package clientport

import (
	"bytes"
	"cmp"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// maxFuzzedBytes is the largest message that the fuzzed port accepts. It is small, so that inputs reach it.
const maxFuzzedBytes = 4 << 10

// maxRefusalBytes is the largest refusal: it says what is wrong, and repeats no more than the begin of a path, quoted.
const maxRefusalBytes = 2 << 10

// FuzzUnary gives every unary call of Holdfast's own services any request, through the port as gRPC calls it, with any
// outcome at the node. The result is an answer to the request, not too large, that can be sent; or an error, with the
// node's state where the service adds it (N1 node mode), that names the field out of range or is the node's own.
// Nothing out of range reaches the node.
func FuzzUnary(f *testing.F) {
	page := largePage()
	calls := newUnaryCalls(newAnswering(page, nil))
	checkUnaryCalls(f, calls)
	names := slices.Sorted(maps.Keys(calls))
	for _, name := range names {
		requests := requestsOf(name)
		if len(requests) == 0 {
			f.Fatalf("%s has no request to begin with: add a valid one to requestsOf", name)
		}
		f.Add(name, uint8(0), []byte{})
		for i, q := range requests {
			b, err := proto.Marshal(q)
			if err != nil {
				f.Fatal(err)
			}
			one := unaryTry{node: newAnswering(page, nil)}
			if one.call(f, name, b); i == 0 && one.err != nil {
				f.Fatalf("%s(%v): %v, want an answer", name, q, one.err)
			}
			for outcome := range unaryOutcomes() {
				f.Add(name, uint8(outcome), b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, name string, outcome uint8, b []byte) {
		if calls[name].Handler == nil {
			h := fnv.New32a()
			_, _ = h.Write([]byte(name))
			name = names[int(h.Sum32()%uint32(len(names)))]
		}
		outcomes := unaryOutcomes()
		one := unaryTry{node: newAnswering(page, outcomes[int(outcome)%len(outcomes)])}
		porttest.OfMessage().Hold(t, len(b), func() { one.call(t, name, b) })
		if !one.understood {
			return // gRPC would have refused it: there is no call
		}
		refusedForSize := detailOf(status.Convert(one.err)).GetField() == "max_message_bytes"
		if n := proto.Size(one.request); refusedForSize != (n > maxFuzzedBytes) {
			t.Errorf("%s with %d bytes: %v, want at most %d", name, n, one.err, maxFuzzedBytes)
		}
		if one.node.wrong != "" {
			t.Errorf("%s(%v) asked the node for %s", name, one.request, one.node.wrong)
		}
		if one.err != nil {
			one.checkRefusal(t, name)
			return
		}
		one.checkAnswer(t, name)
	})
}

// unaryTry is one call of a node, and its result.
type unaryTry struct {
	node       *answering
	understood bool // b was a message
	request    proto.Message
	answer     proto.Message
	err        error
	panicked   bool
}

// call makes the call with b as the request, if b is one.
func (u *unaryTry) call(tb testing.TB, name string, b []byte) {
	tb.Helper()
	c := newUnaryCalls(u.node)[name]
	decode := func(q any) error {
		u.request = q.(proto.Message)
		err := proto.Unmarshal(b, u.request)
		u.understood = err == nil
		return err
	}
	answer, err := c.Handler(c.server, tb.Context(), decode, c.port.Unary)
	u.err, u.panicked = err, c.port.Stats().Panics != 0
	if err == nil {
		u.answer = answer.(port.Reply).Message
	}
	if err := c.port.Halt(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// checkRefusal checks the error that the client gets.
func (u *unaryTry) checkRefusal(t *testing.T, name string) {
	t.Helper()
	if u.panicked {
		t.Fatalf("%s(%v) panicked:\n%s", name, u.request, u.node.log.String())
	}
	st := status.Convert(u.err)
	detail := detailOf(st)
	if b, err := proto.Marshal(st.Proto()); err != nil || len(b) > maxRefusalBytes ||
		strings.Contains(string(b), nobodysBusiness) {
		t.Errorf("%s: a refusal of %d bytes cannot be sent, or says too much: %v, %v", name, len(b), err, st)
	}
	if told := detail.GetState(); wire.CarriesState(name) && !proto.Equal(told, wire.StateProto(porttest.StateOf(3))) ||
		!wire.CarriesState(name) && told != nil {
		t.Errorf("%s was refused with the state %v", name, detail.GetState())
	}
	if u.node.asked == 0 {
		if st.Code() != codes.InvalidArgument && st.Code() != codes.ResourceExhausted || detail.GetField() == "" ||
			!wire.Known(detail.GetReason()) {
			t.Errorf("%s(%v) was refused with %v, %v, want the field out of range", name, u.request, u.err, detail)
		}
		return
	}
	want := u.node.outcome
	if st.Code() != wire.Code(want) || st.Message() != wire.Text(want) ||
		detail.GetReason() != wire.Detail(want).GetReason() {
		t.Errorf("%s: the node's %v was told as %v, %v", name, want, u.err, detail)
	}
}

// detailOf returns our detail in a status, nil when it has none.
func detailOf(st *status.Status) *holdfastv1.ErrorDetail {
	for _, d := range st.Details() {
		if detail, ok := d.(*holdfastv1.ErrorDetail); ok {
			return detail
		}
	}
	return nil
}

// checkAnswer checks the answer that the client gets.
func (u *unaryTry) checkAnswer(t *testing.T, name string) {
	t.Helper()
	b, err := proto.Marshal(u.answer)
	if err != nil || len(b) > wire.DefaultMessageBytes+16<<10 || bytes.Contains(b, []byte(nobodysBusiness)) {
		t.Errorf("%s: an answer of %d bytes cannot be sent, or says too much: %v", name, len(b), err)
	}
	if told, ok := u.answer.(interface{ GetState() *holdfastv1.NodeState }); ok &&
		!proto.Equal(told.GetState(), wire.StateProto(porttest.StateOf(3))) {
		t.Errorf("%s was answered with the state %v", name, told.GetState())
	}
	if granted, ok := u.answer.(interface {
		GetSession() *holdfastv1.Session
		GetToken() *holdfastv1.Token
		GetSafeFor() *durationpb.Duration
	}); ok {
		if _, err := wire.GrantFrom(granted.GetSession(), granted.GetToken(), granted.GetSafeFor()); err != nil {
			t.Errorf("%s granted %v: %v", name, u.answer, err)
		}
	}
	refused := u.node.outcome != nil && u.node.asked > 0
	switch a := u.answer.(type) {
	case *holdfastv1.TouchSessionsResponse:
		refused = false // each token has its own outcome
		u.checkTouches(t, a)
	case *holdfastv1.GetSessionResponse:
		expired, ok := errors.AsType[*session.ExpiredError](u.node.outcome)
		ended := ok && expired.Certificate != nil
		refused = refused && !ended
		if (a.GetCertificate() != nil) != ended || (a.GetSession() != nil) == ended {
			t.Errorf("%s: %v was told as %v", name, u.node.outcome, a)
		}
	case *holdfastv1.ListSessionsResponse:
		u.checkPage(t, a)
	case interface{ GetStamp() uint64 }:
		u.checkTree(t, a)
	case *holdfastv1.AllocateIdsResponse:
		if a.GetFirst() != 5 || a.GetCount() != u.request.(*holdfastv1.AllocateIdsRequest).GetCount() {
			t.Errorf("%v was answered with %v", u.request, a)
		}
	}
	if refused {
		t.Errorf("%s: the node said %v, and the client was told %v", name, u.node.outcome, u.answer)
	}
}

// checkTouches checks that each token has one result, a promise or an error.
func (u *unaryTry) checkTouches(t *testing.T, a *holdfastv1.TouchSessionsResponse) {
	t.Helper()
	tokens := u.request.(*holdfastv1.TouchSessionsRequest).GetTokens()
	if len(a.GetResults()) != len(tokens) {
		t.Fatalf("%d answers for %d tokens", len(a.GetResults()), len(tokens))
	}
	for i, r := range a.GetResults() {
		if r.GetSessionId() != tokens[i].GetSessionId() || !proto.Equal(r.GetError(), wire.Detail(u.node.outcome)) ||
			(r.GetError() == nil) != (r.GetSafeFor() != nil) {
			t.Errorf("token %v: %v was told as %v", tokens[i], u.node.outcome, r)
		}
	}
}

// checkPage checks that a page has the node's sessions, or the first of them and where the next page begins.
func (u *unaryTry) checkPage(t *testing.T, a *holdfastv1.ListSessionsResponse) {
	t.Helper()
	n, asked := len(a.GetSessions()),
		int(cmp.Or(u.request.(*holdfastv1.ListSessionsRequest).GetPageSize(), defaultPage))
	if n < 1 || n > asked {
		t.Fatalf("%d sessions, of %d asked for", n, asked)
	}
	if next, err := pageTokenFrom(a.GetNextPageToken()); err != nil ||
		uint64(next) != a.GetSessions()[n-1].GetSession().GetId() {
		t.Errorf("the page ends with %v, and goes on after %v, %v", a.GetSessions()[n-1], next, err)
	}
}
