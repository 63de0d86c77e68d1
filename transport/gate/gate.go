// Package gate decides which opens, resumes and touches a node takes on now. A refusal names a retry time.
package gate

import (
	"errors"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// Config says how much a node takes on in a second. 0 is no limit.
type Config struct {
	// Opens, Resumes and Touches are budgets of the node, apart from each other. Touches of a Connect stream count once
	// a message, those of TouchSessions once a token, but no call as more than a second's budget.
	Opens, Resumes, Touches int
	// ArrivalsPerAddress and ArrivalsPerPrincipal are opens and resumes together of one address, and of one principal;
	// see [Caller].
	ArrivalsPerAddress, ArrivalsPerPrincipal int
}

// Kind is what a budget is for.
type Kind uint8

// Kinds.
const (
	Opens Kind = iota
	Resumes
	Touches
	// Kinds is how many there are.
	Kinds
)

// String is the kind's name in names of settings and metrics.
func (k Kind) String() string {
	return [...]string{"opens", "resumes", "touches"}[k]
}

// Scope is whose budget it is.
type Scope uint8

// Scopes.
const (
	OfNode Scope = iota
	OfAddress
	OfPrincipal
	// Scopes is how many there are.
	Scopes
)

// Budget is the name of a budget, which is that of its setting; empty for one that there is not: touches are not
// counted by address or principal.
func Budget(k Kind, s Scope) string {
	switch {
	case s == OfNode:
		return "max_" + k.String() + "_per_second"
	case k == Touches:
		return ""
	case s == OfAddress:
		return "max_arrivals_per_second_per_address"
	default:
		return "max_arrivals_per_second_per_principal"
	}
}

// Refusals counts requests that a gate refused.
type Refusals [Kinds][Scopes]uint64

// Caller is who asks.
type Caller struct {
	// Address is the peer's IP address, of IPv6 its /64: whoever has one address there has all of them. The zero value
	// is whatever has no such address.
	Address netip.Addr
	// Principal is the name of the client, empty when it has none: all without a name share one budget.
	Principal string
	// Verified: the name is that of a verified TLS certificate, not just what the client says. The same name, verified
	// and not, is two principals.
	Verified bool
}

type principal struct {
	name     string
	verified bool
}

// Gate is what every open, resume and touch of a node passes before anything else is done for it: a refusal costs
// neither the leader nor the log anything. Its budgets are apart, so that no herd of one kind takes the place of
// another: sessions that live are kept alive while others come back, and those that exist come back while new ones are
// opened. Safe for concurrent use.
type Gate struct {
	base       time.Time
	rates      [Kinds]int
	node       [Kinds]bucket
	addresses  *keyedBuckets[netip.Addr]
	principals *keyedBuckets[principal]
	refusals   [Kinds][Scopes]atomic.Uint64
}

// New returns a gate whose budgets are full.
func New(c Config) *Gate {
	g := &Gate{
		base: time.Now(), rates: [Kinds]int{Opens: c.Opens, Resumes: c.Resumes, Touches: c.Touches},
		addresses:  newKeyedBuckets[netip.Addr](c.ArrivalsPerAddress, maxShares),
		principals: newKeyedBuckets[principal](c.ArrivalsPerPrincipal, maxShares),
	}
	for k := range Kinds {
		g.node[k].limit(g.rates[k])
	}
	return g
}

// Admit takes n requests of a kind that come at now out of the budgets they count in, or refuses them with a
// [session.LimitError] that names the budget and says when to come back. They hold no place in the queue of a budget;
// those of a connection do, see [Reservations].
func (g *Gate) Admit(now time.Time, k Kind, n int, v Caller) error {
	at := int64(now.Sub(g.base))
	if b, s := g.take(at, k, n, v); b != nil {
		return g.refused(k, s, b.refuse(at, n)-at)
	}
	return nil
}

// take takes n requests out of the budgets they count in, or returns the one that has too little, and whose it is.
func (g *Gate) take(at int64, k Kind, n int, v Caller) (*bucket, Scope) {
	var address, name *bucket
	if k != Touches && g.addresses != nil {
		if address = g.addresses.bucket(at, v.Address); !address.take(at, n) {
			return address, OfAddress
		}
	}
	if k != Touches && g.principals != nil {
		if name = g.principals.bucket(at, principal{v.Principal, v.Verified}); !name.take(at, n) {
			giveBack(n, address)
			return name, OfPrincipal
		}
	}
	if own := &g.node[k]; !own.take(at, n) {
		giveBack(n, address, name)
		return own, OfNode
	}
	return nil, OfNode
}

// Unserved returns what Admit took for n requests, if err, their outcome, says that they went no further than this
// node: [session.ErrNoLeader] and [session.ErrReadOnly] cost no more than a refusal. Otherwise clients that look for a
// leader would use up, and queue for, a budget that nobody is served from, and have to wait for that when there is a
// leader again.
func (g *Gate) Unserved(now time.Time, k Kind, n int, v Caller, err error) {
	if errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrReadOnly) {
		g.giveBack(now, k, n, v)
	}
}

// giveBack returns what n requests took that went no further than this node.
func (g *Gate) giveBack(now time.Time, k Kind, n int, v Caller) {
	at := int64(now.Sub(g.base))
	if g.addresses != nil {
		giveBack(n, g.addresses.bucket(at, v.Address))
	}
	if g.principals != nil {
		giveBack(n, g.principals.bucket(at, principal{v.Principal, v.Verified}))
	}
	giveBack(n, &g.node[k])
}

func giveBack(n int, buckets ...*bucket) {
	for _, b := range buckets {
		if b != nil {
			b.giveBack(n)
		}
	}
}

// refused counts a refusal, and returns it.
func (g *Gate) refused(k Kind, s Scope, wait int64) error {
	g.refusals[k][s].Add(1)
	rate, retryAfter := g.rate(k, s), max(time.Duration(wait), leastHint)
	return &session.LimitError{Name: Budget(k, s), Limit: strconv.Itoa(rate) + " per second", RetryAfter: retryAfter}
}

// rate returns the size of a budget that refuses.
func (g *Gate) rate(k Kind, s Scope) int {
	if s == OfAddress {
		return g.addresses.rate
	}
	if s == OfPrincipal {
		return g.principals.rate
	}
	return g.rates[k]
}

// Refused returns how many requests were refused.
func (g *Gate) Refused() (r Refusals) {
	for k := range g.refusals {
		for s := range g.refusals[k] {
			r[k][s] = g.refusals[k][s].Load()
		}
	}
	return r
}
