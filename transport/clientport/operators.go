package clientport

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/peer"

	"holdfast/session"
	"holdfast/transport/gate"
)

// Act is one thing that an operator has done, or was refused.
type Act struct {
	// Who is the name of the operator's client, and Verified says that a certificate proves it. It may be empty.
	Who      string
	Verified bool
	// From is the address and port that the call came from.
	From string
	// What was done, such as "kill sessions", and to which things, in words.
	What, To string
	// Outcome is the outcome in words if Err is nil.
	Outcome string
	Err     error
	Took    time.Duration
}

// operators is the one way that every act of an operator goes. Safe for concurrent use.
type operators struct {
	acted func(Act)
}

// newOperators returns the way of acts, of which acted is told; nil writes a line to the log.
func newOperators(acted func(Act), logger hclog.Logger) *operators {
	if acted == nil {
		acted = func(a Act) { a.log(logger) }
	}
	return &operators{acted: acted}
}

// log writes a line about a to the log.
func (a *Act) log(logger hclog.Logger) {
	line := []any{"what", a.What, "to", a.To, "who", a.Who, "verified", a.Verified, "from", a.From, "took", a.Took}
	if a.Err != nil {
		logger.Warn("an operator was refused", append(line, "error", a.Err)...)
		return
	}
	logger.Info("an operator acted", append(line, "outcome", a.Outcome)...)
}

// act does something in an operator's name, and tells of it. do gets the name for the records that are kept, and
// returns the outcome in words.
func (o *operators) act(ctx context.Context, what, to string, do func(by string) (outcome string, err error)) error {
	began := time.Now()
	a := Act{What: what, To: to}
	if p, ok := peer.FromContext(ctx); ok {
		a.From = p.Addr.String()
	}
	caller, err := gate.CallerOf(ctx)
	if err == nil {
		a.Who, a.Verified = caller.Principal, caller.Verified
		a.Outcome, err = do(fit(cmp.Or(a.Who, a.From)))
	}
	a.Err, a.Took = err, time.Since(began)
	o.acted(a)
	return err
}

// fit returns a name as records keep it: at most [session.MaxPrincipal] bytes of UTF-8. A certificate may have any.
func fit(name string) string {
	if len(name) > session.MaxPrincipal {
		name = name[:session.MaxPrincipal]
	}
	return strings.ToValidUTF8(name, "")
}
