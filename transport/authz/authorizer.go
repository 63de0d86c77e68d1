// Package authz authorizes calls on the client port and over HTTP by the roles of their callers, and audits acts of
// operators.
package authz

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"holdfast/auth"
	"holdfast/session"
)

// Mode says how callers are authenticated.
type Mode string

// Modes.
const (
	// None: authentication is off, and every call is permitted.
	None Mode = "none"
	// Tokens accepts bearer tokens, Certificates the names of client certificates, Both either: a token takes
	// precedence.
	Tokens       Mode = "tokens"
	Certificates Mode = "certificates"
	Both         Mode = "both"
)

// Config configures a [Authorizer].
type Config struct {
	Logger hclog.Logger
	Mode   Mode
	// Book returns the present content of the file. It is not called with [None].
	Book func() *auth.Book
	// Table has the permissions that calls need.
	Table auth.Table
	// Audit records acts of operators.
	Audit *Audit
	// Clock is the wall clock for the expiry of names; nil is time.Now.
	Clock func() time.Time
}

// Authorizer decides about each call. Safe for concurrent use.
type Authorizer struct {
	cfg   Config
	stats counters
	// warnings limits the lines about refusals, because any client can cause them.
	warnings rate.Sometimes
}

// Refused is a reason in [Stats].
type Refused uint8

// Reasons.
const (
	// Nameless: the caller showed no token or certificate. Unknown: no name has this token or certificate. Expired: it
	// was valid once. Forbidden: the caller's roles do not permit the call.
	Nameless Refused = iota
	Unknown
	Expired
	Forbidden
	// Reasons is the number of reasons.
	Reasons
)

// String is the reason's name in metrics.
func (r Refused) String() string {
	return [...]string{"no_credentials", "unknown", "expired", "forbidden"}[r]
}

type counters [Reasons]atomic.Uint64

// Stats counts denied calls by reason.
type Stats [Reasons]uint64

// warningInterval is the shortest time between two lines about denied calls.
const warningInterval = time.Second

// New returns an authorizer.
func New(c Config) *Authorizer {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Authorizer{cfg: c, warnings: rate.Sometimes{First: 10, Interval: warningInterval}}
}

// Stats returns the numbers of denied calls.
func (g *Authorizer) Stats() (s Stats) {
	for i := range g.stats {
		s[i] = g.stats[i].Load()
	}
	return s
}

// shown has the credentials of a caller.
type shown struct {
	// bearer are the values of the header; valid callers send at most one.
	bearer []string
	// names are the names of a verified certificate.
	names []string
	from  net.Addr
}

// on reports whether callers are authenticated.
func (g *Authorizer) on() bool { return g.cfg.Mode != None }

// admit returns the identity of a method's caller, with an error unless the caller has permission.
func (g *Authorizer) admit(method string, call auth.Call, s shown) (auth.Identity, error) {
	if !g.on() || call.Open {
		return auth.Identity{}, nil
	}
	id, why := g.identify(s)
	if !id.Known() {
		return auth.Identity{}, g.refuse(method, call, why, id, s.from)
	}
	if !id.Roles.Allow(call.Needs) {
		return id, g.refuse(method, call, Forbidden, id, s.from)
	}
	return id, nil
}

// identify returns the identity for a caller's credentials. If there is a token, it decides, whatever the certificate
// says: a caller with a wrong token does not want to act under another name.
func (g *Authorizer) identify(s shown) (auth.Identity, Refused) {
	now, book := g.cfg.Clock(), g.cfg.Book()
	if g.cfg.Mode != Certificates && len(s.bearer) > 0 {
		token, err := bearerOf(s.bearer)
		if err != nil {
			return auth.Identity{}, Unknown
		}
		id, why := book.Token(token, now)
		return id, reason(why)
	}
	if g.cfg.Mode != Tokens && len(s.names) > 0 {
		id, why := book.Certificate(s.names, now)
		return id, reason(why)
	}
	return auth.Identity{}, Nameless
}

func reason(r auth.Refusal) Refused {
	if r == auth.Expired {
		return Expired
	}
	return Unknown
}

// still returns an error when a caller who was admitted to a call would not be admitted now.
func (g *Authorizer) still(method string, call auth.Call, was auth.Identity, from net.Addr) error {
	if !was.Known() || call.Open {
		return nil
	}
	id, why := g.cfg.Book().Now(was, g.cfg.Clock())
	switch {
	case why != auth.Accepted:
		return g.refuse(method, call, reason(why), auth.Identity{}, from)
	case !id.Roles.Allow(call.Needs):
		return g.refuse(method, call, Forbidden, id, from)
	default:
		return nil
	}
}

// refuse counts and logs a refusal, and returns it. It hides from the caller of an expired name that the token was once
// valid: a caller without a valid token must not learn that.
func (g *Authorizer) refuse(method string, call auth.Call, why Refused, id auth.Identity, from net.Addr) error {
	g.stats[why].Add(1)
	g.warnings.Do(func() {
		g.cfg.Logger.Warn("call denied", "method", method, "reason", why.String(), "who", id.Name, "from", address(from),
			"needs", call.Needs.String())
	})
	return &session.AccessError{
		Who: id.Name, Has: id.Roles.Names(), Needs: call.Needs.Names(), Shown: why == Unknown || why == Expired,
	}
}

func address(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// call returns the permission that a method needs. No role may call a method without a row: a missing row is a bug, and
// a test checks for it.
func (g *Authorizer) call(method string) auth.Call { return g.cfg.Table[method] }
