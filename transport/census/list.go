package census

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Query selects connections for a list.
type Query struct {
	// Limit is the largest number of connections, 1 or more.
	Limit int
	// Session, if not 0, selects the connection that serves it.
	Session session.ID
	// Principal, if not empty, selects the connections whose caller's name, or one of whose principals as
	// [tree.Principal.Shown] shows them, contains it.
	Principal string
	// Sessions is the largest number of session ids for each connection.
	Sessions int
}

// Connection describes a connection.
type Connection struct {
	Address  string
	Protocol Protocol
	Caller
	Since time.Time
	Load
	// Some are ids of its sessions, in order.
	Some     []session.ID
	Requests uint64
	// Rate is the requests per second, over the time Over until now.
	Rate float64
	Over time.Duration
}

// ranked is a connection with its sort keys.
type ranked struct {
	*Entry
	requests uint64
	rate     float64
	over     time.Duration
}

// compare puts the busier connection first: by rate, then by number of requests, then by age.
func compare(a, b ranked) int {
	return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(b.requests, a.requests), a.since.Compare(b.since))
}

// busiest keeps the limit busiest of the added connections.
type busiest struct {
	limit int
	// all has up to twice limit connections. Once dropped is set, the first limit of them are the busiest of all
	// earlier ones, in order.
	all     []ranked
	dropped bool
}

func (b *busiest) add(one ranked) {
	if b.dropped && compare(one, b.all[b.limit-1]) > 0 {
		return // limit connections are busier
	}
	if b.all = append(b.all, one); len(b.all) == 2*b.limit {
		b.sort()
	}
}

// sort sorts the connections, and drops those beyond limit.
func (b *busiest) sort() []ranked {
	slices.SortFunc(b.all, compare)
	if len(b.all) > b.limit {
		b.all, b.dropped = b.all[:b.limit], true
	}
	return b.all
}

// List returns the busiest matching connections, and the number of all matching ones. The first query after a while
// starts the sampling for rates: until there are samples, a rate covers the life of its connection.
func (c *Census) List(q Query) (found []Connection, total int) {
	top, total := c.top(q)
	found = make([]Connection, len(top))
	for i, r := range top {
		found[i] = Connection{
			Protocol: r.protocol, Caller: r.source.Caller(), Since: r.since, Load: r.source.Load(),
			Requests: r.requests, Rate: r.rate, Over: r.over,
		}
		if q.Sessions > 0 {
			found[i].Some = r.source.Sessions(q.Sessions)
			slices.Sort(found[i].Some)
		}
		if r.address != nil {
			found[i].Address = r.address.String()
		}
	}
	return found, total
}

func (c *Census) top(q Query) (top []ranked, total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	begins := c.interest(now)
	selected := busiest{limit: q.Limit}
	c.each(func(e *Entry) {
		requests := e.source.Requests()
		if begins {
			e.note(now, requests)
		}
		if !q.matches(e.source) {
			return
		}
		total++
		rate, over := e.rate(now, requests)
		selected.add(ranked{e, requests, rate, over})
	})
	return selected.sort(), total
}

func (q *Query) matches(s Source) bool {
	if q.Session != 0 && !s.Serves(q.Session) {
		return false
	}
	if q.Principal == "" {
		return true
	}
	who := s.Caller()
	return strings.Contains(who.Name, q.Principal) || slices.ContainsFunc(who.Principals, func(p tree.Principal) bool {
		return strings.Contains(p.Shown(), q.Principal)
	})
}
