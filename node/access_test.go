package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"holdfast/auth"
	"holdfast/node/config"
	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/authz"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// keys are the tokens of a cluster with auth: tokens, by name.
type keys struct {
	t      *testing.T
	path   string
	tokens map[string]auth.Token
	lines  map[string]string
}

// newKeys makes a token for each role, and one that expires.
func newKeys(t *testing.T) *keys {
	t.Helper()
	k := &keys{
		t: t, path: filepath.Join(t.TempDir(), "auth.yaml"), tokens: map[string]auth.Token{}, lines: map[string]string{},
	}
	k.add("client", auth.Client, time.Time{})
	k.add("reader", auth.Reader, time.Time{})
	k.add("operator", auth.Operator, time.Time{})
	k.add("admin", auth.Admin, time.Time{})
	k.write()
	return k
}

func (k *keys) add(name string, roles auth.Roles, expires time.Time) {
	k.t.Helper()
	token := auth.NewToken()
	line, err := auth.Line(name, token.Digest(), roles, expires)
	if err != nil {
		k.t.Fatal(err)
	}
	k.tokens[name], k.lines[name] = token, line
}

func (k *keys) write() {
	k.t.Helper()
	text := "tokens:\n"
	for _, line := range k.lines {
		text += line + "\n"
	}
	if err := os.WriteFile(k.path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// as returns a connection to a node with a token; "" sends none.
func (c *testCluster) as(n *testNode, token string) *grpc.ClientConn {
	c.t.Helper()
	c.opens++ // a host has one life, which the next of its name ends
	o := dial.Options{Dial: c.Host(fmt.Sprintf("client%d", c.opens)).Dial, TokenWithoutTLS: true, ClientName: "liar"}
	if token != "" {
		o.Token = func(context.Context) (string, error) { return token, nil }
	}
	conn, err := dial.Client(n.name+":7400", o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// metrics asks for /metrics with a token.
func (c *testCluster) metrics(n *testNode, token string) (int, string) {
	c.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return c.Host("client").Dial(ctx, address)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+n.name+":7403/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// A caller may do what its roles allow, in calls, on streams and over HTTP, and nothing else. The refusal says which
// role is needed. What an operator does is a line and a count, refused or done.
func TestWhoMayDoWhat(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		k := newKeys(t)
		k.add("old", auth.Admin, session.Epoch()) // before any moment of the test
		k.write()
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, k.path })
		defer c.stop()
		n := c.leader(within)
		secret := func(name string) string { return k.tokens[name].Secret() }
		ask := map[string]func(cc *grpc.ClientConn) error{
			"status": func(cc *grpc.ClientConn) error {
				_, err := holdfastv1.NewClusterServiceClient(cc).GetStatus(t.Context(), &holdfastv1.GetStatusRequest{})
				return err
			},
		}
		ask["list"] = func(cc *grpc.ClientConn) error {
			_, err := holdfastv1.NewSessionServiceClient(cc).ListSessions(t.Context(), &holdfastv1.ListSessionsRequest{})
			return err
		}
		ask["connect"] = func(cc *grpc.ClientConn) error { // a stream
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := separate.Stream(holdfastv1.NewSessionServiceClient(cc).Connect(ctx))
			if err != nil {
				return err
			}
			if err = s.Send(touchAll(1)); err != nil {
				return err
			}
			_, err = s.Recv()
			return err
		}
		ask["open"] = func(cc *grpc.ClientConn) error { // in a stream
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := separate.Stream(holdfastv1.NewSessionServiceClient(cc).Connect(ctx))
			if err != nil {
				return err
			}
			if err = s.Send(openOne(1)); err != nil {
				return err
			}
			for {
				m, err := s.Recv()
				if err != nil || m.GetOpened() != nil {
					return err
				}
				if m.GetFailed() != nil {
					return wire.FailedError(m.GetFailed())
				}
			}
		}
		ask["snapshot"] = func(cc *grpc.ClientConn) error { // a stream too
			return new(taken).take(t.Context(), holdfastv1.NewClusterServiceClient(cc), &holdfastv1.TakeSnapshotRequest{}, 0)
		}
		for _, tt := range []struct {
			token   string
			allowed string
			want    error
		}{
			{"", "", session.ErrUnauthenticated},
			{auth.NewToken().Secret(), "", session.ErrUnauthenticated},
			{"nonsense", "", session.ErrUnauthenticated},
			{secret("old"), "", session.ErrUnauthenticated},
			{secret("client"), "status connect open", session.ErrForbidden},
			{secret("reader"), "status list connect", session.ErrForbidden},
			{secret("operator"), "status list connect", session.ErrForbidden},
			{secret("admin"), "status list connect open snapshot", session.ErrForbidden},
		} {
			cc := c.as(n, tt.token)
			for call, f := range ask {
				want := tt.want
				if strings.Contains(tt.allowed, call) {
					want = nil
				}
				err := wire.Domain(f(cc))
				if want == nil && err != nil || want != nil && !errors.Is(err, want) {
					t.Errorf("%s, who may %q: %s: got %v, want %v", nameOf(k, tt.token), tt.allowed, call, err, want)
				}
				if denied, ok := errors.AsType[*session.AccessError](err); want != nil && (!ok || len(denied.Needs) == 0) {
					t.Errorf("%s: %v does not say which role is needed", call, err)
				}
			}
		}
		for token, want := range map[string]int{
			"": 401, "nonsense": 401, secret("old"): 401, secret("client"): 403, secret("reader"): 200,
		} {
			if code, _ := c.metrics(n, token); code != want {
				t.Errorf("/metrics for %s: got %d, want %d", nameOf(k, token), code, want)
			}
		}
		if code, body := c.get(n, "/healthz"); code != http.StatusOK {
			t.Errorf("/healthz is not open: %d %s", code, body)
		}
		_, body := c.metrics(n, secret("reader"))
		for _, line := range []string{
			`holdfast_operator_actions_total{action="take snapshot",outcome="done"} 1`,
			`holdfast_operator_actions_total{action="take snapshot",outcome="denied"} 7`,
			`holdfast_calls_denied_total{reason="expired"} 6`,
		} {
			if !strings.Contains(body, line+"\n") {
				t.Errorf("/metrics lacks %s: %s", line, grep(body, "acts_total|forbidden"))
			}
		}
		if log := n.log.String(); strings.Count(log, "action=\"take snapshot\"") != 8 ||
			!strings.Contains(log, "who=token:admin") || !strings.Contains(log, "outcome=done") {
			t.Errorf("the audit is %s", grep(log, "action="))
		}
	})
}

// openOne opens a session.
func openOne(seq uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: &holdfastv1.Open{
		Seq: seq, Timeout: wire.PromiseProto(10 * time.Second), RequestId: []byte("0123456789abcdef"),
	}}}
}

