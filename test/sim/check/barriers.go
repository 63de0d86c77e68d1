package check

import (
	"slices"
	"time"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// down is a time during which a barrier was lowered: the stamps of its removal, 0 for the start of the run, and of its
// next creation, 0 for none.
type down struct{ from, till tree.Stamp }

// downs returns the times without the entry: before, between and after its stays.
func downs(stays []stay) (all []down) {
	var from tree.Stamp
	for _, s := range stays {
		all = append(all, down{from, s.made})
		if from = s.gone; from == 0 {
			return all
		}
	}
	return append(all, down{from, 0})
}

// began and ended return when nodes first applied the two.
func (c uses) began(stamp tree.Stamp) time.Duration { return c.times[stamp.Index()].at }

func (c uses) ended(stamp tree.Stamp) time.Duration {
	if stamp == 0 {
		return forever
	}
	return c.began(stamp)
}

// barrier checks a barrier against the log: it is raised, or lowered, at some moment of the call that did it. A waiter
// has seen it lowered, after all earlier calls of its own session; and its wait ends soon after the barrier is lowered
// for good.
func (c uses) barrier(path string, used map[string][]history.Event) {
	stays := c.past.stays(path)
	for _, e := range used[Raise] {
		if e.Text != "" {
			continue
		}
		c.checked("barrier raise")
		if !slices.ContainsFunc(stays, func(s stay) bool { return c.began(s.made) <= e.At && c.ended(s.gone) >= e.Sent }) {
			c.misled(e, "barrier", "the log has not raised it")
		}
	}
	for _, e := range used[Lower] {
		if e.Text != "" {
			continue
		}
		c.checked("barrier lower")
		if !slices.ContainsFunc(downs(stays), func(d down) bool {
			return c.began(d.from) <= e.At && c.ended(d.till) >= e.Sent
		}) {
			c.misled(e, "barrier", "the log has not lowered it")
		}
	}
	for _, e := range used[Wait] {
		c.waited(e, stays, used[Raise])
		c.letGo(e, stays)
	}
}

// waited checks that a client that was let go may have seen the barrier lowered.
func (c uses) waited(e history.Event, stays []stay, raises []history.Event) {
	if e.Text != "" {
		return
	}
	c.checked("barrier wait")
	var seen tree.Stamp // the barrier that its own session last raised, or found raised
	for _, r := range raises {
		if r.ID != e.ID || r.Text != "" || r.At > e.Sent {
			continue
		}
		if n := slices.IndexFunc(stays, func(s stay) bool {
			return c.began(s.made) <= r.At && c.ended(s.gone) >= r.Sent
		}); n >= 0 {
			seen = max(seen, stays[n].made)
		}
	}
	if seen != 0 {
		c.checked("barrier own")
	}
	if !slices.ContainsFunc(downs(stays), func(d down) bool {
		return c.began(d.from) <= e.At && (d.till == 0 || d.till > seen)
	}) {
		c.misled(e, "barrier", "let go, and it was not lowered since %v", seen)
	}
}

// letGo checks that a waiting client soon learns of the lowering, if nothing disturbs the cluster and the client, and
// the barrier stays lowered.
func (c uses) letGo(e history.Event, stays []stay) {
	for _, d := range downs(stays) {
		lowered := c.began(d.from)
		by := lowered + c.bounds.Commit
		if d.from == 0 || lowered < e.Sent || e.At < lowered || c.ended(d.till) <= by || !c.calm(lowered, by) ||
			c.wasFrozen(e.Who, lowered, by) {
			continue
		}
		c.checked("barrier received")
		if e.At > by {
			c.misled(e, "barrier", "it was lowered at %.4fs, and the client waited on", lowered.Seconds())
		}
	}
}

// doubleBarrier checks a double barrier against the log: a client that has entered was inside at one moment together
// with the required number, and a client that has left did so when all of them had gone.
func (c uses) doubleBarrier(path string, used map[string][]history.Event) {
	if len(used[Enter]) == 0 {
		return
	}
	above := tree.Join(path, "inside")
	members := c.past.staysBelow(above)
	for _, e := range used[Enter] {
		if e.Text != "" {
			continue
		}
		c.checked("double barrier enter")
		round := c.round(above, e.Use.Data, members)
		switch own, ok := inside(round.members, e.Use.Data); {
		case !ok || own.first.Stat.Owner != uint64(e.ID):
			c.misled(e, "double barrier", "was not inside when all had entered")
		case int64(len(round.members)) != e.Use.Number:
			c.misled(e, "double barrier", "%d were inside when all had entered: %v", len(round.members), round.members)
		case c.began(round.full) > e.At:
			c.misled(e, "double barrier", "let in before all had entered, at %.4fs", c.began(round.full).Seconds())
		}
	}
	for _, e := range used[Leave] {
		if e.Text != "" {
			continue
		}
		c.checked("double barrier leave")
		for _, m := range c.round(above, e.Use.Data, members).members {
			if c.ended(m.gone) > e.At {
				c.misled(e, "double barrier", "left before %s, who was inside until %v", m.datas[0], m.gone)
			}
		}
	}
}

// round is a use of a double barrier: when all had entered, and who was inside then.
type round struct {
	full    tree.Stamp
	members []stay
}

// round returns that in which the entry with the data is a member; none if it never was complete.
func (c uses) round(above, data string, members []stay) (r round) {
	own, ok := inside(members, data)
	if !ok {
		return r
	}
	r.full = c.filled(above, own.made)
	for _, m := range members {
		if r.full != 0 && m.made <= r.full && (m.gone == 0 || m.gone > r.full) {
			r.members = append(r.members, m)
		}
	}
	return r
}

// filled returns when all had entered with the member that came at a stamp; 0 for never.
func (c uses) filled(above string, came tree.Stamp) tree.Stamp {
	var began tree.Stamp // when the entry above the member was made
	for _, v := range c.past.paths[above] {
		if v.node != nil && v.from <= came {
			began = v.node.Stat.Created
		}
	}
	for _, v := range c.past.paths[above] {
		if v.node != nil && v.node.Stat.Created == began && v.node.Stat.Version > 0 {
			return v.from
		}
	}
	return 0
}

// inside returns the stay of the entry that was made with the data.
func inside(all []stay, data string) (stay, bool) {
	n := slices.IndexFunc(all, func(s stay) bool { return s.datas[0] == data })
	if n < 0 {
		return stay{}, false
	}
	return all[n], true
}
