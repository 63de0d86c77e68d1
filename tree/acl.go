package tree

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Permissions are what an access list grants: a set, with ZooKeeper's numbers (N-21).
type Permissions uint8

// The permissions. Creating and deleting an entry need them at its parent (P2).
const (
	Read Permissions = 1 << iota
	Write
	CreateChild
	DeleteChild
	Admin

	All = Read | Write | CreateChild | DeleteChild | Admin
)

// String returns the letters of the permissions as ZooKeeper's command line has them, such as cdrwa.
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

// Schemes of principals (P1).
const (
	// World has the one id "anyone", which everybody is.
	World = "world"
	// Digest has ids of a name, a colon, and the SHA-1 of name and password in base64, as in ZooKeeper.
	Digest = "digest"
	// IP has addresses as ids. A grant may name a network, such as 10.1.0.0/16.
	IP = "ip"
	// X509 has the subjects of client certificates as ids.
	X509 = "x509"
	// Super is a principal that no access list holds back. Its id is for people only.
	Super = "super"
)

// Anyone is World's only id.
const Anyone = "anyone"

// Principal is who a node has found a client to be.
type Principal struct{ Scheme, ID string }

func (p Principal) String() string { return p.Scheme + ":" + p.ID }

// Grant gives permissions to the principals that it names.
type Grant struct {
	Permissions Permissions
	Scheme, ID  string
}

// ACL is an access list. It is never changed once an entry has it. An empty one grants nothing to anybody; nil stands
// for the list of the nearest entry above that has one (P2).
type ACL []Grant

// Open grants everything to everybody, as the root does at first.
func Open() ACL { return ACL{{Permissions: All, Scheme: World, ID: Anyone}} }

// Grants reports whether a list gives all wanted permissions to the principals together.
func (a ACL) Grants(wanted Permissions, principals []Principal) bool {
	var has Permissions
	for _, g := range a {
		if g.names(principals) {
			has |= g.Permissions
		}
	}
	return has&wanted == wanted || slices.ContainsFunc(principals, func(p Principal) bool { return p.Scheme == Super })
}

// names reports whether a grant is one to any of the principals.
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

// Check returns an error that names the field and the limit, unless the list is one that an entry may have.
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
