package ratelimit

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"holdfast/session"
	"holdfast/transport/secure"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// PrincipalsOf returns the verified principals of a call (P1 principals): the digests of the passwords that the client
// sent, its address, and the subject of its verified certificate. A client with the digest super is [tree.Super] too;
// with super "" no client is. world:anyone is left out, because every client has it and writes carry their principals
// in the log. The error is a [session.FieldError] of the metadata.
func PrincipalsOf(ctx context.Context, super string) ([]tree.Principal, error) {
	all, err := digestsOf(ctx, super)
	if err != nil {
		return nil, err
	}
	if p, ok := peer.FromContext(ctx); ok {
		if ip, valid := IPOf(p.Addr); valid {
			all = append(all, tree.Principal{Scheme: tree.IP, ID: ip.String()})
		}
	}
	if identity, ok := secure.IdentityOf(ctx); ok {
		all = append(all, tree.Principal{Scheme: tree.X509, ID: identity.Subject})
	}
	if err := tree.CheckPrincipals(all); err != nil {
		return nil, &session.FieldError{
			Field: wire.DigestKey,
			Limit: fmt.Sprintf("shorter: names, address and certificate have at most %d bytes together", tree.MaxPrincipal),
		}
	}
	return all, nil
}

func digestsOf(ctx context.Context, super string) ([]tree.Principal, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	sent := md[wire.DigestKey]
	if len(sent) > wire.MaxDigests {
		return nil, &session.FieldError{Field: wire.DigestKey, Limit: fmt.Sprintf("given at most %d times", wire.MaxDigests)}
	}
	var all []tree.Principal
	for _, one := range sent {
		digest, err := wire.DigestFrom(one)
		if err != nil {
			return nil, err
		}
		all = append(all, OfDigest(digest, super)...)
	}
	return all, nil
}

// OfDigest returns the principals of a client that has shown the password of a digest: the digest, followed by
// [tree.Super] if the digest is super's.
func OfDigest(digest, super string) []tree.Principal {
	all := []tree.Principal{{Scheme: tree.Digest, ID: digest}}
	if super != "" && subtle.ConstantTimeCompare([]byte(digest), []byte(super)) == 1 {
		all = append(all, tree.Principal{Scheme: tree.Super})
	}
	return all
}

// IPOf returns the full address of a peer, unlike [AddressOf], which may return a network; false if there is none.
func IPOf(a net.Addr) (netip.Addr, bool) {
	if a == nil {
		return netip.Addr{}, false
	}
	ap, err := netip.ParseAddrPort(a.String())
	return ap.Addr().Unmap().WithZone(""), err == nil
}
