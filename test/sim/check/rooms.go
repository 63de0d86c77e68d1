package check

import (
	"slices"
	"strings"

	"holdfast/test/sim/history"
)

// rooms judges what happens at a bound that one client has reached.
type rooms struct{ judge }

// check checks three things. Who is refused is told which bound it is, and its value. Others, who hold little, are
// served in time while one client holds all that it can, unless a request needs room of the same kind. And soon after
// the client has given everything back there is room again.
func (c rooms) check() {
	var full *history.Event
	for i, e := range c.rooms {
		switch e.Kind { //nolint:exhaustive // the other kinds are not about rooms
		case history.Filled:
			full = &c.rooms[i]
			c.named(e)
		case history.Emptied:
			full = nil
			c.again(e, c.rooms[i+1:])
		case history.Unasked:
			c.lost(e)
		case history.Probed:
			if full != nil && full.At <= e.Asked {
				c.goesOn(*full, e)
			}
		}
	}
}

// named checks the words of a refusal.
func (c rooms) named(e history.Event) {
	if e.Room.Limit == "" { // nobody is refused
		return
	}
	c.checked("bound named")
	c.checked("bound named: " + e.Room.Name)
	if !strings.Contains(e.Text, e.Room.Name) || !strings.Contains(e.Text, e.Room.Limit) {
		c.misled(e, "bound named", "refused, and not told the bound or its value")
	}
}

// goesOn checks a request of a client that holds little.
func (c rooms) goesOn(full, e history.Event) {
	if !c.calm(e.Asked, e.At) || slices.Contains(full.Room.Closed, e.Op) {
		return
	}
	c.checked("bound goes on")
	c.checked("bound goes on: " + full.Room.Name)
	if e.Text != "" || e.At-e.Asked > c.bounds.Probe {
		c.misled(e, "bound goes on", "not served within %v while %s holds all that it can of %s", c.bounds.Probe, full.Who,
			full.Room.Name)
	}
}

// lost checks that a client has lost its session to a fault alone.
func (c rooms) lost(e history.Event) {
	if len(c.disturbed) == 0 {
		c.misled(e, "bound empties", "%s has lost its session, and no fault was at work", e.Who)
	}
}

// again checks that there is room once everything is given back. After a fault that takes until the cluster serves
// again. A client that loses its session before has not asked, which shows nothing.
func (c rooms) again(e history.Event, later []history.Event) {
	by := e.At + e.Room.Within
	if !c.calm(e.At, by) {
		by = behind(max(e.At, c.healed), c.bounds.Settle+e.Room.Within)
	}
	if by > c.finished {
		return
	}
	asked := slices.IndexFunc(later, func(o history.Event) bool {
		return (o.Kind == history.Roomy || o.Kind == history.Unasked) && o.Room.Name == e.Room.Name && o.Who == e.Who
	})
	inTime := asked >= 0 && later[asked].At <= by
	if inTime && later[asked].Kind == history.Unasked {
		return
	}
	c.checked("bound empties")
	c.checked("bound empties: " + e.Room.Name)
	if !inTime {
		c.fail("bound empties", 0, by, "no room again within %v: %s", by-e.At, history.Line(e))
	}
}
