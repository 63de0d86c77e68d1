package check

import (
	"slices"
	"strings"

	"holdfast/test/sim/history"
)

// budgets checks what happens at a bound that one client has reached.
type budgets struct{ judge }

// check checks three things. A refusal names its bound and the bound's value. Clients with few sessions are served in
// time while one client holds all that it can, unless a request uses the same budget. And soon after the client
// has released everything, requests are served again.
func (c budgets) check() {
	var full *history.Event
	for i, e := range c.budgets {
		switch e.Kind { //nolint:exhaustive // the other kinds are not about budgets
		case history.BudgetExhausted:
			full = &c.budgets[i]
			c.named(e)
		case history.BudgetReleased:
			full = nil
			c.again(e, c.budgets[i+1:])
		case history.BudgetAbandoned:
			c.lost(e)
		case history.Probed:
			if full != nil && full.At <= e.Sent {
				c.servesOthers(*full, e)
			}
		}
	}
}

// named checks the text of a refusal.
func (c budgets) named(e history.Event) {
	if e.Budget.Limit == "" { // this bound refuses no client
		return
	}
	c.checked("bound named")
	c.checked("bound named: " + e.Budget.Name)
	if !strings.Contains(e.Text, e.Budget.Name) || !strings.Contains(e.Text, e.Budget.Limit) {
		c.misled(e, "bound named", "refused, without the bound or its value")
	}
}

// servesOthers checks a request of a client that holds little.
func (c budgets) servesOthers(full, e history.Event) {
	if !c.calm(e.Sent, e.At) || slices.Contains(full.Budget.Closed, e.Op) {
		return
	}
	c.checked("bound serves others")
	c.checked("bound serves others: " + full.Budget.Name)
	if e.Text != "" || e.At-e.Sent > c.bounds.Probe {
		c.misled(e, "bound serves others", "not served within %v while %s holds all that it can of %s", c.bounds.Probe,
			full.Who, full.Budget.Name)
	}
}

// lost checks that only a fault cost a client its session.
func (c budgets) lost(e history.Event) {
	if len(c.disturbed) == 0 {
		c.misled(e, "bound empties", "%s has lost its session, and no fault was at work", e.Who)
	}
}

// again checks that requests are served once everything is released. After a fault this may last until the cluster
// serves again. A client that loses its session before has not asked, which shows nothing.
func (c budgets) again(e history.Event, later []history.Event) {
	by := e.At + e.Budget.Within
	if !c.calm(e.At, by) {
		by = behind(max(e.At, c.healed), c.bounds.Recovery+e.Budget.Within)
	}
	if by > c.finished {
		return
	}
	sent := slices.IndexFunc(later, func(o history.Event) bool {
		return (o.Kind == history.BudgetAvailable || o.Kind == history.BudgetAbandoned) &&
			o.Budget.Name == e.Budget.Name && o.Who == e.Who
	})
	inTime := sent >= 0 && later[sent].At <= by
	if inTime && later[sent].Kind == history.BudgetAbandoned {
		return
	}
	c.checked("bound empties")
	c.checked("bound empties: " + e.Budget.Name)
	if !inTime {
		c.fail("bound empties", 0, by, "no budget again within %v: %s", by-e.At, history.Line(e))
	}
}
