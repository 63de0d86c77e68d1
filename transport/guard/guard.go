// Package guard lets calls through that the roles of their callers allow, on the client port and over HTTP, and writes
// down what operators do.
package guard

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
	// None believes everybody.
	None Mode = "none"
	// Tokens takes bearer tokens, Certificates names of client certificates, Both either: a token goes first.
	Tokens       Mode = "tokens"
	Certificates Mode = "certificates"
	Both         Mode = "both"
)

// Config configures a [Guard].
type Config struct {
	Logger hclog.Logger
	Mode   Mode
	// Book returns what the file says now. It is not called with [None].
	Book func() *auth.Book
	// Table says what calls need.
	Table auth.Table
	// Audit writes down what operators do.
	Audit *Audit
	// Clock is the wall clock, by which names expire; nil is time.Now.
	Clock func() time.Time
}

// Guard decides about each call. Safe for concurrent use.
type Guard struct {
	cfg   Config
	stats counters
	// complaints bounds the lines about refusals: a stranger must not fill the log.
	complaints rate.Sometimes
}

// Refused are the reasons of [Stats].
type Refused uint8

// Reasons.
const (
	// Nameless: nothing was shown. Unknown: nobody has what was shown. Expired: it was good once. Forbidden: the caller's
	// roles do not allow the call.
	Nameless Refused = iota
	Unknown
	Expired
	Forbidden
	// Reasons is how many there are.
	Reasons
)

// String is the reason's name in metrics.
func (r Refused) String() string {
	return [...]string{"nothing_shown", "unknown", "expired", "forbidden"}[r]
}

type counters [Reasons]atomic.Uint64

// Stats counts refused calls by reason.
type Stats [Reasons]uint64

// complaintInterval is the least time between two lines about refused callers.
const complaintInterval = time.Second

// New returns a guard.
func New(c Config) *Guard {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Guard{cfg: c, complaints: rate.Sometimes{First: 10, Interval: complaintInterval}}
}

// Stats returns how many calls were refused.
func (g *Guard) Stats() (s Stats) {
	for i := range g.stats {
		s[i] = g.stats[i].Load()
	}
	return s
}

// shown is what a caller showed.
type shown struct {
	// bearer are the values of the header: at most one is right.
	bearer []string
	// names are those of a verified certificate.
	names []string
	from  net.Addr
}

// on reports whether callers are authenticated.
func (g *Guard) on() bool { return g.cfg.Mode != None }

// admit returns who calls a method, with an error unless the caller may.
func (g *Guard) admit(method string, call auth.Call, s shown) (auth.Identity, error) {
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

// identify returns who has what was shown. A token decides when there is one, whatever the certificate says: a caller
// who shows a wrong token does not want to be somebody else.
func (g *Guard) identify(s shown) (auth.Identity, Refused) {
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
func (g *Guard) still(method string, call auth.Call, was auth.Identity, from net.Addr) error {
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

// refuse counts and logs a refusal, and returns it. The caller of an unknown name is told no more than that: whether a
// token was good once is nobody's business who cannot show that it is good now.
func (g *Guard) refuse(method string, call auth.Call, why Refused, id auth.Identity, from net.Addr) error {
	g.stats[why].Add(1)
	g.complaints.Do(func() {
		g.cfg.Logger.Warn("call refused", "method", method, "reason", why.String(), "who", id.Name, "from", address(from),
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

// call returns what a method needs. A method without a row is for nobody: it would be a fault of this program, and a
// test looks for it.
func (g *Guard) call(method string) auth.Call { return g.cfg.Table[method] }
