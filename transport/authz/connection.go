package authz

import (
	"net"

	"holdfast/auth"
)

// Caller is the client at the other end of a connection whose protocol has no named calls, such as ZooKeeper's. Safe
// for concurrent use.
type Caller struct {
	authorizer *Authorizer
	what       string
	needs      auth.Call
	id         auth.Identity
	from       net.Addr
}

// Connection returns the caller with a verified certificate of these names, with an error unless the caller has one of
// the roles of need. what names the request in the log. Tokens are not supported.
func (g *Authorizer) Connection(what string, need auth.Roles, names []string, from net.Addr) (*Caller, error) {
	c := &Caller{authorizer: g, what: what, needs: auth.Call{Needs: need}, from: from}
	var err error
	c.id, err = g.admit(what, c.needs, shown{names: names, from: from})
	return c, err
}

// Name is the caller's verified name; empty where authentication is off.
func (c *Caller) Name() string { return c.id.Name }

// Still returns an error when the caller would not be admitted now: the names and roles in the file may have changed.
func (c *Caller) Still() error { return c.authorizer.still(c.what, c.needs, c.id, c.from) }
