package top

import (
	"math"
	"strings"

	"holdfast/client"
)

// history is how many rates are kept of each kind: more than a wide terminal shows.
const history = 240

// rate is a kind of rate.
type rate int

const (
	opens rate = iota
	moves
	closes
	expiries
	kills
	writes
	entries
	rateCount
)

// name returns the displayed name.
func (r rate) name() string {
	return [rateCount]string{"opens", "moves", "closes", "expiries", "kills", "tree writes", "log entries"}[r]
}

// counts returns the counters behind the rates, in the order of the rates.
func counts(s *client.Status) [rateCount]uint64 {
	t := &s.Turnover
	return [rateCount]uint64{t.Opens, t.Moves, t.Closes, t.Expiries, t.Kills, t.TreeWrites, s.AppliedIndex}
}

// rates are the rates of the cluster over time. NaN means an unknown rate.
type rates struct {
	before map[string]Node
	values [rateCount][]float64
}

// add adds the rates between the previous sample and this sample. All nodes apply the same log, so one node suffices:
// of the nodes that answered both times, the most recent one. A node that catches up reports old work, and a node whose
// counters fell is another process.
func (r *rates) add(s *Sample) {
	now := make(map[string]Node, len(s.Nodes))
	var best *Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Silent != "" {
			continue
		}
		now[n.Endpoint] = *n
		was, known := r.before[n.Endpoint]
		if known && n.At.After(was.At) && !fell(&was.Status, &n.Status) &&
			(best == nil || client.Outranks(&n.Status, &best.Status)) {
			best = n
		}
	}
	var of [rateCount]float64
	for i := range of {
		of[i] = math.NaN()
	}
	if best != nil {
		was := r.before[best.Endpoint]
		of = between(&was.Status, &best.Status, best.At.Sub(was.At).Seconds())
	}
	r.before = now
	for i, v := range of {
		if len(r.values[i]) == history {
			r.values[i] = r.values[i][1:]
		}
		r.values[i] = append(r.values[i], v)
	}
}

func between(was, is *client.Status, seconds float64) (of [rateCount]float64) {
	from := counts(was)
	for i, n := range counts(is) {
		of[i] = float64(n-from[i]) / seconds
	}
	return of
}

// fell reports whether a counter is lower than before.
func fell(was, is *client.Status) bool {
	before := counts(was)
	for i, n := range counts(is) {
		if n < before[i] {
			return true
		}
	}
	return false
}

// newest returns the newest rate, NaN for none.
func (r *rates) newest(of rate) float64 {
	if all := r.values[of]; len(all) > 0 {
		return all[len(all)-1]
	}
	return math.NaN()
}

// Rates returns the newest known rates, by their names, such as "tree_writes".
func (m *Model) Rates() map[string]float64 {
	all := make(map[string]float64)
	for r := range rateCount {
		if v := m.rates.newest(r); !math.IsNaN(v) {
			all[strings.ReplaceAll(r.name(), " ", "_")] = v
		}
	}
	return all
}

// sparks draws the newest rates, one to a column, scaled to the highest; a space means an unknown rate.
func sparks(all []float64, width int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	all = all[max(0, len(all)-width):]
	top := 0.0
	for _, v := range all {
		if v > top { // not NaN
			top = v
		}
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", width-len(all)))
	for _, v := range all {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case top == 0:
			b.WriteRune(levels[0])
		default:
			b.WriteRune(levels[int(math.Round(v/top*float64(len(levels)-1)))])
		}
	}
	return b.String()
}
