package words

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/session"
)

// Client is the client of a session, as the node that serves the session knows it.
type Client struct {
	Address, Protocol string
	// Name is empty for none. Without Verified the client says so itself.
	Name       string
	Verified   bool
	Principals []string
	Since      time.Time
	// Sessions and Watches are those of its connection.
	Sessions, Watches uint64
}

// Served says where the client of a session is, and who it is.
func Served(c *Client) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Its client is connected from %s since %s, by the protocol %s", c.Address, Moment(c.Since.UTC()),
		c.Protocol)
	switch {
	case c.Verified:
		fmt.Fprintf(&b, ", as %q", c.Name)
	case c.Name != "":
		fmt.Fprintf(&b, ", as %q, which nothing proves", c.Name)
	}
	if len(c.Principals) > 0 {
		fmt.Fprintf(&b, ", with the principals %s", strings.Join(c.Principals, ", "))
	}
	fmt.Fprintf(&b, ". The connection has %s and %s.", many(c.Sessions, "session"), many(c.Watches, "watch"))
	return b.String()
}

// Unserved says why nothing is known of the client of a session.
func Unserved(owner session.Node, why error) string {
	if errors.Is(why, session.ErrNoConnection) {
		return fmt.Sprintf("No connection of node %d serves it: its client is away, or makes single calls.", owner)
	}
	return fmt.Sprintf("Where its client is only node %d knows, which does not say it: %v.", owner, why)
}

// many counts things.
func many(n uint64, of string) string {
	switch {
	case n == 1:
		return "1 " + of
	case strings.HasSuffix(of, "ch"):
		return fmt.Sprintf("%d %ses", n, of)
	default:
		return fmt.Sprintf("%d %ss", n, of)
	}
}
