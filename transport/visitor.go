package transport

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"holdfast/session"
)

// principalKey is the metadata in which a client names its principal.
const principalKey = "holdfast-principal"

// ValidPrincipal reports whether a client may name itself so: 1 to [session.MaxPrincipal] printable characters of ASCII, no space at
// either end.
func ValidPrincipal(name string) bool {
	return name != "" && len(name) <= session.MaxPrincipal && strings.TrimSpace(name) == name &&
		strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// PrincipalLimit says in words what [ValidPrincipal] accepts.
func PrincipalLimit() string {
	return "1 to " + strconv.Itoa(session.MaxPrincipal) + " printable ASCII characters, no space at either end"
}

// visitorOf returns who makes a call. A verified certificate says it; without one, the client itself may.
func visitorOf(ctx context.Context) (Visitor, error) {
	var v Visitor
	if p, ok := peer.FromContext(ctx); ok {
		v.Address = addressOf(p.Addr)
		if tls, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(tls.State.VerifiedChains) > 0 && len(tls.State.VerifiedChains[0]) > 0 {
			v.Principal, v.Verified = subject(tls.State.VerifiedChains[0][0]), true
			return v, nil
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	switch names := md[principalKey]; {
	case len(names) == 0:
	case len(names) > 1 || !ValidPrincipal(names[0]):
		return Visitor{}, &session.FieldError{Field: principalKey, Limit: "must be given once, and be " + PrincipalLimit()}
	default:
		v.Principal = names[0]
	}
	return v, nil
}

// subject is the name of a certificate's owner: its first URI, such as a SPIFFE id, or its common name.
func subject(c *x509.Certificate) string {
	if len(c.URIs) > 0 {
		return c.URIs[0].String()
	}
	return c.Subject.CommonName
}

// addressOf returns the address that a budget is for.
func addressOf(a net.Addr) netip.Addr {
	if a == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		ip = netip.PrefixFrom(ip, 64).Masked().Addr()
	}
	return ip
}
