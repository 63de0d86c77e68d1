package tree

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Auth is the scheme of a grant to all principals that the client has authenticated as. The client's node expands the
// grant before a write goes to the log (P1 principals), so no entry has this scheme.
const Auth = "auth"

// Expand returns the list in the form that an entry may have. It replaces each grant of the scheme [Auth] by one grant
// for each principal with a password or a certificate; addresses are left out, because everybody may connect from an
// address. It also rewrites addresses to the form of principals, because the state compares texts. The error is a
// [FieldError] when no principal can replace a grant. A list without changes is returned as it is.
func (a ACL) Expand(principals []Principal) (ACL, error) {
	if !slices.ContainsFunc(a, func(g Grant) bool { return g.Scheme == Auth || g != g.plain() }) {
		return a, nil
	}
	expanded := make(ACL, 0, len(a)+len(principals))
	for i, g := range a {
		if g.Scheme != Auth {
			expanded = append(expanded, g.plain())
			continue
		}
		before := len(expanded)
		for _, p := range principals {
			if p.Scheme == Digest || p.Scheme == X509 {
				expanded = append(expanded, Grant{Permissions: g.Permissions, Scheme: p.Scheme, ID: p.ID})
			}
		}
		if len(expanded) == before {
			return nil, wrong(fmt.Sprintf("acl[%d].scheme", i), "is %s, and the client has not authenticated", Auth)
		}
	}
	return expanded, nil
}

// plain returns the grant with its address in the form of a principal: 2001:db8::1 for 2001:DB8:0::1, and an IPv4
// address instead of one mapped into IPv6.
func (g Grant) plain() Grant {
	if g.Scheme != IP {
		return g
	}
	if address, err := netip.ParseAddr(g.ID); err == nil {
		g.ID = address.Unmap().WithZone("").String()
	}
	return g
}

// DigestOf returns the id of the scheme [Digest] for NAME:PASSWORD, as in ZooKeeper: NAME:HASH, where the hash is the
// SHA-1 of NAME:PASSWORD in base64. Text without a colon is a name, and the hash is the hash of the name. ok is false
// without a name, because no access list can have such an id.
func DigestOf(credentials string) (id string, ok bool) {
	name, _, _ := strings.Cut(credentials, ":")
	if name == "" {
		return "", false
	}
	hash := sha1.Sum([]byte(credentials))
	return name + ":" + base64.StdEncoding.EncodeToString(hash[:]), true
}
