// Package writes_test holds the client's numbering of writes and the node's queue of them against each other, and
// against the writers of the replicated state: rules W3, W4, X1 to X4 and X6 to X9 of docs/tree.md. Messages,
// elections, refusals, restores, moves and callers that give up come by the throw of dice.
package writes_test

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	client "holdfast/client/internal/writes"
	"holdfast/session"
)

var (
	seeds = flag.Int("seeds", 3000, "how many histories")
	first = flag.Uint64("seed", 1, "the number of the first history")
)

// step takes one step of a history.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.random.IntN(40)) * time.Millisecond)
	p := w.all[w.random.IntN(len(w.all))]
	at := w.random.IntN(nodes)
	n := w.nodes[at]
	switch w.random.IntN(24) {
	case 0, 1:
		w.push(p)
	case 2, 3:
		w.sends(p)
	case 4, 5, 6:
		w.takes(p)
	case 7, 8:
		w.reads(p)
	case 9, 10:
		w.forwards(n)
	case 11, 12, 13:
		w.leads(n)
	case 14:
		w.refusals(n)
	case 15, 16:
		w.commits()
	case 17, 18, 19:
		w.applies(at)
	default:
		w.fault(p, at)
	}
}

func (w *world) fault(p *process, at int) {
	if !w.one(w.rarely) {
		return
	}
	n := w.nodes[at]
	switch w.random.IntN(16) {
	case 0:
		w.loses(n)
	case 1:
		w.skips(at)
	case 2, 3:
		w.former()
	case 4:
		w.elect()
	case 5:
		w.notices()
	case 6:
		w.disconnect(p)
	case 7, 8, 9:
		if p.instance == w.head.sessions[p.session].instance || w.one(w.keen) {
			w.move(p)
			if !w.one(5) { // otherwise the process does not hear of it
				w.resume(p)
			}
		}
	case 10:
		w.giveUp(p)
	case 11:
		w.now = w.now.Add(time.Duration(w.random.IntN(12)) * time.Second)
	case 12:
		if w.one(60) {
			w.append(entry{kind: end, session: p.session})
		}
	default:
	}
}

// settle lets everything that happens by itself go on without faults, and requires that every write of a connected
// process is answered (I18). Then it ends the sessions, and requires that every write is told.
func (w *world) settle() {
	w.calm = true
	for _, n := range w.nodes {
		if n.out != nil && n.out.epoch != w.epoch {
			w.loses(n)
		}
	}
	for len(w.deposed) > 0 {
		w.former()
	}
	for range 600 {
		w.now = w.now.Add(100 * time.Millisecond)
		w.turn()
	}
	for _, p := range w.all {
		if p.conn != nil && p.queue.Unanswered() > 0 {
			w.breaks("I18: process %d of session %d waits for %d writes, the next is %d", p.instance, p.session,
				p.queue.Unanswered(), p.queue.Acked()+1)
		}
	}
	for s := range sessions {
		w.append(entry{kind: end, session: session.ID(s + 1)})
	}
	for at := range w.nodes {
		for w.nodes[at].state.applied < len(w.log) {
			w.applies(at)
		}
		if waiting, bytes := w.nodes[at].table.Waiting(); waiting != 0 || bytes != 0 {
			w.breaks("node %d keeps %d sessions and %d bytes after their ends", at, waiting, bytes)
		}
	}
	for _, p := range w.all {
		w.disconnect(p)
		w.hear(p, p.queue.Ended(w.head.sessions[p.session].left, p.instance))
		for _, one := range p.sorted() {
			w.final(p, p.writes[one])
		}
	}
}

// turn lets each part go on.
func (w *world) turn() {
	for _, p := range w.all {
		w.sends(p)
		for range 6 {
			w.takes(p)
		}
	}
	for at, n := range w.nodes {
		w.forwards(n)
		for len(n.out.up) > 0 {
			w.leads(n)
		}
		for len(n.out.down) > 0 {
			w.refusals(n)
		}
		for len(w.taken) > 0 {
			w.commits()
		}
		for n.state.applied < len(w.log) {
			w.applies(at)
		}
	}
	for _, p := range w.all {
		for p.conn != nil && len(p.conn.down) > 0 {
			w.reads(p)
		}
	}
}

// final holds what was told about an operation against its effects, now that nothing can happen any more (I9).
func (w *world) final(p *process, id uint64) {
	all, effects := p.fate[id], len(w.effects[id])
	if len(all) == 0 {
		w.breaks("I18: operation %d was never told", id)
		return
	}
	switch last := all[len(all)-1].Fate; {
	case effects > 1:
		w.breaks("I9: operation %d took effect %d times", id, effects)
	case last == client.Never && effects != 0, (last == client.Done || last == client.TookEffect) && effects != 1:
		w.breaks("I9: operation %d was told %v, and took effect %d times", id, last, effects)
	}
}

// history plays so many steps as long as more reports true, and lets the world settle.
func history(random *rand.Rand, steps int, more func() bool) *world {
	w := newWorld(random)
	for _, p := range w.all {
		if p.instance == 1 {
			w.move(p)
			w.resume(p)
		}
	}
	for n := 0; n < steps && more(); n++ {
		if w.step(); len(w.broken) > 0 {
			return w
		}
	}
	w.settle()
	return w
}

func TestHistories(t *testing.T) {
	seen := map[string]int{}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := history(rand.New(rand.NewPCG(seed, 14)), 700, func() bool { return true })
		if len(w.broken) > 0 {
			t.Fatalf("seed %d: %v", seed, w.broken)
		}
		for what, times := range w.seen {
			seen[what] += times
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[what], what)
	}
	for _, what := range []string{
		"done", "never", "took effect", "unknown", "late", "gave up", "gap", "window", "fenced", "repeat", "skip", "moved",
		"acknowledge", "late commit", "lost tail", "refused by the leader", "refused at the node",
	} {
		if seen[what] == 0 {
			t.Errorf("nothing was seen of %q", what)
		}
	}
}

// dice are thrown by bytes: the high byte of each number is the next one. When they are used up, chance goes on.
type dice struct {
	bytes []byte
	rest  rand.Source
}

// Uint64 implements [rand.Source].
func (d *dice) Uint64() uint64 {
	n := d.rest.Uint64()
	if len(d.bytes) > 0 {
		n = n>>8 | uint64(d.bytes[0])<<56
		d.bytes = d.bytes[1:]
	}
	return n
}

// FuzzHistory lets the fuzzer throw the dice of a history.
func FuzzHistory(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &dice{bytes: b, rest: rand.NewPCG(uint64(len(b)), 3)}
		w := history(rand.New(d), 2000, func() bool { return len(d.bytes) > 0 })
		if len(w.broken) > 0 {
			t.Fatal(w.broken)
		}
	})
}
