package words

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/session"
)

// Client is the client of a session, as far as the session's node knows it.
type Client struct {
	Address, Protocol string
	// Name is empty for none. Without Verified it is the client's own claim.
	Name       string
	Verified   bool
	Principals []string
	Since      time.Time
	// Sessions and Watches are the numbers of those on its connection.
	Sessions, Watches uint64
}

// Served describes the client of a session, and where it is.
func Served(c *Client) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Its client is connected from %s since %s, protocol %s", c.Address, Moment(c.Since.UTC()),
		c.Protocol)
	switch {
	case c.Verified:
		fmt.Fprintf(&b, ", name %q", c.Name)
	case c.Name != "":
		fmt.Fprintf(&b, ", name %q (unverified)", c.Name)
	}
	if len(c.Principals) > 0 {
		fmt.Fprintf(&b, ", principals %s", strings.Join(c.Principals, ", "))
	}
	fmt.Fprintf(&b, ". The connection has %s and %s.", many(c.Sessions, "session"), many(c.Watches, "watch"))
	return b.String()
}

// Unserved explains why the client of a session is unknown.
func Unserved(owner session.Node, why error) string {
	if errors.Is(why, session.ErrNoConnection) {
		return fmt.Sprintf("No connection on node %d serves it: its client is disconnected, or makes single calls.", owner)
	}
	return fmt.Sprintf("Only node %d knows its client, and that node gave an error: %v.", owner, why)
}

// many formats a count.
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
