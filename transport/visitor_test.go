package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubbles"
)

// Whoever has one address of a /64 has them all; an IPv4 address is one however it is written.
func TestAddressOfAVisitor(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1:77": "192.0.2.1", "[::ffff:192.0.2.1]:77": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:77": "2001:db8:1:2::", "[2001:db8:1:2::9]:78": "2001:db8:1:2::", "[fe80::1%eth0]:79": "fe80::",
	} {
		ap, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := addressOf(ap); got != netip.MustParseAddr(want) {
			t.Errorf("%s: got %v, want %s", text, got, want)
		}
	}
	if got := addressOf(&net.UnixAddr{Name: "pipe", Net: "pipe"}); got != (netip.Addr{}) || addressOf(nil) != got {
		t.Errorf("no IP address: got %v", got)
	}
}

func TestPrincipalOfAVisitor(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
		ok    bool
	}{
		{nil, "", true},
		{[]string{"team a"}, "team a", true},
		{[]string{strings.Repeat("a", session.MaxPrincipal)}, strings.Repeat("a", session.MaxPrincipal), true},
		{[]string{strings.Repeat("a", session.MaxPrincipal+1)}, "", false},
		{[]string{""}, "", false},
		{[]string{" a"}, "", false},
		{[]string{"a\x7f"}, "", false},
		{[]string{"ä"}, "", false},
		{[]string{"a", "b"}, "", false},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{principalKey: tt.names})
		v, err := visitorOf(ctx)
		field, isField := errors.AsType[*session.FieldError](err)
		if v.Principal != tt.want || v.Verified || (err == nil) != tt.ok || !tt.ok && (!isField || field.Field != principalKey) {
			t.Errorf("%q: got %+v, %v", tt.names, v, err)
		}
	}
}

// A verified certificate counts, whatever the client says beside it; one that was not verified is none.
func TestPrincipalOfACertificate(t *testing.T) {
	byName := &x509.Certificate{Subject: pkix.Name{CommonName: "billing"}}
	byURI := &x509.Certificate{Subject: pkix.Name{CommonName: "x"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "a", Path: "/billing"}}}
	for _, tt := range []struct {
		state tls.ConnectionState
		want  Visitor
	}{
		{tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{byName}}}, Visitor{Principal: "billing", Verified: true}},
		{tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{byURI}}}, Visitor{Principal: "spiffe://a/billing", Verified: true}},
		{tls.ConnectionState{PeerCertificates: []*x509.Certificate{byName}}, Visitor{Principal: "said"}},
	} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: tt.state}})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(principalKey, "said"))
		if got, err := visitorOf(ctx); got != tt.want || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
		}
	}
}

// signed returns a certificate for name that issuer signed, or itself.
func signed(t *testing.T, name string, issuer *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: issuer == nil, BasicConstraintsValid: true,
	}
	c := tls.Certificate{PrivateKey: key}
	parent, signer := template, any(key)
	if issuer != nil {
		parent, signer = issuer.Leaf, issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c.Certificate = [][]byte{der}
	if c.Leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c
}

// limitOf returns the limit that a call was refused by.
func limitOf(t *testing.T, err error) *session.LimitError {
	t.Helper()
	return refusedBy(t, Domain(err))
}

// On a real connection: a certificate has a budget of its own, which the same name without one cannot use up.
func TestVerifiedCertificateHasABudgetOfItsOwn(t *testing.T) {
	authority := signed(t, "authority", nil)
	server, client := signed(t, "node", &authority), signed(t, "billing", &authority)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	network := newPipes()
	s := NewClientServer(ClientConfig{
		Gate:        GateConfig{ArrivalsPerPrincipal: 10},
		Credentials: credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}),
	}, &fakeService{}, fakeCluster{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(network) }()
	dial := func(name string, certificates ...tls.Certificate) holdfastv1.SessionServiceClient {
		conn, err := DialClient("node:1", DialOptions{
			Dial: network.dial, Principal: name,
			Credentials: credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "node", Certificates: certificates}),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return holdfastv1.NewSessionServiceClient(conn)
	}
	open := &holdfastv1.OpenSessionRequest{Timeout: PromiseProto(time.Second), RequestId: make([]byte, 16)}
	said, verified := dial("billing"), dial("", client)
	if err := call(t.Context(), said, open); err != nil {
		t.Fatal(err)
	}
	if limit := limitOf(t, call(t.Context(), said, open)); limit.Name != "max_arrivals_per_second_per_principal" {
		t.Errorf("refused by %v", limit)
	}
	if err := call(t.Context(), verified, open); err != nil {
		t.Errorf("the owner of the certificate: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(s.Stop(ctx), <-served); err != nil {
		t.Error(err)
	}
}

