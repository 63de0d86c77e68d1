package ratelimit

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"holdfast/auth"
	"holdfast/session"
	"holdfast/transport/secure"
	"holdfast/transport/wire"
)

// CallerOf returns the client that makes a call, with the name under which the node has authenticated it. Where
// authentication is off, the name comes from a verified certificate, or without one from the client's own metadata.
func CallerOf(ctx context.Context) (Caller, error) {
	var v Caller
	id := auth.From(ctx)
	if p, ok := peer.FromContext(ctx); ok {
		v.Address = AddressOf(p.Addr)
	}
	if identity, ok := secure.IdentityOf(ctx); ok && !id.Known() {
		v.Name, v.Verified = subject(identity.Certificate), true
		return v, nil
	}
	if id.Known() {
		v.Name, v.Verified = id.Name, true
		return v, nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	switch names := md[wire.ClientNameKey]; {
	case len(names) == 0:
	case len(names) > 1 || !wire.ValidClientName(names[0]):
		return Caller{}, &session.FieldError{Field: wire.ClientNameKey, Limit: "given once, " +
			wire.ClientNameLimit()}
	default:
		v.Name = names[0]
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

// AddressOf returns the address under which rate limits count a peer: its IPv4 address or the /64 of its IPv6 address.
func AddressOf(a net.Addr) netip.Addr {
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
