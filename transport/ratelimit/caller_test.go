package ratelimit

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"holdfast/auth"
	"holdfast/session"
	"holdfast/transport/wire"
)

// An IPv6 address counts as its /64; an IPv4 address counts as one in each of its notations.
func TestAddressOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1:77": "192.0.2.1", "[::ffff:192.0.2.1]:77": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:77": "2001:db8:1:2::", "[2001:db8:1:2::9]:78": "2001:db8:1:2::",
		"[fe80::1%eth0]:79": "fe80::",
	} {
		ap, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := AddressOf(ap); got != netip.MustParseAddr(want) {
			t.Errorf("%s: got %v, want %s", text, got, want)
		}
	}
	if got := AddressOf(&net.UnixAddr{Name: "pipe", Net: "pipe"}); got != (netip.Addr{}) || AddressOf(nil) != got {
		t.Errorf("no IP address: got %v", got)
	}
}

func TestClientNameFromMetadata(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
		ok    bool
	}{
		{nil, "", true},
		{[]string{"team a"}, "team a", true},
		{[]string{strings.Repeat("a", session.MaxClientName)}, strings.Repeat("a", session.MaxClientName), true},
		{[]string{strings.Repeat("a", session.MaxClientName+1)}, "", false},
		{[]string{""}, "", false},
		{[]string{" a"}, "", false},
		{[]string{"a\x7f"}, "", false},
		{[]string{"ä"}, "", false},
		{[]string{"a", "b"}, "", false},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{wire.ClientNameKey: tt.names})
		v, err := CallerOf(ctx)
		field, isField := errors.AsType[*session.FieldError](err)
		if v.Name != tt.want || v.Verified || (err == nil) != tt.ok ||
			!tt.ok && (!isField || field.Field != wire.ClientNameKey) {
			t.Errorf("%q: got %+v, %v", tt.names, v, err)
		}
	}
}

// A verified certificate names the client, whatever its metadata says. An unverified certificate does not count.
func TestPrincipalOfACertificate(t *testing.T) {
	byName := &x509.Certificate{Subject: pkix.Name{CommonName: "billing"}}
	byURI := &x509.Certificate{
		Subject: pkix.Name{CommonName: "x"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "a", Path: "/billing"}},
	}
	for _, tt := range []struct {
		state tls.ConnectionState
		want  Caller
	}{
		{
			tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{byName}}},
			Caller{Name: "billing", Verified: true},
		},
		{
			tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{byURI}}},
			Caller{Name: "spiffe://a/billing", Verified: true},
		},
		{tls.ConnectionState{PeerCertificates: []*x509.Certificate{byName}}, Caller{Name: "said"}},
	} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: tt.state}})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(wire.ClientNameKey, "said"))
		if got, err := CallerOf(ctx); got != tt.want || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
		}
	}
}

// On a node that knows its callers, rate limits are of the authenticated names, whatever names they call
// themselves.
func TestRateLimitsAreOfVerifiedNames(t *testing.T) {
	g := New(Config{OpensAndResumesPerClient: 1})
	now := time.Now()
	as := func(token, says string) error {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(wire.ClientNameKey, says))
		v, err := CallerOf(auth.With(ctx, auth.Identity{Name: token}))
		if err != nil {
			t.Fatal(err)
		}
		if v.Name != token || !v.Verified {
			t.Errorf("%s, who says %s, is %+v", token, says, v)
		}
		return g.Admit(now, Opens, 1, v)
	}
	if err := as("token:a", "x"); err != nil {
		t.Error(err)
	}
	if err := as("token:a", "y"); err == nil {
		t.Error("one token has two rate limits under two names of its own")
	}
	if err := as("token:b", "x"); err != nil {
		t.Errorf("a token pays for another one that gives itself the same name: %v", err)
	}
}