// Every way into a node passes the gate, and every refusal says when to come back.
func TestEveryOpenResumeAndTouchPassesTheGate(t *testing.T) {
	asked := 0
	service := &fakeService{
		open:   func(context.Context, session.OpenRequest) (session.Grant, error) { asked++; return grant(7), nil },
		resume: func(context.Context, session.ResumeRequest) (session.Grant, error) { asked++; return grant(7), nil },
		touch:  func([]session.ID) session.Touched { asked++; return session.Touched{SafeFor: -1} },
		touchToken: func(context.Context, session.Token) (time.Duration, error) {
			asked++
			return -1, nil
		},
	}
	token := TokenProto(grant(1).Token)
	for name, tt := range map[string]struct {
		stream *holdfastv1.ClientMessage
		unary  proto.Message
	}{
		"max_opens_per_second":   {openMessage(1), &holdfastv1.OpenSessionRequest{Timeout: PromiseProto(time.Second), RequestId: make([]byte, 16)}},
		"max_resumes_per_second": {resumeMessage(1, 1), &holdfastv1.ResumeSessionRequest{Token: token, Instance: 1, Attempt: 1}},
		"max_touches_per_second": {touchMessage(1), &holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				s, network, stop := clientPort(t, ClientConfig{Gate: GateConfig{Opens: 1, Resumes: 1, Touches: 1}}, service)
				defer stop()
				stream, unary := connected(t, network), holdfastv1.NewSessionServiceClient(dialPipes(t, network))
				if err := call(t.Context(), unary, tt.unary); err != nil {
					t.Fatal(err)
				}
				asked = 0
				send(t, stream, tt.stream)
				first := refusedBy(t, FailedError(receive(t, stream).GetFailed()))
				second := limitOf(t, call(t.Context(), unary, tt.unary))
				if first.Name != name || second.Name != name || second.RetryAfter != first.RetryAfter+time.Second || asked != 0 {
					t.Errorf("refused by %v after %v, and %v after %v; the node did %d", first, first.RetryAfter, second, second.RetryAfter, asked)
				}
				var refused uint64
				for _, scopes := range s.Stats().Refusals {
					refused += scopes[OfNode]
				}
				if refused != 2 {
					t.Errorf("counted %d, want 2", refused)
				}
				// Closes and reads pass.
				send(t, stream, closeMessage(2, 1))
				if receive(t, stream).GetClosed() == nil {
					t.Error("a close was refused")
				}
				time.Sleep(first.RetryAfter)
				if err := call(t.Context(), unary, tt.unary); err != nil {
					t.Errorf("after the wait: %v", err)
				}
			})
		})
	}
}

// Clients that look for a leader, or for a read-write node, use up no budget: nothing is done for them, and when there is one again they
// are served at once.
func TestRequestsWithoutALeaderUseUpNothing(t *testing.T) {
	for _, why := range []error{session.ErrNoLeader, session.ErrReadOnly} {
		t.Run(why.Error(), func(t *testing.T) { usesUpNothing(t, why) })
	}
}

func usesUpNothing(t *testing.T, why error) {
	t.Helper()
	led := false
	service := &fakeService{
		open: func(context.Context, session.OpenRequest) (session.Grant, error) {
			if !led {
				return session.Grant{}, why
			}
			return grant(7), nil
		},
		resume: func(context.Context, session.ResumeRequest) (session.Grant, error) {
			if !led {
				return session.Grant{}, why
			}
			return grant(7), nil
		},
	}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{Gate: GateConfig{Opens: 1, Resumes: 1, ArrivalsPerAddress: 1, ArrivalsPerPrincipal: 1}}, service)
		defer stop()
		stream, unary := connected(t, network), holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		seq := uint64(0)
		for range 10 {
			for _, m := range []*holdfastv1.ClientMessage{openMessage(seq + 1), resumeMessage(seq+2, 1)} {
				send(t, stream, m)
				if err := FailedError(receive(t, stream).GetFailed()); !errors.Is(err, why) {
					t.Fatalf("got %v, want %v", err, why)
				}
			}
			seq += 2
			for _, q := range []proto.Message{
				&holdfastv1.OpenSessionRequest{Timeout: PromiseProto(time.Second), RequestId: make([]byte, 16)},
				&holdfastv1.ResumeSessionRequest{Token: TokenProto(grant(1).Token), Instance: 1, Attempt: 1},
			} {
				if err := Domain(call(t.Context(), unary, q)); !errors.Is(err, why) {
					t.Fatalf("got %v, want %v", err, why)
				}
			}
		}
		led = true
		send(t, stream, resumeMessage(seq+1, 1))
		if m := receive(t, stream); m.GetResumed() == nil {
			t.Errorf("with a leader: got %v", m)
		}
	})
}

// TouchSessions counts each of its tokens, a message on a stream once.
func TestTouchesAreCounted(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{Gate: GateConfig{Touches: 100}}, &fakeService{})
		defer stop()
		stream, unary := connected(t, network), holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		time.Sleep(time.Second) // away from the moment that the gate counts from
		for seq := range uint64(9) {
			send(t, stream, touchMessage(seq+1, 1, 2, 3, 4, 5))
			if receive(t, stream).GetTouched() == nil {
				t.Fatalf("message %d of 10 at once was refused", seq+1)
			}
		}
		token := TokenProto(grant(1).Token)
		two := &holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token, token}}
		if err := call(t.Context(), unary, two); err != nil { // a token is left, and another one is owed
			t.Error(err)
		}
		if limit := limitOf(t, call(t.Context(), unary, two)); limit.RetryAfter != 20*time.Millisecond {
			t.Errorf("two tokens where one is owed: come back after %v", limit.RetryAfter)
		}
		time.Sleep(20 * time.Millisecond)
		if err := call(t.Context(), unary, two); err != nil {
			t.Error(err)
		}
	})
}

func TestNameThatIsNoneIsRefused(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{}, &fakeService{})
		defer stop()
		conn, err := DialClient("node", DialOptions{Dial: network.dial, Principal: " "})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := holdfastv1.NewSessionServiceClient(conn).Connect(t.Context())
		if err == nil {
			_, err = stream.Recv()
		}
		if field, ok := errors.AsType[*session.FieldError](Domain(err)); !ok || field.Field != principalKey {
			t.Errorf("got %v, want the field %s", err, principalKey)
		}
	})
}
