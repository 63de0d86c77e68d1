package tree

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Auth is the scheme of a grant to all that the client has authenticated as. A node expands it before a write goes to
// the log (P1): no entry has it.
const Auth = "auth"

// Expand returns the list as an entry may have it: with each grant of the scheme [Auth] replaced by one to each of the
// principals, namely those with passwords and certificates, because everybody may connect from an address; and with
// each address as principals have it, because the state compares texts. The error is a [FieldError] when there are none
// to replace a grant. A list that stays as it is, is returned itself.
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

// plain returns the grant with its address in the form that a principal has: 2001:db8::1 for 2001:DB8:0::1, and no
// version 4 within version 6.
func (g Grant) plain() Grant {
	if g.Scheme != IP {
		return g
	}
	if address, err := netip.ParseAddr(g.ID); err == nil {
		g.ID = address.Unmap().WithZone("").String()
	}
	return g
}

// DigestOf returns the id of the scheme [Digest] that a NAME:PASSWORD has, as in ZooKeeper: NAME:HASH, the hash being
// the SHA-1 of both in base64. Without a colon all is the name, and the hash is that of the name. It is false without
// a name: no access list can have such an id.
func DigestOf(credentials string) (id string, ok bool) {
	name, _, _ := strings.Cut(credentials, ":")
	if name == "" {
		return "", false
	}
	hash := sha1.Sum([]byte(credentials))
	return name + ":" + base64.StdEncoding.EncodeToString(hash[:]), true
}
