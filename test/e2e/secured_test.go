//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

// loadWithin bounds the time until a node uses changed files of TLS, or of roles, on a busy machine.
const loadWithin = time.Minute

// secured is a cluster with deploy/tls.yaml, and the certificates that deploy/certificates makes.
type secured struct {
	*cluster
	dir string
}

// newSecured plans one whose settings node_tls, client_tls and http_tls are mode.
func newSecured(t *testing.T, mode string, env ...string) *secured {
	t.Helper()
	s := &secured{planned(t, 3, "../../deploy/tls.yaml"), t.TempDir()}
	s.env = append(s.env, append(env, "CERTIFICATES="+s.dir, "TLS_MODE="+mode)...)
	s.certificates()
	t.Cleanup(s.down)
	return s
}

// certificates makes the certificates that are missing, and hands all files to the nodes.
func (s *secured) certificates() {
	s.t.Helper()
	must(s.t, "../../deploy/certificates", holdfastProgram, s.dir, fmt.Sprint(s.nodes), "holdfast")
}

// as returns how a caller speaks TLS, as deploy/certificates names it; empty for one without a certificate.
func (s *secured) as(caller string) *client.TLS {
	c := &client.TLS{CACert: filepath.Join(s.dir, "ca.pem")}
	if caller != "" {
		c.Cert, c.Key = filepath.Join(s.dir, caller+".pem"), filepath.Join(s.dir, caller+".key")
	}
	return c
}

// deploy starts nodes, or replaces them by ones of the present environment, on their volumes.
func (s *secured) deploy(nodes ...int) {
	s.t.Helper()
	args := append(s.compose, "up", "-d", "--no-deps")
	for _, n := range nodes {
		args = append(args, service(n))
	}
	if _, err := command(s.env, args...); err != nil {
		s.t.Fatal(err)
	}
}

// asCaller returns the same for a connection without the SDK.
func (c *cluster) asCaller(of *client.TLS) *tls.Config {
	c.t.Helper()
	pem, err := os.ReadFile(of.CACert)
	timeout.Check(c.t, err)
	t := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		c.t.Fatalf("%s has no certificate", of.CACert)
	}
	if of.Cert != "" {
		pair, err := tls.LoadX509KeyPair(of.Cert, of.Key)
		timeout.Check(c.t, err)
		t.Certificates = []tls.Certificate{pair}
	}
	return t
}

// TestSecured runs a cluster with TLS on every port and with roles. Callers without TLS, without a name, or without the
// role are told what they lack. On the ports of nodes nobody but a node of the cluster gets past the handshake.
// Sessions live on when a node dies and when every node has a new certificate. A new token counts without a restart.
func TestSecured(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "require", "HOLDFAST_AUTH=both")
	s.deploy(s.all()...)
	s.speaks = s.as("admin-me")
	leader := s.awaitServing(healWithin, s.all()...)
	s.refusals()
	s.hostile()

	l := s.newLedger()
	held := l.settled(5, 2*minTimeout, s.all()...)
	s.renew()
	l.stayed(held)
	l.noneLapsed(held)
	s.token()

	s.kill(leader)
	l.awaitOwners(healWithin, held, s.but(leader)...)
	s.start(leader)
	s.awaitServing(healWithin, s.all()...)
	l.servesOn(s.all()...)
}

// refusals calls the cluster as those who may not.
func (s *secured) refusals() {
	s.t.Helper()
	for _, call := range []struct {
		by   string
		as   *client.TLS
		is   error // what the error is
		says string
	}{
		{
			"nobody, without TLS", nil, session.ErrTLS,
			"it requires TLS, and this side speaks without TLS",
		},
		{
			"nobody", s.as(""), session.ErrUnauthenticated,
			"the call needs the role reader, and no token or certificate was shown",
		},
		{
			"a client", s.as("client-app"), session.ErrForbidden,
			"the call needs the role reader, and uri:holdfast://holdfast/client/app has client",
		},
	} {
		cfg := s.config(s.all()...)
		cfg.TLS = call.as
		x, err := client.New(cfg)
		timeout.Check(s.t, err)
		ctx, cancel := context.WithTimeout(s.t.Context(), healWithin)
		_, err = x.List(ctx, client.ListOptions{})
		cancel()
		x.Close()
		if !errors.Is(err, call.is) || !strings.Contains(err.Error(), call.says) {
			s.t.Errorf("list by %s: got %v, want %v: %s", call.by, err, call.is, call.says)
		}
	}
}

// hostile calls the ports of nodes without TLS, and with certificates that are not a node's. Each is refused before it
// has said anything, and counted.
func (s *secured) hostile() {
	s.t.Helper()
	at := s.addresses(1)[0]
	for reason, port := range map[string]int{"raft": raftPort, "peer": peerPort} {
		name := fmt.Sprintf("holdfast_tls_handshakes_refused_total{port=%q}", reason)
		before := s.metric(1, name)
		address := net.JoinHostPort(at, fmt.Sprint(port))
		s.rejects(address, nil)
		for _, caller := range []string{"", "client-app", "admin-me"} {
			c := s.asCaller(s.as(caller))
			c.InsecureSkipVerify = true // the node's certificate does not have the address
			s.rejects(address, c)
		}
		s.await(healWithin, "refusals are counted", func() (bool, string) {
			got := s.metric(1, name) - before
			return got >= 4, fmt.Sprintf("%s rose by %v, want 4 or more", name, got)
		})
	}
}

