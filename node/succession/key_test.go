package succession

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key names a world completely.
func (w *world) key() string {
	b := make([]byte, 0, 512)
	num := func(all ...int64) {
		for _, n := range all {
			b = append(strconv.AppendInt(b, n, 36), ' ')
		}
	}
	yes := func(all ...bool) {
		for _, is := range all {
			b = strconv.AppendBool(b, is)[:len(b)+1] // t or f
		}
	}
	since := func(t time.Time) int64 {
		if t.IsZero() {
			return -1 << 40
		}
		return int64(max(t.Sub(w.time()), -2*time.Second))
	}
	num(int64(w.now), int64(w.frozenAt))
	yes(w.lives, w.frozen)
	for i := range w.nodes {
		v := &w.nodes[i]
		num(int64(v.term), int64(v.leader), int64(v.links.Open), int64(v.links.Opened), since(v.wake), int64(v.heard))
		yes(v.follows, v.links.Lost, v.cut, v.paused, v.behind, v.machine != nil)
		if m := v.machine; m != nil {
			num(since(m.awake), since(m.next), since(m.known), int64(m.term), int64(m.leader), int64(m.bond.to),
				since(m.bond.until))
			yes(m.follows, m.leaderOfTerm)
			num(int64(m.sight.of), int64(m.sight.view), since(m.sight.since), since(m.sight.again), int64(m.sight.wait),
				int64(m.sight.opened), int64(m.sight.evidence))
			num(int64(m.run.phase), since(m.run.began), since(m.run.next), int64(m.run.retry))
			for _, n := range slices.Sorted(maps.Keys(m.run.backed)) {
				num(int64(n), since(m.run.backed[n]))
			}
		}
	}
	return string(b) + w.underWay() + fmt.Sprint(w.faults)
}

// underWay names what is under way, in an order of its own.
func (w *world) underWay() string {
	var all []string
	for _, l := range w.letters {
		m, asked := w.at(l.to).machine, time.Duration(-1)
		if !l.answer {
			m = w.at(l.from).machine
		}
		if m != nil && len(m.run.canvassedAt) > 0 {
			if ago := m.run.newest - l.number; l.number <= m.run.newest && ago < uint64(len(m.run.canvassedAt)) {
				asked = m.run.canvassedAt[uint64(len(m.run.canvassedAt))-1-ago].Sub(epoch)
			}
		}
		all = append(all, fmt.Sprint("l", l.from, l.to, asked, l.answer, l.q.Term))
	}
	for _, o := range w.orders {
		all = append(all, fmt.Sprint("o", o.node, o.at, o.Term, o.Opened, o.Evidence))
	}
	for _, o := range w.stood {
		all = append(all, fmt.Sprint("s", o.node, o.Term, max(o.at-w.now, counts-Bond)))
	}
	for _, l := range w.looks {
		m := w.at(l.node).machine
		all = append(all, fmt.Sprint("?", l.node, m != nil && m.sight.number == l.number))
	}
	slices.Sort(all)
	return strings.Join(all, ";")
}
