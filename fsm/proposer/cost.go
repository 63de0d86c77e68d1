package proposer

import "holdfast/session"

// Costs of applying, including the work of the observers (BenchmarkApplyClose, BenchmarkApplyMove, BenchmarkApplyOpen
// of fsm). The unit is the end of a session, about 1 us. A forgotten request id costs a quarter.
const (
	closeCost  = 1
	moveCost   = 4
	forgetCost = session.MaxForget / 4
)

// costOf returns the cost of applying a command. The cost is a count and no measured time, because the entries of a
// leader must not depend on its speed.
func costOf(c session.Command) int {
	switch c := c.(type) {
	case session.CloseSessions:
		return closeCost * len(c.Sessions)
	case session.ForgetRequests:
		return forgetCost
	default:
		return moveCost * workOf(c)
	}
}

// weightOf returns the work of a command in the tree (U2 weight).
func weightOf(c session.Command) int {
	switch c := c.(type) {
	case session.TreeCommand:
		return c.Weight
	case session.CloseSessions:
		return c.Weight
	default:
		return 1
	}
}

// workOf returns the number of sessions that a command changes.
func workOf(c session.Command) int {
	switch c := c.(type) {
	case session.CloseSessions:
		return len(c.Sessions)
	case session.MoveSessions:
		return len(c.Sessions)
	default:
		return 1
	}
}