// rejects checks that a node ends a connection, and that one without TLS is told why. Callers are given what the first
// bytes of gRPC are.
func (s *secured) rejects(address string, c *tls.Config) {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", address, healWithin)
	timeout.Check(s.t, err)
	defer conn.Close()
	timeout.Check(s.t, conn.SetDeadline(time.Now().Add(healWithin)))
	said := io.ReadWriter(conn)
	if c != nil {
		said = tls.Client(conn, c)
	}
	var answer []byte
	if _, err = said.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err == nil {
		answer, err = io.ReadAll(said)
	}
	late, ok := errors.AsType[net.Error](err)
	switch told := strings.HasPrefix(string(answer), "HTTP/1.1 4"); {
	case ok && late.Timeout():
		s.t.Errorf("%s with TLS %v: the connection does not end", address, c != nil)
	case c == nil && !told:
		s.t.Errorf("%s without TLS: got %q, %v; want to be told which port this is", address, answer, err)
	case c != nil && (len(answer) > 0 || err == nil):
		s.t.Errorf("%s with a certificate of no node: got %q, %v; want nothing but a refusal", address, answer, err)
	}
}

// renew gives each node a new certificate, and waits until it shows that.
func (s *secured) renew() {
	s.t.Helper()
	before := make([]string, s.nodes)
	for i, n := range s.all() {
		before[i] = s.serial(n)
		for _, file := range []string{".pem", ".key"} {
			timeout.Check(s.t, os.Remove(filepath.Join(s.dir, fmt.Sprintf("node-%d%s", n, file))))
		}
	}
	s.certificates()
	for i, n := range s.all() {
		s.await(loadWithin, fmt.Sprintf("node %d shows its new certificate", n), func() (bool, string) {
			now := s.serial(n)
			return now != before[i], now
		})
	}
	s.awaitServing(healWithin, s.all()...)
}

// serial returns the serial number of the certificate that a node shows to clients.
func (s *secured) serial(n int) string {
	s.t.Helper()
	c := s.asCaller(s.as("admin-me"))
	c.NextProtos = []string{"h2"}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: healWithin}, "tcp", s.address(n), c)
	timeout.Check(s.t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// token adds a token of a reader to the file of roles, and waits until it counts on every node.
func (s *secured) token() {
	s.t.Helper()
	out := must(s.t, holdfastProgram, "auth", "token", "new", "dashboard", "--role", "reader")
	var token, line string
	for l := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(l, "token "); ok {
			token = strings.TrimSpace(rest)
		}
		if _, rest, ok := strings.Cut(l, "line "); ok {
			line = strings.TrimSpace(rest)
		}
	}
	file := filepath.Join(s.dir, "auth.yaml")
	roles, err := os.ReadFile(file)
	if err != nil || token == "" || line == "" {
		s.t.Fatalf("token %q, line %q of\n%s: %v", token, line, out, err)
	}
	timeout.Check(s.t, os.WriteFile(file, fmt.Appendf(roles, "tokens:\n%s\n", line), 0o600))
	s.certificates()
	for _, n := range s.all() {
		cfg := s.config(n)
		cfg.TLS, cfg.Token = s.as(""), client.StaticToken(token)
		x, err := client.New(cfg)
		timeout.Check(s.t, err)
		defer x.Close()
		s.await(loadWithin, fmt.Sprintf("node %d knows the new token", n), func() (bool, string) {
			ctx, cancel := context.WithTimeout(s.t.Context(), healWithin)
			defer cancel()
			_, err := x.List(ctx, client.ListOptions{})
			return err == nil, fmt.Sprint(err)
		})
		if logs := s.logs(n); strings.Contains(logs, token) {
			s.t.Errorf("node %d's log has the token", n)
		}
	}
}

// TestFromPlainToTLS changes a running cluster as docs/operations/security.md says: prefer on one node after the other,
// then the clients, then require. No session ends, and none is ever without a promise.
func TestFromPlainToTLS(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "off", "HOLDFAST_AUTH=none", "HOLDFAST_AUTH_FILE=")
	s.deploy(s.all()...)
	s.awaitServing(healWithin, s.all()...)
	l := s.newLedger()
	plain := l.settled(3, 2*minTimeout, s.all()...)
	s.rolls("prefer")
	l.noneEnded(plain)
	l.noneLapsed(plain)

	s.speaks = s.as("client-app")
	secure := l.settled(3, 2*minTimeout, s.all()...)
	ctx, cancel := context.WithTimeout(t.Context(), healWithin)
	defer cancel()
	for _, a := range plain {
		timeout.Check(t, a.session.Close(ctx))
		l.forget(a)
	}
	s.rolls("require")
	l.noneEnded(secure)
	l.noneLapsed(secure)
	l.servesOn(s.all()...)
	s.speaks = nil
	if _, err := s.status(1); err == nil {
		t.Error("node 1 answers a caller without TLS, and requires it")
	}
	s.speaks = s.as("client-app")
}

// rolls restarts the nodes in another mode, the leader last.
func (s *secured) rolls(mode string) {
	s.t.Helper()
	s.env = append(s.env, "TLS_MODE="+mode)
	leader := s.awaitServing(healWithin, s.all()...)
	for _, n := range append(s.but(leader), leader) {
		s.deploy(n)
		s.awaitServing(healWithin, s.all()...)
	}
}
