// Package ratelimit decides which opens, resumes, touches and writes a node accepts now. A refusal names a retry time.
package ratelimit

import (
	"errors"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// Config sets how many requests a node accepts per second. 0 is no limit.
type Config struct {
	// Opens, Resumes, Touches and Writes are separate rate limits of the node. A touch message of a Connect stream counts
	// once. TouchSessions counts once for each token, but at most as many times as the limit has tokens per second. Writes
	// are writes of the tree, in calls and on Connect streams.
	Opens, Resumes, Touches, Writes int
	// OpensAndResumesPerAddress and OpensAndResumesPerClient are rate limits of opens and resumes together, for one
	// address and for one client; see [Caller].
	OpensAndResumesPerAddress, OpensAndResumesPerClient int
}

// Kind is the kind of requests of a rate limit.
type Kind uint8

// Kinds.
const (
	Opens Kind = iota
	Resumes
	Touches
	Writes
	// Kinds is the number of kinds.
	Kinds
)

// String is the kind's name in names of settings and metrics.
func (k Kind) String() string {
	return [...]string{"opens", "resumes", "touches", "writes"}[k]
}

// Scope says whether a rate limit is of the node, of an address or of a client, or that a request was refused
// because disk or memory is short ([Limiter.Hold]).
type Scope uint8

// Scopes.
const (
	OfNode Scope = iota
	OfAddress
	OfClient
	OfDisk
	OfMemory
	// Scopes is the number of scopes.
	Scopes
)

// arrives reports whether requests of a kind also have the rate limits of an address and of a client.
func (k Kind) arrives() bool { return k == Opens || k == Resumes }

// LimitName returns the name of a limit, which is also the name of its setting; empty where there is none. Touches and
// writes have no rate limit of an address or a client, and short disk or memory never refuses touches.
func LimitName(k Kind, s Scope) string {
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
		return "max_opens_and_resumes_per_second_per_address"
	default:
		return "max_opens_and_resumes_per_second_per_client"
	}
}

// Refusals counts requests that a limiter refused.
type Refusals [Kinds][Scopes]uint64

// Caller identifies the client that makes a request.
type Caller struct {
	// Address is the peer's IPv4 address, or the /64 of its IPv6 address: a client with one address of a /64 usually
	// has all of them. The zero value means peers without an IP address.
	Address netip.Addr
	// Name is the name of the client. Clients without a name share one rate limit.
	Name string
	// Verified says that the name comes from a verified TLS certificate. A verified name and the same unverified name
	// are two clients.
	Verified bool
}

type clientKey struct {
	name     string
	verified bool
}

// Limiter admits or refuses every open, resume, touch and write before the node does any other work for it: a refusal
// costs neither the leader nor the log anything. The rate limits are separate, so that a herd of one kind of request
// starves no other kind: live sessions stay alive while others come back or write, and existing sessions come back
// while new ones are opened. Safe for concurrent use.
type Limiter struct {
	base      time.Time
	rates     [Kinds]int
	node      [Kinds]bucket
	addresses *keyedBuckets[netip.Addr]
	clients   *keyedBuckets[clientKey]
	refusals  [Kinds][Scopes]atomic.Uint64
	// held says why all requests of a kind are refused; nil while they are not.
	held [Kinds]atomic.Pointer[Hold]
}

// Hold is the reason why a node refuses all requests of a kind, whatever their rate limits.
type Hold struct {
	// Scope is OfDisk or OfMemory.
	Scope Scope
	// Limit is the reached limit, in words.
	Limit string
}

// holdHint is the retry time of a request that a hold refuses: the end of a hold is unknown, and a refusal costs
// little.
const holdHint = 2 * time.Second

// Hold refuses all requests of a kind; nil admits them again. Touches are never held: sessions depend on them, and they
// add nothing to a disk or to the state.
func (g *Limiter) Hold(k Kind, h *Hold) {
	if k != Touches {
		g.held[k].Store(h)
	}
}

