package guard

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"holdfast/auth"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
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
			len(got) > mostWhat+3 {
			t.Errorf("%T: got %s, want %s", m, got, want)
		}
	}
}

// Each act has one line and one count, whatever became of it; a call that is not audited has none.
func TestAuditLines(t *testing.T) {
	var log bytes.Buffer
	a := NewAudit(hclog.New(&hclog.LoggerOptions{Output: &log}), auth.Table{"/m": {Needs: auth.Admin, Act: "x"}})
	for _, err := range []error{nil, &session.AccessError{}, &session.AccessError{Who: "token:a"}, errors.New("no")} {
		r := a.begin("x", "token:a", "10.0.0.1:1")
		r.about(&holdfastv1.GetRequest{Path: "/a"})
		r.end(err)
		r.end(nil) // again
	}
	a.begin("", "token:a", "").end(nil)
	if done, denied, failed := a.Count("x", Done), a.Count("x", Denied), a.Count("x", Failed); done != 1 || denied != 2 ||
		failed != 1 || strings.Count(log.String(), "\n") != 4 {
		t.Errorf("got %d done, %d refused, %d failed:\n%s", done, denied, failed, log.String())
	}
	r := a.begin("x", "token:a", "")
	func() {
		defer func() { _ = recover() }()
		defer r.recovered()
		panic("x")
	}()
	if a.Count("x", Failed) != 2 {
		t.Error("an act whose handler panicked has no line")
	}
}