// touchAll is a touch of all sessions of a connection.
func touchAll(seq uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: &holdfastv1.Touch{Seq: seq}}}
}

// nameOf returns the name of a token, so that a test that fails does not print the token.
func nameOf(k *keys, token string) string {
	for name, one := range k.tokens {
		if one.Secret() == token {
			return name
		}
	}
	return "a stranger"
}

// grep returns the lines of a text with one of the words.
func grep(text, words string) string {
	var found []string
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(strings.Split(words, "|"), func(w string) bool { return strings.Contains(line, w) }) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// A stream that has begun ends when its caller's token is taken from the file, or expires, or loses the role: with the
// next message. The callers of other tokens notice nothing.
func TestStreamsEndWithTheirToken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		k := newKeys(t)
		k.add("brief", auth.Client, session.Epoch().AddDate(0, 6, 0).Add(time.Minute))
		k.add("other", auth.Client, time.Time{})
		k.add("less", auth.Client, time.Time{})
		k.write()
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, k.path })
		defer c.stop()
		n := c.leader(within)
		streams := map[string]holdfastv1.SessionService_ConnectClient{}
		for _, name := range []string{"client", "brief", "other", "less"} {
			s, err := separate.Stream(holdfastv1.NewSessionServiceClient(c.as(n, k.tokens[name].Secret())).Connect(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			streams[name] = s
		}
		seq := uint64(0)
		touch := func(name string) error {
			s := streams[name]
			seq++
			if err := s.Send(touchAll(seq)); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			for {
				m, err := s.Recv()
				if err != nil || m.GetTouched().GetSeq() == seq {
					return wire.Domain(err)
				}
			}
		}
		for name := range streams {
			if err := touch(name); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := streams["less"].Send(openOne(2)); err != nil { // what a reader may not have
			t.Fatal(err)
		}
		if err := touch("less"); err != nil {
			t.Fatal(err)
		}
		delete(k.lines, "client")
		line, err := auth.Line("less", k.tokens["less"].Digest(), auth.Reader, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		k.lines["less"] = line
		k.write()
		time.Sleep(2 * auth.ReloadInterval)
		for name, want := range map[string]error{
			"client": session.ErrUnauthenticated, "less": session.ErrForbidden, "other": nil, "brief": nil,
		} {
			if err := touch(name); want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s after the change of the file: got %v, want %v", name, err, want)
			}
		}
		for range 4 {
			time.Sleep(20 * time.Second) // streams without sessions end after a minute without a message
			_ = touch("other")
			if time.Now().Before(session.Epoch().AddDate(0, 6, 0).Add(time.Minute)) {
				_ = touch("brief")
			}
		}
		if err := touch("brief"); !errors.Is(err, session.ErrUnauthenticated) {
			t.Errorf("a token that has expired: got %v", err)
		}
		if err := touch("other"); err != nil {
			t.Errorf("another token: %v", err)
		}
	})
}
