package authz

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"holdfast/auth"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A line of the audit says what was asked for, within its bound, and shows no credential, data or token.
func TestWhatIsSaidOfARequest(t *testing.T) {
	token := auth.NewToken().Secret()
	for want, m := range map[string]proto.Message{
		"session_id=0x":     &holdfastv1.Token{SessionId: 7, Credential: []byte("planted-credential")},
		"(secret)":          &holdfastv1.Token{SessionId: 7, Credential: []byte("planted-credential")},
		"(10 bytes)":        &holdfastv1.SetRequest{Set: &holdfastv1.Set{Path: "/a", Data: []byte("planted-no")}},
		"{":                 &holdfastv1.CloseSessionRequest{Token: &holdfastv1.Token{Credential: []byte("planted-x")}},
		"holdfast_(secret)": &holdfastv1.GetRequest{Path: "/" + token},
		"...":               &holdfastv1.GetRequest{Path: "/" + strings.Repeat("x", 10_000)},
	} {
		got := describe(m.ProtoReflect())
		if !strings.Contains(got, want) || strings.Contains(got, "planted") || strings.Contains(got, token) ||
			len(got) > maxWhat+3 {
			t.Errorf("%T: got %s, want %s", m, got, want)
		}
	}
}

// Each act has one line and one count, whatever became of it; a call that is not audited has none.
func TestAuditLines(t *testing.T) {
	var log bytes.Buffer
	a := NewAudit(hclog.New(&hclog.LoggerOptions{Output: &log}), auth.Table{"/m": {Needs: auth.Admin, Act: "x"}})
	for _, err := range []error{nil, &session.AccessError{}, &session.AccessError{Who: "token:a"}, errors.New("no")} {
		r := a.begin("x", caller{"token:a", true}, "10.0.0.1:1")
		r.about(&holdfastv1.GetRequest{Path: "/a"})
		r.end(err)
		r.end(nil) // again
	}
	a.begin("", caller{"token:a", true}, "").end(nil)
	if done, denied, failed := a.Count("x", Done), a.Count("x", Denied), a.Count("x", Failed); done != 1 || denied != 2 ||
		failed != 1 || strings.Count(log.String(), "\n") != 4 {
		t.Errorf("got %d done, %d denied, %d failed:\n%s", done, denied, failed, log.String())
	}
	r := a.begin("x", caller{"token:a", true}, "")
	func() {
		defer func() { _ = recover() }()
		defer r.recovered()
		panic("x")
	}()
	if a.Count("x", Failed) != 2 {
		t.Error("an act whose handler panicked has no line")
	}
}

// Lines that any caller can bring about have a rate limit, of their own for each outcome, and are counted. What a named
// operator does has a line each.
func TestAuditLinesOfUnknownCallersAreLimited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := NewAudit(hclog.New(&hclog.LoggerOptions{Output: &log}), auth.Table{"/m": {Needs: auth.Admin, Act: "x"}})
		act := func(by caller, err error, times int) (lines int) {
			t.Helper()
			log.Reset()
			for range times {
				a.begin("x", by, "10.0.0.1:1").end(err)
			}
			return strings.Count(log.String(), "\n")
		}
		stranger, named := caller{"unverified", false}, caller{"token:a", true}
		denied := &session.AccessError{}
		for what, got := range map[string]int{
			"denied strangers": act(stranger, denied, 9683), "denied names": act(named, denied, 9683),
			"unverified acts that failed": act(stranger, errors.New("no"), 9683),
			"unverified acts":             act(stranger, nil, 9683),
		} {
			if got != lineBurst {
				t.Errorf("%s: %d lines, want %d", what, got, lineBurst)
			}
		}
		if got := act(named, nil, 5000) + act(named, errors.New("no"), 5000); got != 10_000 {
			t.Errorf("a named operator's 10,000 acts have %d lines", got)
		}
		if n := a.Omitted(Denied); n != 2*(9683-lineBurst) || a.Count("x", Denied) != 2*9683 {
			t.Errorf("%d lines are omitted, %d acts are counted", n, a.Count("x", Denied))
		}
		time.Sleep(2 * lineInterval)
		if got := act(stranger, denied, 10); got != 2 || strings.Count(log.String(), "omitted=8683") != 1 {
			t.Errorf("two seconds later there are %d lines:\n%s", got, log.String())
		}
	})
}

// A row of the table with an act is all that its call needs to be audited: as a call or as a stream, each has one line
// and one count, to which its handler may add a note. Calls without an act have neither.
func TestRowsAreAudited(t *testing.T) {
	for method, call := range auth.ClientPort() {
		var log bytes.Buffer
		a := NewAudit(hclog.New(&hclog.LoggerOptions{Output: &log}), auth.ClientPort())
		g := New(Config{Logger: hclog.NewNullLogger(), Mode: None, Table: auth.ClientPort(), Audit: a})
		note := func(ctx context.Context) { Note(ctx, "4 of 5, with "+auth.NewToken().Secret()) }
		_, _ = g.Unary(t.Context(), &holdfastv1.GetRequest{}, &grpc.UnaryServerInfo{FullMethod: method},
			func(ctx context.Context, _ any) (any, error) {
				note(ctx)
				return nil, nil
			})
		_ = g.Stream(nil, oneStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method},
			func(_ any, s grpc.ServerStream) error {
				note(s.Context())
				return errors.New("broken")
			})
		want := []uint64{1, 0, 1}
		if call.Act == "" {
			want = []uint64{0, 0, 0}
		}
		got := []uint64{a.Count(call.Act, Done), a.Count(call.Act, Denied), a.Count(call.Act, Failed)}
		lines := uint64(strings.Count(log.String(), `result="4 of 5, with holdfast_(secret)"`))
		if !slices.Equal(got, want) || lines != want[0]+want[2] || uint64(strings.Count(log.String(), "\n")) != lines {
			t.Errorf("%s: got %d done, denied and failed, want %d:\n%s", method, got, want, log.String())
		}
	}
}

// oneStream is a stream that has no messages.
type oneStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // this is how gRPC hands a stream its context
}

func (s oneStream) Context() context.Context { return s.ctx }
