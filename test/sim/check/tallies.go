package check

import (
	"slices"
	"strconv"
	"strings"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// addition is one step of a counter in the log.
type addition struct {
	sum int64
	at  tree.Stamp
}

// counter checks a counter against the log: each call adds a different number, which identifies the call of each step.
// The call was answered, or its outcome was unknown.
func (c uses) counter(path string, used map[string][]history.Event) {
	if len(used[Add]) == 0 {
		return
	}
	steps, numbers := c.steps(path)
	for _, e := range used[Add] {
		c.added(e, steps[e.Use.Number])
		delete(steps, e.Use.Number)
	}
	for n, did := range steps {
		c.fail("counter", 0, c.times[did[0].at.Index()].at, "the log adds %d, and no call has requested that: %v", n, did)
	}
	for _, e := range used[Read] {
		c.checked("counter read")
		if !numbers[e.Use.Sum] {
			c.misled(e, "counter", "the counter has never been that")
		}
		for _, before := range slices.Concat(used[Add], used[Read]) {
			if before.At < e.Sent && before.Text == "" && before.Use.Sum > e.Use.Sum {
				c.misled(e, "counter", "it has been more: %s", history.Line(before))
				break
			}
		}
	}
}

// added checks one call that adds to a counter, by its steps in the log.
func (c uses) added(e history.Event, did []addition) {
	c.checked("counter add")
	switch {
	case e.Text == "" && (len(did) != 1 || did[0].sum != e.Use.Sum):
		c.misled(e, "counter", "the log has the steps %v", did)
	case len(did) > 1:
		c.misled(e, "counter", "it took effect more than once: %v", did)
	case e.Text != "" && e.Unknown:
		c.checked("counter unknown")
	case e.Text != "" && len(did) > 0:
		c.misled(e, "counter", "it took effect, and its caller could not know: %v", did)
	}
	if len(did) == 1 && c.times[did[0].at.Index()].at < e.Sent {
		c.misled(e, "counter", "it took effect before it was called")
	}
}

// steps returns the additions of a counter, and all its values. The added numbers are positive.
func (c uses) steps(path string) (steps map[int64][]addition, numbers map[int64]bool) {
	steps, numbers = make(map[int64][]addition), map[int64]bool{0: true}
	var sum int64
	for _, v := range c.past.paths[path] {
		if v.node == nil {
			continue
		}
		n, err := strconv.ParseInt(string(v.node.Data), 10, 64)
		if err != nil {
			c.fail("counter", 0, c.times[v.from.Index()].at, "%s is %q at %v", path, v.node.Data, v.from)
			continue
		}
		if n == sum {
			continue // the entry has changed, but not its data
		}
		steps[n-sum] = append(steps[n-sum], addition{n, v.from})
		sum, numbers[n] = n, true
	}
	return steps, numbers
}

// group checks a group against the log: a client that joined is a member until its session ends or it leaves; a view
// shows existing members with their data; it shows no member that had gone before its reader's session started, and no
// member again that it had dropped; long after the last fault it shows exactly the existing members.
func (c uses) group(path string, used map[string][]history.Event) {
	if len(used[Join]) == 0 {
		return
	}
	members := c.past.staysBelow(path)
	for _, e := range slices.Concat(used[Join], used[Set]) {
		if e.Text != "" {
			continue
		}
		c.checked("group joined")
		if !slices.ContainsFunc(members, func(s stay) bool {
			return tree.Name(s.path) == e.Who && s.first.Stat.Owner == uint64(e.ID) && s.said(e.Use.Data) &&
				c.times[s.made.Index()].at <= e.At
		}) {
			c.misled(e, "group", "the log has no such member")
		}
	}
	dropped, shown := make(map[string]map[tree.Stamp]bool), make(map[string]map[tree.Stamp]bool)
	for _, e := range used[View] {
		c.viewed(e, members, dropped, shown)
	}
	for _, e := range used[LastView] {
		c.viewedLast(e, members)
	}
}

// viewedLast checks a view long after the last fault: it shows exactly the members that there are.
func (c uses) viewedLast(e history.Event, members []stay) {
	c.checked("group at last")
	there := make(map[tree.Stamp]bool)
	for _, s := range members {
		there[s.made] = s.gone == 0 || c.times[s.gone.Index()].at > e.At
	}
	for _, m := range e.Use.Members {
		if !there[m.Token] {
			c.misled(e, "group", "%s of %v is no member any more", m.ID, m.Token)
		}
		delete(there, m.Token)
	}
	for token, is := range there {
		if s, _ := find(members, token); is && c.times[token.Index()].at < e.At-c.bounds.Commit {
			c.misled(e, "group", "it lacks %s of %v", s.path, token)
		}
	}
}

// said reports whether a member ever said something of itself.
func (s stay) said(what string) bool {
	return slices.ContainsFunc(s.datas, func(data string) bool { return strings.Contains(data, strconv.Quote(what)) })
}

// viewed checks one reading of a view.
func (c uses) viewed(e history.Event, members []stay, dropped, shown map[string]map[tree.Stamp]bool) {
	c.checked("group view")
	view, now := e.Use.View, make(map[tree.Stamp]bool)
	var began uint64 // when the session of the reader began
	if l := c.lives[e.ID]; l != nil && len(l.applied) > 0 {
		began = l.applied[0].Index
	}
	for _, m := range e.Use.Members {
		now[m.Token] = true
		s, ok := find(members, m.Token)
		switch {
		case !ok || tree.Name(s.path) != m.ID || s.first.Stat.Owner != uint64(m.Session) || !s.said(m.Address):
			c.misled(e, "group", "there was no member %s at %v of %s that said %q", m.ID, m.Token, m.Session, m.Address)
		case dropped[view][m.Token]:
			c.misled(e, "group", "%s of %v is back", m.ID, m.Token)
		case s.gone != 0 && s.gone.Index() < began:
			c.misled(e, "group", "%s of %v had gone at %v, before the reader's session began", m.ID, m.Token, s.gone)
		}
		if s.gone != 0 {
			c.checked("group gone")
		}
	}
	if dropped[view] == nil {
		dropped[view] = make(map[tree.Stamp]bool)
	}
	for token := range shown[view] {
		if !now[token] {
			dropped[view][token] = true
		}
	}
	shown[view] = now
}
