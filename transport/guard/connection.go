package guard

import (
	"net"

	"holdfast/auth"
)

// Caller is the client at the other end of a connection whose protocol has no calls with names, such as ZooKeeper's.
// Safe for concurrent use.
type Caller struct {
	guard *Guard
	what  string
	needs auth.Call
	id    auth.Identity
	from  net.Addr
}

// Connection returns the caller with a verified certificate of these names, with an error unless it has one of the
// roles of need. what names what is asked for, for the log. A token cannot be shown.
func (g *Guard) Connection(what string, need auth.Roles, names []string, from net.Addr) (*Caller, error) {
	c := &Caller{guard: g, what: what, needs: auth.Call{Needs: need}, from: from}
	var err error
	c.id, err = g.admit(what, c.needs, shown{names: names, from: from})
	return c, err
}

// Name is the caller's verified name, empty where callers are not authenticated.
func (c *Caller) Name() string { return c.id.Name }

// Still returns an error when the caller would not be admitted now: the names and roles of the file may have changed.
func (c *Caller) Still() error { return c.guard.still(c.what, c.needs, c.id, c.from) }
