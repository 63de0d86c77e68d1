// Package gate decides which opens, resumes, touches and writes a node takes on now. A refusal names a retry time.
package gate

import (
	"errors"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// Config says how many requests a node takes on in a second. 0 is no limit.
type Config struct {
	// Opens, Resumes, Touches and Writes are separate budgets of the node. A touch message of a Connect stream counts
	// once. TouchSessions counts once for each token, but never more than a second's budget. Writes are those of the tree,
	// in calls and on Connect streams.
	Opens, Resumes, Touches, Writes int
	// ArrivalsPerAddress and ArrivalsPerPrincipal are budgets of opens and resumes together, for one address and for
	// one principal; see [Caller].
	ArrivalsPerAddress, ArrivalsPerPrincipal int
}

// Kind is the kind of request that a budget is for.
type Kind uint8

// Kinds.
const (
	Opens Kind = iota
	Resumes
	Touches
	Writes
	// Kinds is how many there are.
	Kinds
)

// String is the kind's name in names of settings and metrics.
func (k Kind) String() string {
	return [...]string{"opens", "resumes", "touches", "writes"}[k]
}

// Scope says whether a budget belongs to the node, to an address or to a principal, or that a request was refused for
// want of room ([Gate.Hold]).
type Scope uint8

// Scopes.
const (
	OfNode Scope = iota
	OfAddress
	OfPrincipal
	OfDisk
	OfMemory
	// Scopes is how many there are.
	Scopes
)

// arrives reports whether requests of a kind also have the budgets of an address and of a principal.
func (k Kind) arrives() bool { return k == Opens || k == Resumes }

// Budget is the name of a budget, which is also the name of its setting. It is empty where there is none: touches and
// writes have no budget of an address or a principal, and what lacks room never refuses touches.
func Budget(k Kind, s Scope) string {
	switch {
	case s == OfNode:
		return "max_" + k.String() + "_per_second"
	case s == OfDisk && (k == Opens || k == Writes):
		return "disk_limit"
	case s == OfMemory && k != Touches:
		return "memory_limit"
	case s == OfDisk, s == OfMemory:
		return ""
	case !k.arrives():
		return ""
	case s == OfAddress:
		return "max_arrivals_per_second_per_address"
	default:
		return "max_arrivals_per_second_per_principal"
	}
}

// Refusals counts requests that a gate refused.
type Refusals [Kinds][Scopes]uint64

// Caller identifies the client that makes a request.
type Caller struct {
	// Address is the peer's IPv4 address, or the /64 of its IPv6 address: a client with one address of a /64 usually
	// has all of them. The zero value stands for peers without an IP address.
	Address netip.Addr
	// Principal is the name of the client. Clients without a name share one budget.
	Principal string
	// Verified says that the name comes from a verified TLS certificate. A verified name and the same name unverified
	// are two principals.
	Verified bool
}

type principal struct {
	name     string
	verified bool
}

// Gate admits or refuses every open, resume, touch and write before the node does anything else for it: a refusal costs
// neither the leader nor the log anything. Its budgets are separate, so that no herd of one kind of request starves
// another kind: live sessions stay alive while others come back or write, and existing sessions come back while new
// ones are opened. Safe for concurrent use.
type Gate struct {
	base       time.Time
	rates      [Kinds]int
	node       [Kinds]bucket
	addresses  *keyedBuckets[netip.Addr]
	principals *keyedBuckets[principal]
	refusals   [Kinds][Scopes]atomic.Uint64
	// held says why all requests of a kind are refused; nil while they are not.
	held [Kinds]atomic.Pointer[Hold]
}

// Hold says why a node refuses all requests of a kind, whatever their budgets have.
type Hold struct {
	// Scope is OfDisk or OfMemory.
	Scope Scope
	// Limit is the limit that was reached, in words.
	Limit string
}

// holdHint is the retry time of a request that a hold refuses: nobody knows when there is room. A refusal costs little.
const holdHint = 2 * time.Second

// Hold refuses all requests of a kind from now on; nil admits them again. Touches are never held: sessions live by
// them, and they add nothing to a disk or to the state.
func (g *Gate) Hold(k Kind, h *Hold) {
	if k != Touches {
		g.held[k].Store(h)
	}
}

// Held refuses a request of a kind that [Gate.Hold] refuses now, and returns nil for other kinds. [Gate.Admit] asks it
// first. Its refusals last until there is room, while those of a budget pass in a moment.
func (g *Gate) Held(k Kind) error {
	h := g.held[k].Load()
	if h == nil {
		return nil
	}
	g.refusals[k][h.Scope].Add(1)
	return &session.LimitError{Name: Budget(k, h.Scope), Limit: h.Limit, RetryAfter: holdHint}
}

// New returns a gate whose budgets are full.
func New(c Config) *Gate {
	g := &Gate{
		base: time.Now(), rates: [Kinds]int{
			Opens: c.Opens, Resumes: c.Resumes, Touches: c.Touches, Writes: c.Writes,
		},
		addresses:  newKeyedBuckets[netip.Addr](c.ArrivalsPerAddress, maxShares),
		principals: newKeyedBuckets[principal](c.ArrivalsPerPrincipal, maxShares),
	}
	for k := range Kinds {
		g.node[k].limit(g.rates[k])
	}
	return g
}

// Admit takes n requests of a kind that come at now out of their budgets, or refuses them with a [session.LimitError]
// that names the budget and the retry time. A refused request has no reservation; requests of a connection have one,
// see [Reservations].
func (g *Gate) Admit(now time.Time, k Kind, n int, v Caller) error {
	if err := g.Held(k); err != nil {
		return err
	}
	at := int64(now.Sub(g.base))
	if b, s := g.take(at, k, n, v); b != nil {
		return g.refused(k, s, b.refuse(at, n)-at)
	}
	return nil
}

// take takes n requests out of their budgets. When a budget has too little, it takes nothing and returns that budget
// with its scope.
func (g *Gate) take(at int64, k Kind, n int, v Caller) (*bucket, Scope) {
	var address, name *bucket
	if k.arrives() && g.addresses != nil {
		if address = g.addresses.bucket(at, v.Address); !address.take(at, n) {
			return address, OfAddress
		}
	}
	if k.arrives() && g.principals != nil {
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

// Unserved returns what Admit took for n requests if err, their outcome, says that they went no further than this node:
// [session.ErrNoLeader] and [session.ErrReadOnly] cost no more than a refusal. Without it, clients that look for a
// leader would use up the budget, and would have to wait for it when there is a leader again.
func (g *Gate) Unserved(now time.Time, k Kind, n int, v Caller, err error) {
	if errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrReadOnly) {
		g.giveBack(now, k, n, v)
	}
}

// giveBack returns the tokens of n requests.
func (g *Gate) giveBack(now time.Time, k Kind, n int, v Caller) {
	at := int64(now.Sub(g.base))
	if k.arrives() && g.addresses != nil {
		giveBack(n, g.addresses.bucket(at, v.Address))
	}
	if k.arrives() && g.principals != nil {
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

// rate returns the size of a budget that has refused a request.
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
