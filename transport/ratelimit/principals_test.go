package ratelimit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// superDigest is super:secret as a node is configured with it.
const superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

func calling(addr net.Addr, auth credentials.AuthInfo, digests ...string) context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: addr, AuthInfo: auth})
	return metadata.NewIncomingContext(ctx, metadata.MD{wire.DigestKey: digests})
}

// TestP1PrincipalsOfACall: whom a node vouches for.
func TestP1PrincipalsOfACall(t *testing.T) {
	tcp := &net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 9}
	subject := pkix.Name{CommonName: "billing", Organization: []string{"A, B"}}
	raw, err := asn1.Marshal(pkix.RDNSequence{ // not in the order that package pkix has
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "billing"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "A, B"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	certified := credentials.TLSInfo{State: tls.ConnectionState{
		VerifiedChains: [][]*x509.Certificate{{{Subject: subject, RawSubject: raw}}},
	}}
	unverified := credentials.TLSInfo{State: tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{{Subject: subject}},
	}}
	six := &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 9, Zone: "eth0"}
	for name, tt := range map[string]struct {
		ctx  context.Context //nolint:containedctx // the call's
		want []tree.Principal
	}{
		"nothing":    {context.Background(), nil},
		"an address": {calling(tcp, nil), []tree.Principal{{Scheme: tree.IP, ID: "192.0.2.7"}}},
		"no address": {calling(&net.UnixAddr{Name: "pipe", Net: "pipe"}, nil), nil},
		"version 6":  {calling(six, nil), []tree.Principal{{Scheme: tree.IP, ID: "2001:db8::7"}}},
		// The digest of ZooKeeper's own documentation.
		"a password": {calling(nil, nil, "user1:password1"), []tree.Principal{
			{Scheme: tree.Digest, ID: "user1:XDkd2dsEuhc9ImU3q8pa8UOdtpI="},
		}},
		"super": {calling(nil, nil, "super:secret", "a:b:c"), []tree.Principal{
			{Scheme: tree.Digest, ID: superDigest},
			{Scheme: tree.Super},
			{Scheme: tree.Digest, ID: "a:" + hashOf(t, "a:b:c")},
		}},
		// Who may read a list sees the digests in it: to know one is not to know the password.
		"the digest of super": {calling(nil, nil, superDigest), []tree.Principal{
			{Scheme: tree.Digest, ID: "super:" + hashOf(t, superDigest)},
		}},
		"a certificate": {calling(tcp, certified), []tree.Principal{
			{Scheme: tree.IP, ID: "192.0.2.7"}, {Scheme: tree.X509, ID: `O=A\, B,CN=billing`},
		}},
		"an unverified certificate": {calling(tcp, unverified), []tree.Principal{{Scheme: tree.IP, ID: "192.0.2.7"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := PrincipalsOf(tt.ctx, superDigest)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	if got, err := PrincipalsOf(calling(nil, nil, "super:secret"), ""); err != nil || len(got) != 1 {
		t.Errorf("without a configured super: %v, %v", got, err)
	}
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	digest, err := wire.DigestFrom(password)
	if err != nil {
		t.Fatal(err)
	}
	_, hash, _ := strings.Cut(digest, ":")
	return hash
}

// TestP1BadDigestsAreRefused: a refusal names the metadata, and shows no password.
func TestP1BadDigestsAreRefused(t *testing.T) {
	nine := slices.Repeat([]string{"a:hunter2"}, wire.MaxDigests+1)
	for name, digests := range map[string][]string{
		"no colon": {"hunter2"}, "no name": {":hunter2"}, "not printable": {"a:hunter2\x01"}, "too many": nine,
		"a long name": {strings.Repeat("n", wire.MaxDigestName+1) + ":hunter2"},
		"too long":    {"a:" + strings.Repeat("hunter2", wire.MaxDigestBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := PrincipalsOf(calling(nil, nil, digests...), "")
			porttest.WantField(t, err, wire.DigestKey)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v shows the password", err)
			}
		})
	}
	long := credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{
		{Subject: pkix.Name{CommonName: strings.Repeat("c", tree.MaxPrincipal)}},
	}}}}
	_, err := PrincipalsOf(calling(nil, long), "")
	porttest.WantField(t, err, wire.DigestKey)
}
