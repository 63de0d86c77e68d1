// Package auth decides who may do what: roles, bearer tokens, names of certificates, the file that lists them, and the
// table of the roles that each call needs. It knows no network. docs/operations/security.md describes it for operators.
package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Roles are a set of roles. Its zero value has none.
type Roles uint8

// The roles. They are separate: only Admin includes the others, and Operator includes Reader.
const (
	// Client opens, resumes and closes its own sessions, and uses the tree as far as access lists allow.
	Client Roles = 1 << iota
	// Reader lists and watches sessions, and reads metrics.
	Reader
	// Operator runs the cluster from day to day.
	Operator
	// Admin may do everything: it also changes members, and takes backups, which hold all data and the password hashes
	// of access lists.
	Admin
)

// AnyRole are all roles, for calls of every known caller.
const AnyRole = Client | Reader | Operator | Admin

// roleNames are the names of the roles, in the order of their bits.
func roleNames() [4]string { return [...]string{"client", "reader", "operator", "admin"} }

// implied returns the set with the roles that its roles include.
func (r Roles) implied() Roles {
	if r&Admin != 0 {
		r |= AnyRole
	}
	if r&Operator != 0 {
		r |= Reader
	}
	return r
}

// Allow reports whether the set has a role of need, or a role that includes it.
func (r Roles) Allow(need Roles) bool { return r.implied()&need != 0 }

// Names returns the names of the roles in the set.
func (r Roles) Names() []string {
	var names []string
	for i, name := range roleNames() {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String lists the roles as a sentence does: "client", "client or reader", "no role".
func (r Roles) String() string {
	names := r.Names()
	switch last := len(names) - 1; last {
	case -1:
		return "no role"
	case 0:
		return names[0]
	default:
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
}

// ParseRoles reads 1 to 4 names of roles, each once.
func ParseRoles(names []string) (Roles, error) {
	var all Roles
	known := roleNames()
	for _, name := range names {
		i := slices.Index(known[:], name)
		if i < 0 {
			return 0, fmt.Errorf("role %q: must be client, reader, operator or admin", name)
		}
		if all&(1<<i) != 0 {
			return 0, fmt.Errorf("role %q is given twice", name)
		}
		all |= 1 << i
	}
	if all == 0 {
		return 0, fmt.Errorf("no role: give one or more of client, reader, operator and admin")
	}
	return all, nil
}
