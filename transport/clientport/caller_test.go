package clientport

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
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// signed returns a certificate for name, signed by issuer, or by itself without one.
func signed(t *testing.T, name string, issuer *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IsCA: issuer == nil, BasicConstraintsValid: true,
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

// limitOf returns the limit by which a call was refused.
func limitOf(t *testing.T, err error) *session.LimitError {
	t.Helper()
	return porttest.RefusedBy(t, wire.Domain(err))
}

// On a real connection, a certificate has a budget of its own, which the same unverified name cannot use up.
func TestVerifiedCertificateHasABudgetOfItsOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // no time passes between the calls
		authority := signed(t, "authority", nil)
		server, client := signed(t, "node", &authority), signed(t, "billing", &authority)
		pool := x509.NewCertPool()
		pool.AddCert(authority.Leaf)
		network := porttest.NewPipes()
		s := New(Config{
			RateLimits: ratelimit.Config{OpensAndResumesPerClient: 10},
			Credentials: credentials.NewTLS(
				&tls.Config{
					Certificates: []tls.Certificate{server}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
				},
			),
		}, &fakeService{}, fakeCluster{})
		served := make(chan error, 1)
		go func() { served <- s.Serve(network) }()
		dialAs := func(name string, certificates ...tls.Certificate) holdfastv1.SessionServiceClient {
			conn, err := dial.Client("node:1", dial.Options{
				Dial: network.Dial, ClientName: name,
				Credentials: credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "node", Certificates: certificates}),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return holdfastv1.NewSessionServiceClient(conn)
		}
		open := &holdfastv1.OpenSessionRequest{Timeout: wire.PromiseProto(time.Second), RequestId: make([]byte, 16)}
		said, verified := dialAs("billing"), dialAs("", client)
		if err := call(t.Context(), said, open); err != nil {
			t.Fatal(err)
		}
		if limit := limitOf(t, call(t.Context(), said, open)); limit.Name != "max_opens_and_resumes_per_second_per_client" {
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
	})
}

// Every open, resume and touch passes the rate limits, and every refusal names a retry time.
func TestEveryOpenResumeAndTouchPassesTheRateLimits(t *testing.T) {
	asked := 0
	service := &fakeService{
		open: func(context.Context, session.OpenRequest) (session.Grant, error) {
			asked++
			return porttest.Grant(7), nil
		},
		resume: func(context.Context, session.ResumeRequest) (session.Grant, error) {
			asked++
			return porttest.Grant(7), nil
		},
		touch: func([]session.ID) session.Touched { asked++; return session.Touched{SafeFor: -1} },
		touchToken: func(context.Context, session.Token) (time.Duration, error) {
			asked++
			return -1, nil
		},
	}
	token := wire.TokenProto(porttest.Grant(1).Token)
	for name, tt := range map[string]struct {
		stream *holdfastv1.ClientMessage
		unary  proto.Message
	}{
		"max_opens_per_second": {
			openMessage(1), &holdfastv1.OpenSessionRequest{
				Timeout: wire.PromiseProto(time.Second), RequestId: make([]byte, 16),
			},
		},
		"max_resumes_per_second": {
			resumeMessage(1, 1), &holdfastv1.ResumeSessionRequest{Token: token, Instance: 1, Attempt: 1},
		},
		"max_touches_per_second": {
			touchMessage(1), &holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s, network, stop := clientPort(t, Config{RateLimits: ratelimit.Config{Opens: 1, Resumes: 1, Touches: 1}}, service)
				defer stop()
				stream, unary := connected(t, network), holdfastv1.NewSessionServiceClient(dialPipes(t, network))
				if err := call(t.Context(), unary, tt.unary); err != nil {
					t.Fatal(err)
				}
				asked = 0
				send(t, stream, tt.stream)
				first := porttest.RefusedBy(t, wire.FailedError(receive(t, stream).GetFailed()))
				second := limitOf(t, call(t.Context(), unary, tt.unary))
				if first.Name != name || second.Name != name || second.RetryAfter != first.RetryAfter+time.Second ||
					asked != 0 {
					t.Errorf("refused by %v after %v, and %v after %v; the node was asked %d times", first, first.RetryAfter,
						second, second.RetryAfter, asked)
				}
				var refused uint64
				for _, scopes := range s.Stats().Refusals {
					refused += scopes[ratelimit.OfNode]
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

// Clients that look for a leader, or for a read-write node, use up no budget. Nothing is done for them, and they are
// served at once when there is a leader again.
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
			return porttest.Grant(7), nil
		},
		resume: func(context.Context, session.ResumeRequest) (session.Grant, error) {
			if !led {
				return session.Grant{}, why
			}
			return porttest.Grant(7), nil
		},
	}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t,
			Config{RateLimits: ratelimit.Config{Opens: 1, Resumes: 1, OpensAndResumesPerAddress: 1, OpensAndResumesPerClient: 1}}, service)
		defer stop()
		stream, unary := connected(t, network), holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		seq := uint64(0)
		for range 10 {
			for _, m := range []*holdfastv1.ClientMessage{openMessage(seq + 1), resumeMessage(seq+2, 1)} {
				send(t, stream, m)
				if err := wire.FailedError(receive(t, stream).GetFailed()); !errors.Is(err, why) {
					t.Fatalf("got %v, want %v", err, why)
				}
			}
			seq += 2
			for _, q := range []proto.Message{
				&holdfastv1.OpenSessionRequest{Timeout: wire.PromiseProto(time.Second), RequestId: make([]byte, 16)},
				&holdfastv1.ResumeSessionRequest{
					Token: wire.TokenProto(porttest.Grant(1).Token), Instance: 1,
					Attempt: 1,
				},
			} {
				if err := wire.Domain(call(t.Context(), unary, q)); !errors.Is(err, why) {
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

// TouchSessions counts once for each token, a message on a stream once.
func TestTouchesAreCounted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{RateLimits: ratelimit.Config{Touches: 100}}, &fakeService{})
		defer stop()
		stream, unary := connected(t, network), holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		time.Sleep(time.Second) // away from the rate limits's base
		for seq := range uint64(9) {
			send(t, stream, touchMessage(seq+1, 1, 2, 3, 4, 5))
			if receive(t, stream).GetTouched() == nil {
				t.Fatalf("message %d of 10 at once was refused", seq+1)
			}
		}
		token := wire.TokenProto(porttest.Grant(1).Token)
		two := &holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token, token}}
		if err := call(t.Context(), unary, two); err != nil { // takes the last token, and owes another
			t.Error(err)
		}
		if limit := limitOf(t, call(t.Context(), unary, two)); limit.RetryAfter != 20*time.Millisecond {
			t.Errorf("two tokens where one is owed: retry time %v", limit.RetryAfter)
		}
		time.Sleep(20 * time.Millisecond)
		if err := call(t.Context(), unary, two); err != nil {
			t.Error(err)
		}
	})
}

func TestAnInvalidNameIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		conn, err := dial.Client("node", dial.Options{Dial: network.Dial, ClientName: " "})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(conn).Connect(t.Context()))
		if err == nil {
			_, err = stream.Recv()
		}
		if field, ok := errors.AsType[*session.FieldError](wire.Domain(err)); !ok || field.Field != wire.ClientNameKey {
			t.Errorf("got %v, want the field %s", err, wire.ClientNameKey)
		}
	})
}