// Held refuses a request of a kind that [Limiter.Hold] refuses now, and returns nil for other kinds. [Limiter.Admit]
// calls it first. A hold lasts until disk or memory is free; refusals by a rate limit last a moment.
func (g *Limiter) Held(k Kind) error {
	h := g.held[k].Load()
	if h == nil {
		return nil
	}
	g.refusals[k][h.Scope].Add(1)
	return &session.LimitError{Name: LimitName(k, h.Scope), Limit: h.Limit, RetryAfter: holdHint}
}

// New returns a limiter with full buckets.
func New(c Config) *Limiter {
	g := &Limiter{
		base: time.Now(), rates: [Kinds]int{
			Opens: c.Opens, Resumes: c.Resumes, Touches: c.Touches, Writes: c.Writes,
		},
		addresses: newKeyedBuckets[netip.Addr](c.OpensAndResumesPerAddress, maxShares),
		clients:   newKeyedBuckets[clientKey](c.OpensAndResumesPerClient, maxShares),
	}
	for k := range Kinds {
		g.node[k].limit(g.rates[k])
	}
	return g
}

// Admit takes n requests of a kind that come at now out of their buckets, or refuses them with a [session.LimitError]
// that names the rate limit and the retry time. A refused request has no reservation; requests of a connection have
// one, see [Reservations].
func (g *Limiter) Admit(now time.Time, k Kind, n int, v Caller) error {
	if err := g.Held(k); err != nil {
		return err
	}
	at := int64(now.Sub(g.base))
	if b, s := g.take(at, k, n, v); b != nil {
		return g.refused(k, s, b.refuse(at, n)-at)
	}
	return nil
}

// take takes n requests out of their buckets. When a bucket has too few tokens, take takes nothing and returns that
// bucket with its scope.
func (g *Limiter) take(at int64, k Kind, n int, v Caller) (*bucket, Scope) {
	var address, name *bucket
	if k.arrives() && g.addresses != nil {
		if address = g.addresses.bucket(at, v.Address); !address.take(at, n) {
			return address, OfAddress
		}
	}
	if k.arrives() && g.clients != nil {
		if name = g.clients.bucket(at, clientKey{v.Name, v.Verified}); !name.take(at, n) {
			refundAll(n, address)
			return name, OfClient
		}
	}
	if own := &g.node[k]; !own.take(at, n) {
		refundAll(n, address, name)
		return own, OfNode
	}
	return nil, OfNode
}

// Unserved returns the tokens of n admitted requests if err, their outcome, says that the requests stayed at this node:
// [session.ErrNoLeader] and [session.ErrReadOnly] cost no more than a refusal. Otherwise clients that search for a
// leader would use up the tokens, and would wait for new ones when there is a leader again.
func (g *Limiter) Unserved(now time.Time, k Kind, n int, v Caller, err error) {
	if errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrReadOnly) {
		g.refund(now, k, n, v)
	}
}

// refund returns the tokens of n requests.
func (g *Limiter) refund(now time.Time, k Kind, n int, v Caller) {
	at := int64(now.Sub(g.base))
	if k.arrives() && g.addresses != nil {
		refundAll(n, g.addresses.bucket(at, v.Address))
	}
	if k.arrives() && g.clients != nil {
		refundAll(n, g.clients.bucket(at, clientKey{v.Name, v.Verified}))
	}
	refundAll(n, &g.node[k])
}

func refundAll(n int, buckets ...*bucket) {
	for _, b := range buckets {
		if b != nil {
			b.refund(n)
		}
	}
}

// refused counts a refusal, and returns it.
func (g *Limiter) refused(k Kind, s Scope, wait int64) error {
	g.refusals[k][s].Add(1)
	rate, retryAfter := g.rate(k, s), max(time.Duration(wait), minRetry)
	return &session.LimitError{Name: LimitName(k, s), Limit: strconv.Itoa(rate) + " per second", RetryAfter: retryAfter}
}

// rate returns the rate of a limit that has refused a request.
func (g *Limiter) rate(k Kind, s Scope) int {
	if s == OfAddress {
		return g.addresses.rate
	}
	if s == OfClient {
		return g.clients.rate
	}
	return g.rates[k]
}

// Refused returns the numbers of refused requests.
func (g *Limiter) Refused() (r Refusals) {
	for k := range g.refusals {
		for s := range g.refusals[k] {
			r[k][s] = g.refusals[k][s].Load()
		}
	}
	return r
}
