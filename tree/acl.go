package tree

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Permissions are the set of permissions that an access list grants, with ZooKeeper's numbers (N-21).
type Permissions uint8

// The permissions. CreateChild and DeleteChild are permissions on the parent of the entry (P2 access lists).
const (
	Read Permissions = 1 << iota
	Write
	CreateChild
	DeleteChild
	Admin

	All = Read | Write | CreateChild | DeleteChild | Admin
)

// String returns the letters of the permissions as ZooKeeper's command line prints them, such as cdrwa.
func (p Permissions) String() string {
	var text strings.Builder
	for _, one := range []struct {
		is     Permissions
		letter byte
	}{{CreateChild, 'c'}, {DeleteChild, 'd'}, {Read, 'r'}, {Write, 'w'}, {Admin, 'a'}} {
		if p&one.is != 0 {
			text.WriteByte(one.letter)
		}
	}
	return text.String()
}

// Schemes of principals (P1 principals).
const (
	// World has the single id "anyone", which names everybody.
	World = "world"
	// Digest has ids of a name, a colon, and the SHA-1 of name and password in base64, as in ZooKeeper.
	Digest = "digest"
	// IP has addresses as ids. A grant may name a network, such as 10.1.0.0/16.
	IP = "ip"
	// X509 has the subjects of client certificates as ids.
	X509 = "x509"
	// Super is a principal that passes every access list. Its id is for people only.
	Super = "super"
)

// Anyone is the only id of World.
const Anyone = "anyone"

// Principal is an identity that a node has verified for a client.
type Principal struct{ Scheme, ID string }

func (p Principal) String() string { return p.Scheme + ":" + p.ID }

// Grant gives permissions to the principals that match its scheme and id.
type Grant struct {
	Permissions Permissions
	Scheme, ID  string
}

// ACL is an access list. The list of an entry never changes in place. An empty list grants nothing to anybody; nil
// means the list of the nearest entry above that has a list (P2).
type ACL []Grant

// Open grants everything to everybody. It is the root's first list.
func Open() ACL { return ACL{{Permissions: All, Scheme: World, ID: Anyone}} }

// Grants reports whether the grants of a list for the principals add up to all wanted permissions.
func (a ACL) Grants(wanted Permissions, principals []Principal) bool {
	var has Permissions
	for _, g := range a {
		if g.names(principals) {
			has |= g.Permissions
		}
	}
	return has&wanted == wanted || slices.ContainsFunc(principals, func(p Principal) bool { return p.Scheme == Super })
}

// names reports whether a grant applies to any of the principals.
func (g Grant) names(principals []Principal) bool {
	if g.Scheme == World {
		return g.ID == Anyone
	}
	return slices.ContainsFunc(principals, func(p Principal) bool {
		if p.Scheme != g.Scheme {
			return false
		}
		return p.ID == g.ID || g.Scheme == IP && within(p.ID, g.ID)
	})
}

// within reports whether an address is in a network.
func within(address, network string) bool {
	a, err := netip.ParseAddr(address)
	n, networkErr := netip.ParsePrefix(network)
	return err == nil && networkErr == nil && n.Contains(a.Unmap())
}

// Check returns an error that names the field and the limit if an entry must not have the list.
func (a ACL) Check() error {
	if len(a) > MaxGrants {
		return fmt.Errorf("acl: has %d grants: at most %d", len(a), MaxGrants)
	}
	size := 0
	for i, g := range a {
		size += len(g.Scheme) + len(g.ID)
		if err := g.check(); err != nil {
			return fmt.Errorf("acl[%d]: %w", i, err)
		}
	}
	if size > MaxACL {
		return fmt.Errorf("acl: schemes and ids have %d bytes: at most %d", size, MaxACL)
	}
	return nil
}

func (g Grant) check() error {
	if g.Permissions == 0 || g.Permissions&^All != 0 {
		return fmt.Errorf("permissions: %d is no set of permissions: 1 to %d", g.Permissions, All)
	}
	switch g.Scheme {
	case World:
		if g.ID != Anyone {
			return fmt.Errorf("id: %q: the scheme world has the id %q alone", g.ID, Anyone)
		}
	case Digest:
		if name, hash, ok := strings.Cut(g.ID, ":"); !ok || name == "" || hash == "" {
			return fmt.Errorf("id: a digest is NAME:HASH")
		}
	case IP:
		_, err := netip.ParseAddr(g.ID)
		_, networkErr := netip.ParsePrefix(g.ID)
		if err != nil && networkErr != nil {
			return fmt.Errorf("id: %q is no IP address and no network, such as 10.1.0.0/16", g.ID)
		}
	case X509:
		if g.ID == "" {
			return fmt.Errorf("id: is empty: must be the subject of a certificate")
		}
	default:
		return fmt.Errorf("scheme: %q: must be one of world, digest, ip, x509", g.Scheme)
	}
	return nil
}
