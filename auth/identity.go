package auth

import (
	"context"
	"crypto/x509"
	"time"
)

// Identity is a caller with a verified name. The zero value is an anonymous caller.
type Identity struct {
	// Name has the kind in front, so that no token has the name of a certificate: token:web, uri:spiffe://x/web,
	// dns:web.example.org or cn:web.
	Name string
	// Roles are the name's roles in the file when the identity was made.
	Roles Roles
	// Expires is when the file ends the name; zero is never.
	Expires time.Time

	// digest is that of the token; zero for a certificate.
	digest Digest
}

// Known reports whether the caller's name was verified.
func (i Identity) Known() bool { return i.Name != "" }

type identityKey struct{}

// With returns a context with the caller's identity.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// From returns the identity of a context's caller; anonymous when calls are not authenticated.
func From(ctx context.Context) Identity {
	i, _ := ctx.Value(identityKey{}).(Identity)
	return i
}

// CertificateNames returns the names of a verified certificate in the order in which they are looked up: its URIs, its
// DNS names, its common name.
func CertificateNames(c *x509.Certificate) []string {
	var names []string
	for _, u := range c.URIs {
		names = append(names, "uri:"+u.String())
	}
	for _, d := range c.DNSNames {
		names = append(names, "dns:"+d)
	}
	if c.Subject.CommonName != "" {
		names = append(names, "cn:"+c.Subject.CommonName)
	}
	return names
}
